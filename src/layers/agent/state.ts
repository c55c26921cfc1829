// The fold of a session's history. Messages, calls, turns and notes are Keyed parts, so that a checkpoint writes only
// the additions. The results of effects are stored here, once, and not in the engine's ledger.

import { type Keyed, keyed } from '../../core/keyed-state/keyed.ts'
import type { Entry } from '../../engine/history/history.ts'
import type { Consumer } from '../../engine/model/rollback-report.ts'
import type { NewEntry } from '../../engine/writing/timeline.ts'
import { addUsage, type Message, type ModelAnswer, noUsage, type Settings, type Usage } from './message.ts'
import type { ToolKind } from './tool.ts'

export interface CallRecord {
  readonly id: string
  readonly turn: number
  readonly tool: string
  readonly kind: ToolKind | 'model'
  /**
   * The digest of tool and arguments, or of the question to the model: calls with the same digest are the same. In
   * older histories, the digest of a model call is its id.
   */
  readonly digest: string
  readonly args: unknown
  /** The number of known attempts. */
  readonly attempt: number
  readonly state: 'waiting' | 'approved' | 'refused' | 'intended' | 'done' | 'failed'
  readonly result?: unknown
  readonly error?: string
  /** Failed attempts that count, while the call is still to be retried. */
  readonly failures?: number
  /** The call failed and is repeated at this time, by the store's clock; its last outcome is known. */
  readonly retryAt?: number
}

export interface TurnRecord {
  readonly turn: number
  readonly key: string | null
  readonly startedSeq: number
  readonly endedSeq: number | null
  readonly usage: Usage
  readonly outcome: string | null
}

/** A call that a rollback could not undo: its effect exists, although this branch never made the call. */
export interface StandingCall {
  readonly tool: string
  readonly digest: string
  readonly args: unknown
  readonly result: unknown
  readonly key: string
}

/** A decision that the session waits for. */
export interface AwaitedDecision {
  readonly kind: 'approval' | 'conflict' | 'in-doubt' | 'handover' | 'interrupt'
  readonly reason: string
  readonly call?: string
  readonly tool?: string
  readonly args?: unknown
  /** The recorded call that is almost the same. */
  readonly standing?: StandingCall
}

export interface FileRecord {
  readonly digest: string
  readonly mode: number
  readonly bytes: number
  readonly link?: string
}

export interface SessionState<Data> {
  turn: number
  status: 'idle' | 'running' | 'waiting'
  data: Data
  plan: unknown
  /** Usage of the current messages. `spentBy` returns the total. */
  usage: Usage
  /** Usage of rolled back turns. */
  lost?: Usage
  /** The part of `lost` that belongs to earlier attempts of a repeated turn. */
  carried?: { readonly turn: number; readonly usage: Usage }
  /** The turn for which a person overruled a handover. */
  overruled?: number
  settings: Settings
  waiting: AwaitedDecision | null
  rollbacks: Readonly<Record<string, number>>
  /** A rollback that was decided and may not be finished: its target and how the session continues. */
  rollingBack: RollbackAsked | null
  /** Another session took over the calls of this one, up to this sequence. */
  merged?: { readonly into: string; readonly seq: number }
  /** The archive of the history before the rollback, once the branch has recorded it. */
  archive: string | null
  standing: readonly StandingCall[]
  cuts: Readonly<Record<string, SessionCut>>
  readonly messages: Keyed<Message>
  readonly calls: Keyed<CallRecord>
  readonly turns: Keyed<TurnRecord>
  readonly notes: Keyed<string>
  readonly streams: Keyed<{ readonly attempt: number; readonly text: string }>
  /** Replaces the messages of the turns through this one in later model calls. */
  summary?: { readonly through: number; readonly content: string }
  /** The real path of each workspace directory when it was captured, by the absolute name that the caller passed. */
  roots?: Readonly<Record<string, string>>
  readonly files: Keyed<FileRecord>
  readonly contents: Keyed<Uint8Array>
}

export interface RollbackAsked {
  readonly toTurn: number
  readonly seq: number
  readonly settings: Settings
  readonly because: string
  readonly guardrail?: string
  /** The turn to repeat after the rollback, or null. */
  readonly again: { readonly input: unknown; readonly key: string | null } | null
  /** For a fork: also undo the inherited calls. */
  readonly undo?: 'inherited'
  /**
   * The timelines that had acted on the undone entries: the rollback was forced. Missing for guardrails and in older
   * histories.
   */
  readonly consumed?: readonly Consumer[]
}

export interface SessionCut {
  readonly members: readonly string[]
  readonly seq: number
  /** Members whose marker has arrived. */
  readonly closed: readonly string[]
  readonly inFlight: readonly { readonly from: string; readonly id: string; readonly content: unknown }[]
}

export function emptySession<Data>(data: Data): SessionState<Data> {
  return {
    turn: 0,
    status: 'idle',
    data,
    plan: null,
    usage: noUsage,
    settings: {},
    waiting: null,
    rollbacks: {},
    rollingBack: null,
    archive: null,
    standing: [],
    cuts: {},
    messages: keyed(),
    calls: keyed(),
    turns: keyed(),
    notes: keyed(),
    streams: keyed(),
    files: keyed(),
    contents: keyed(),
  }
}

/** The session's total usage: a rollback does not reduce it. */
export function spentBy(state: Readonly<SessionState<unknown>>): Usage {
  return addUsage(state.usage, state.lost)
}

/** The usage of a turn, including its rolled back attempts. */
export function spentInTurn(state: Readonly<SessionState<unknown>>, turn: number): Usage {
  const own = state.turns.get(place(turn))?.usage ?? noUsage
  return addUsage(own, state.carried?.turn === turn ? state.carried.usage : undefined)
}

/** Keys that sort in numeric order. @example place(3, 1) // '00000003.0001' */
export function place(turn: number, index?: number): string {
  const first = String(turn).padStart(8, '0')
  return index === undefined ? first : `${first}.${String(index).padStart(4, '0')}`
}

type Data<T> = T extends keyof Entries ? Entries[T] : never

/** The entries of a session, by type. */
export interface Entries {
  'turn.started': { turn: number; input: unknown; key: string | null; from?: string }
  chunk: { id: string; attempt: number; text: string }
  'stream.restarted': { id: string; attempt: number }
  called: CallRecord
  /** `attempt` is that of the stream, if a later call continued it. */
  answered: { id: string; answer: ModelAnswer; attempt?: number }
  /** A summary of the messages through this turn. */
  summarized: { id: string; through: number; content: string; usage?: Partial<Usage> }
  returned: { id: string; result: unknown; by?: 'replay' }
  failed: { id: string; error: string }
  /** An attempt failed and another follows: `n` failures that count so far, the next attempt not before `at`. */
  retry: { id: string; n: number; error: string; at: number }
  'turn.ended': { turn: number; outcome: string }
  /** `of`: the version of the data. `by`: the author of the edit in a fork. */
  edited: { data: unknown; of?: string; by?: string }
  planned: { plan: unknown; by?: string }
  noted: { note: string }
  configured: { settings: Settings }
  interrupted: AwaitedDecision
  decided: { verdict: string; by: string; reason?: string; args?: unknown }
  'rollback.asked': RollbackAsked
  /** Another session took over the entries. */
  merged: { into: string }
  'rolled-back': {
    archive: string
    rollbacks: Record<string, number>
    standing: readonly StandingCall[]
    settings: Settings
    lost?: Usage
    carried?: { readonly turn: number; readonly usage: Usage }
  }
  sent: { to: string; id: string; content: unknown }
  received: { from: string; id: string; content: unknown; cut?: string }
  'cut.recorded': { cut: string; members: readonly string[]; from: string | null }
  'cut.closed': { cut: string; from: string }
  files: {
    set: readonly (readonly [string, FileRecord])[]
    gone: readonly string[]
    contents: readonly (readonly [string, Uint8Array])[]
    root?: readonly [given: string, real: string]
  }
}

export function entry<T extends keyof Entries>(type: T, data: Entries[T]): NewEntry {
  return { type, data }
}

export function messagesOfTurn(state: Readonly<SessionState<unknown>>, turn: number): Message[] {
  const found: Message[] = []
  for (const message of state.messages.values({ reverse: true })) {
    if (message.turn < turn) break
    if (message.turn === turn) found.push(message)
  }
  return found.reverse()
}

export function applyEntry<D>(state: SessionState<D>, entry: Entry): void {
  const apply = appliers[entry.type as keyof Entries] as
    | ((state: SessionState<unknown>, data: unknown, entry: Entry) => void)
    | undefined
  apply?.(state as SessionState<unknown>, entry.data, entry)
}

type Appliers = { [T in keyof Entries]: (state: SessionState<unknown>, data: Data<T>, entry: Entry) => void }

const appliers: Appliers = {
  'turn.started'(state, { turn, input, key, from }, { seq }) {
    state.turn = turn
    state.status = 'running'
    state.waiting = null
    state.turns.set(place(turn), { turn, key, startedSeq: seq, endedSeq: null, usage: noUsage, outcome: null })
    addMessage(state, {
      role: from === undefined ? 'user' : 'agent',
      content: input,
      turn,
      ...(from !== undefined && { from }),
    })
  },
  chunk(state, { id, attempt, text }) {
    const before = state.streams.get(id)
    state.streams.set(id, { attempt, text: before?.attempt === attempt ? before.text + text : text })
  },
  'stream.restarted'(state, { id, attempt }) {
    state.streams.set(id, { attempt, text: '' })
  },
  called(state, call) {
    state.calls.set(call.id, call)
  },
  answered(state, { id, answer, attempt: begun }) {
    const call = state.calls.get(id)
    // The answer is stored as a message, and not again with its call.
    if (call) state.calls.set(id, { ...call, state: 'done' })
    state.streams.delete(id)
    const { content, requests = [], usage, note, plan } = answer
    const shown = begun ?? call?.attempt ?? 1
    const attempt = shown > 1 ? { attempt: shown } : {}
    addMessage(state, {
      role: 'assistant',
      content,
      turn: state.turn,
      ...(requests.length > 0 && { requests }),
      ...attempt,
    })
    if (note !== undefined) state.notes.set(place(state.notes.size), note)
    if (plan !== undefined) state.plan = plan
    spend(state, usage)
  },
  summarized(state, { id, through, content, usage }) {
    const call = state.calls.get(id)
    if (call) state.calls.set(id, { ...call, state: 'done' })
    state.summary = { through, content }
    spend(state, usage)
  },
  returned(state, { id, result, by }) {
    const call = state.calls.get(id)!
    state.calls.set(id, { ...call, state: 'done', result })
    if (by === 'replay') state.standing = withoutFirst(state.standing, (one) => one.digest === call.digest)
    addAnswer(state, { role: 'tool', content: result, turn: call.turn, answers: id })
  },
  failed(state, { id, error }) {
    const { failures: _, retryAt: __, ...call } = state.calls.get(id)!
    state.calls.set(id, { ...call, state: 'failed', error })
    state.streams.delete(id)
    if (call.kind !== 'model') {
      addAnswer(state, { role: 'tool', content: error, turn: call.turn, answers: id, isError: true })
    }
  },
  retry(state, { id, n, error, at }) {
    state.calls.set(id, { ...state.calls.get(id)!, error, failures: n, retryAt: at })
    state.streams.delete(id)
  },
  'turn.ended'(state, { turn, outcome }, { seq }) {
    state.status = 'idle'
    const record = state.turns.get(place(turn))
    if (record) state.turns.set(place(turn), { ...record, endedSeq: seq, outcome })
  },
  edited(state, { data }) {
    state.data = data
  },
  planned(state, { plan }) {
    state.plan = plan
  },
  noted(state, { note }) {
    state.notes.set(place(state.notes.size), note)
  },
  configured(state, { settings }) {
    state.settings = { ...state.settings, ...settings }
  },
  interrupted(state, waiting) {
    state.status = 'waiting'
    state.waiting = waiting
  },
  decided(state, { verdict, reason, args }) {
    const { call, standing, kind } = state.waiting ?? {}
    if (kind === 'handover' && verdict === 'approve') state.overruled = state.turn
    const record = call === undefined ? undefined : state.calls.get(call)
    if (record && verdict === 'approve') {
      state.calls.set(record.id, { ...record, state: 'approved', ...(args !== undefined && { args }) })
    } else if (record && verdict === 'refuse') {
      state.calls.set(record.id, { ...record, state: 'failed', error: reason ?? 'refused' })
      addMessage(state, {
        role: 'tool',
        content: reason ?? 'refused',
        turn: record.turn,
        answers: record.id,
        isError: true,
      })
    } else if (record && verdict === 'replay' && standing) {
      state.calls.set(record.id, { ...record, state: 'done', result: standing.result })
      state.standing = withoutFirst(state.standing, (one) => one.key === standing.key)
      addMessage(state, { role: 'tool', content: standing.result, turn: record.turn, answers: record.id })
    }
    state.status = state.turns.get(place(state.turn))?.endedSeq === null ? 'running' : 'idle'
    state.waiting = null
  },
  'rollback.asked'(state, request) {
    state.rollingBack = request
  },
  'rolled-back'(state, { archive, rollbacks, standing, settings, lost, carried }) {
    if (lost) state.lost = lost
    if (carried) state.carried = carried
    else delete state.carried
    state.rollingBack = null
    state.archive = archive
    state.rollbacks = rollbacks
    state.standing = [...state.standing, ...standing]
    state.settings = { ...state.settings, ...settings }
    state.waiting = null
    state.status = 'idle'
  },
  merged(state, { into }, { seq }) {
    state.merged = { into, seq }
  },
  sent() {},
  received(state, { from, id, content, cut }) {
    if (cut !== undefined) {
      const at = state.cuts[cut]!
      state.cuts = { ...state.cuts, [cut]: { ...at, inFlight: [...at.inFlight, { from, id, content }] } }
    }
    addMessage(state, { role: 'agent', content, turn: state.turn, from })
  },
  'cut.recorded'(state, { cut, members, from }, { seq }) {
    const closed = from === null ? [] : [from]
    state.cuts = { ...state.cuts, [cut]: { members, seq, closed, inFlight: [] } }
  },
  'cut.closed'(state, { cut, from }) {
    const at = state.cuts[cut]!
    state.cuts = { ...state.cuts, [cut]: { ...at, closed: [...at.closed, from] } }
  },
  files(state, { set, gone, contents, root }) {
    if (root) state.roots = { ...state.roots, [root[0]]: root[1] }
    for (const path of gone) state.files.delete(path)
    for (const [path, file] of set) state.files.set(path, file)
    for (const [digest, bytes] of contents) state.contents.set(digest, bytes)
    const needed = new Set([...state.files.values()].map((file) => file.digest))
    for (const digest of [...state.contents.keys()]) if (!needed.has(digest)) state.contents.delete(digest)
  },
}

function spend(state: SessionState<unknown>, usage: Partial<Usage> | undefined): void {
  state.usage = addUsage(state.usage, usage)
  const turn = state.turns.get(place(state.turn))
  if (turn) state.turns.set(place(state.turn), { ...turn, usage: addUsage(turn.usage, usage) })
}

function addMessage(state: SessionState<unknown>, message: Message): void {
  state.messages.set(place(state.messages.size), message)
}

/**
 * Parallel calls return in any order. Their results are shown to the model in the order of its requests, so that the
 * next question does not depend on timing.
 */
function addAnswer(state: SessionState<unknown>, message: Message): void {
  let at = state.messages.size
  for (; at > 0; at--) {
    const before = state.messages.get(place(at - 1))!
    if (before.turn !== message.turn || !isRequested(before) || !isRequested(message)) break
    if (before.answers! < message.answers!) break
    state.messages.set(place(at), before)
  }
  state.messages.set(place(at), message)
}

/** Calls from the user's own code stay at their position. */
function isRequested({ role, answers }: Message): boolean {
  return role === 'tool' && answers !== undefined && !answers.includes('m')
}

function withoutFirst<T>(list: readonly T[], matches: (item: T) => boolean): readonly T[] {
  const at = list.findIndex(matches)
  return at < 0 ? list : [...list.slice(0, at), ...list.slice(at + 1)]
}
