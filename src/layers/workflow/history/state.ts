// The state of a run: its history folded into the data that a replay needs. The journal holds outcomes in order; a loop
// boundary drops the outcomes of the last iteration, so the journal is only as long as the code since that boundary.

import { RepriseError } from '../../../core/errors.ts'
import type { Writable } from '../../../core/writable.ts'
import type { Entry } from '../../../engine/history/history.ts'
import type { Fold } from '../../../engine/model/definition.ts'
import type { End, Item, NotedWait, Standing, Started } from './entries.ts'
import type { Failure } from './failure.ts'
import { appended, itemsOf, type Journal, journalOf, journalUpTo } from './journal.ts'
import { checkEntry } from './shapes.ts'

/** A command that began and has no outcome yet. */
export interface OpenCommand {
  readonly began: boolean
  readonly failures: number
  readonly notBefore: number
  readonly error: Failure | null
  readonly details: unknown
  readonly held: boolean
  /** The idempotency key, once recorded. */
  readonly key?: string
}

export interface Undo {
  readonly failures: number
  readonly notBefore: number
  readonly error: Failure | null
  readonly isStuck: boolean
}

export interface RunState {
  readonly started: Started | null
  readonly startedAt: number
  readonly input: unknown
  /** Grows when commands are called again after an undo: their keys must differ. */
  readonly generation: number
  /** The identity of this life of the run, or of the fork; part of every key. Missing in older runs. */
  readonly identity?: string
  /** Mixed into random values drawn after the outcome `after`. Missing in runs with a short seed (run/chance.ts). */
  readonly salts?: readonly { readonly after: number; readonly salt: string }[]
  /** The run's name, and its life if not the first. Ids of children begin with it. */
  readonly keyBase: string
  /** The run's queue has admitted it, or it has none. */
  readonly isAdmitted: boolean
  readonly journal: Journal
  readonly lastAt: number
  readonly open: Readonly<Record<string, OpenCommand>>
  readonly patches: Readonly<Record<string, true>>
  readonly undone: Readonly<Record<string, string>>
  readonly undos: Readonly<Record<string, Undo>>
  readonly updates: Readonly<Record<string, { readonly result?: unknown; readonly error?: Failure }>>
  readonly rolling: {
    readonly to: string
    readonly input?: unknown
    readonly hasInput: boolean
    /** Mail that was read after this sequence is undone as well. */
    readonly seq?: number
    /** If set, the run ends with this reason once it is undone. */
    readonly ends?: string
  } | null
  /**
   * Set when the run was restored to before its saga because a compensation failed for good; the run is held until a
   * person resumes it. Missing in old states.
   */
  readonly restored?: {
    readonly to: string
    readonly stands: readonly Standing[]
    readonly undone: readonly string[]
    readonly error: Failure
    readonly isHeld: boolean
  } | null
  /** The waits when the run last left memory; null once another entry follows. */
  readonly waits: readonly NotedWait[] | null
  /** For a fork: a person chose to undo the inherited steps as well. */
  readonly undoesInherited?: boolean
  readonly end: End | null
}

export const noCommand: OpenCommand = {
  began: false,
  failures: 0,
  notBefore: 0,
  error: null,
  details: undefined,
  held: false,
}
export const noUndo: Undo = { failures: 0, notBefore: 0, error: null, isStuck: false }

const initial: RunState = {
  started: null,
  startedAt: 0,
  input: undefined,
  generation: 0,
  keyBase: '',
  isAdmitted: false,
  journal: journalOf([]),
  lastAt: 0,
  open: {},
  patches: {},
  undone: {},
  undos: {},
  updates: {},
  rolling: null,
  waits: null,
  end: null,
}

const updatesKept = 200

export const workflowFold: Fold<RunState> = {
  version: 'workflow-1',
  initial: () => ({ ...initial, journal: journalOf([]) }),
  apply,
  retain: { checkpoints: 2, history: 'needed' },
}

// biome-ignore lint/suspicious/noExplicitAny: entries.ts lists the fields of each entry.
type Data = any

function apply(state: RunState, entry: Entry): RunState {
  const data = entry.data as Data
  checkEntry(entry.type, data)
  const lastAt = Math.max(state.lastAt, entry.time)
  const next: Writable<RunState> = { ...state }
  next.lastAt = lastAt
  next.waits = null
  // By far the most frequent type.
  if (entry.type === 'done') {
    next.open = without(state.open, data.id)
    next.journal = appended(state.journal, itemOf(entry)!)
    return next
  }
  switch (entry.type) {
    case 'started':
      return {
        ...next,
        started: data,
        startedAt: entry.time,
        input: data.input,
        ...identified(entry.timeline, data),
        ...(typeof data.seed === 'string' && { salts: [{ after: 0, salt: data.seed }] }),
        isAdmitted: !data.queue,
      }
    case 'began':
      return withOpen(next, data.id, { began: true, ...keyed(data) })
    case 'retry':
      return withOpen(next, data.id, {
        failures: data.n,
        notBefore: data.at,
        error: data.error,
        began: false,
        ...(data.details !== undefined && { details: data.details }),
        ...keyed(data),
      })
    case 'beat':
      return withOpen(next, data.id, { details: data.details })
    case 'held':
      return withOpen(next, data.id, { held: true })
    case 'settled':
      return withOpen(next, data.id, { held: false, began: false })
    case 'rode':
      return { ...next, journal: withSqlResult(state.journal, data.id, data.result) }
    case 'failed':
    case 'timer':
    case 'child':
    case 'signal':
    case 'update':
      return { ...next, ...withOutcome(state, entry, data.id) }
    case 'cancel':
      // A run that is cancelled while it waits in its queue is admitted at once, so that it can end.
      return { ...next, ...withOutcome(state, entry, undefined), isAdmitted: true, ...undoOf(data) }
    case 'updated': {
      const { update, refused, ...outcome } = data
      if (refused) next.journal = withoutUpdate(state.journal, update)
      return { ...next, updates: bounded({ ...state.updates, [update]: outcome }, updatesKept) }
    }
    case 'patched':
      return { ...next, patches: { ...state.patches, [data.id]: true } }
    case 'loop':
      return { ...next, ...afterIteration(state, data.id, new Set(data.took), itemOf(entry)!) }
    case 'undoing':
      return next
    case 'waits':
      next.waits = data.for
      return next
    case 'admitted':
      return { ...next, isAdmitted: true }
    case 'undo.retry':
      return withUndo(next, data.id, { failures: data.n, notBefore: data.at, error: data.error })
    case 'stuck':
      return withUndo(next, data.id, { isStuck: true, error: data.error })
    case 'restored':
      return { ...atGeneration(next, data.to), restored: { ...data, isHeld: true } }
    case 'resumed':
      return {
        ...next,
        undos: {},
        ...(state.restored?.isHeld && { restored: { ...state.restored, isHeld: false } }),
      }
    case 'undone':
      return { ...next, undone: { ...state.undone, [data.id]: data.by ?? '' }, undos: without(state.undos, data.id) }
    case 'continued':
      return { ...afresh(next), input: data.input, journal: journalOf(keptMail(state.journal, data.took)) }
    case 'rollback':
      return {
        ...next,
        end: null,
        ...undoOf(data),
        rolling: {
          to: data.to,
          input: data.input,
          hasInput: 'input' in data,
          ...(data.seq !== undefined && { seq: data.seq }),
        },
      }
    case 'undo':
      return { ...next, end: null, ...undoOf(data), rolling: { to: '', hasInput: false, ends: data.reason } }
    case 'rolled':
      return { ...atGeneration(next, data.to, data.seq), ...('input' in data && { input: data.input }) }
    case 'retried': {
      const ids = new Set<string>(data.ids)
      const journal = journalOf(
        itemsOf(state.journal).filter((item) => !('id' in item && ids.has(item.id)) && item.kind !== 'cancel'),
      )
      return { ...next, journal, end: null }
    }
    case 'forked':
      return {
        ...next,
        ...(data.isCopy
          ? { identity: data.identity }
          : { ...identified(entry.timeline, data), end: null, rolling: null }),
        ...(data.seed !== undefined && { salts: [...(state.salts ?? []), { after: data.after, salt: data.seed }] }),
        open: withoutKeys(state.open),
        ...(data.owns && { ...withoutOriginal(state), rolling: null }),
        ...('input' in data && { input: data.input }),
      }
    case 'completed':
    case 'terminated':
      return { ...next, end: endOf(entry) }
    case 'ended-badly':
      return { ...next, rolling: null, end: endOf(entry) }
    default:
      throw new RepriseError('INCOMPATIBLE_VERSION', `a run has an entry of the unknown type ${entry.type}`, {
        timeline: entry.timeline,
        seq: entry.seq,
        type: entry.type,
      })
  }
}

/** The end of a run, from its last entry; null if the run has not ended. */
export function endOf({ type, data: given, time: at }: Pick<Entry, 'type' | 'data' | 'time'>): End | null {
  const data = given as Data
  switch (type) {
    case 'completed':
      return { kind: 'completed', result: data.result, at }
    case 'ended-badly': {
      const kind = data.cancelled ? 'cancelled' : 'failed'
      return { kind, error: data.error, at, ...(data.undone && { undone: true }) }
    }
    case 'terminated':
      return { kind: 'terminated', reason: data.reason, at }
    default:
      return null
  }
}

/** Removes the original's responsibilities from a fork: queue place, parent, and calls and undos in flight. */
function withoutOriginal({ started }: RunState): Partial<RunState> {
  const { parent: _, ...rest } = started!
  return { started: rest, isAdmitted: !rest.queue, open: {}, undos: {}, undoesInherited: false }
}

function undoOf(data: Data): { readonly undoesInherited?: true } {
  return data.undo === 'inherited' ? { undoesInherited: true } : {}
}

/** The state before that command, with keys of a new generation: repeated calls must not reuse the keys of undone ones. */
function atGeneration(state: RunState, to: string, seq?: number): RunState {
  const generation = state.generation + 1
  const journal = journalUpTo(state.journal, to, seq)
  const kept = new Set(itemsOf(journal).map((item) => ('id' in item ? item.id : '')))
  const after = lastSeq(journal)
  return {
    ...{ ...state, generation },
    // Random values drawn before that command stay the same.
    ...(state.salts && {
      salts: [
        ...state.salts.map((salt) => (salt.after > after ? { ...salt, after } : salt)),
        { after, salt: String(generation) },
      ],
    }),
    journal,
    open: {},
    // Earlier steps that are already undone stay undone.
    undone: dropInside(state.undone, (id) => !kept.has(id)),
    undos: {},
    undoesInherited: false,
    rolling: null,
    end: null,
  }
}

function withOutcome(state: RunState, entry: Entry, id: string | undefined): Pick<RunState, 'open' | 'journal'> {
  return { open: without(state.open, id), journal: appended(state.journal, itemOf(entry)!) }
}

/** The item that is delivered to code; null if the entry is only bookkeeping. */
export function itemOf(entry: Pick<Entry, 'type' | 'data' | 'time' | 'seq'>): Item | null {
  const data = entry.data as Data
  const { time: at, seq } = entry
  switch (entry.type) {
    case 'done':
      return {
        kind: 'done',
        ...{ id: data.id, result: data.result, rode: data.rode ?? null },
        ...replaced(data),
        ...keyed(data),
        ...{ at, seq },
      }
    case 'failed':
      return { kind: 'failed', id: data.id, error: data.error, ...keyed(data), at, seq }
    case 'timer':
      return { kind: 'timer', id: data.id, at, seq }
    case 'child':
      return { kind: 'child', id: data.id, result: data.result, error: data.error ?? null, ...replaced(data), at, seq }
    case 'signal':
      return { kind: 'signal', name: data.name, value: data.value, at, seq }
    case 'update':
      return { kind: 'update', update: data.update, name: data.name, args: data.args, at, seq }
    case 'cancel':
      return { kind: 'cancel', reason: data.reason, why: data.why, at, seq }
    case 'loop':
      return { kind: 'loop', id: data.id, n: data.n, state: data.state, told: data.told ?? false, at, seq }
    default:
      return null
  }
}

function replaced({ replaces }: Data): { readonly replaces?: number } {
  return replaces === undefined ? {} : { replaces }
}

/** The sequence of the last outcome; 0 if there is none. */
export function lastSeq(journal: Journal): number {
  return journal.length === 0 ? 0 : journal.items[journal.length - 1]!.seq
}

function identified(timeline: string, { identity, life }: Data): Pick<RunState, 'identity' | 'keyBase'> {
  return { keyBase: life === undefined ? timeline : `${timeline}@${life}`, ...(identity !== undefined && { identity }) }
}

function keyed({ key }: Data): { readonly key?: string } {
  return key === undefined ? {} : { key }
}

/** A fork calls under its own keys. */
function withoutKeys(open: RunState['open']): RunState['open'] {
  return Object.fromEntries(Object.entries(open).map(([id, { key: _gone, ...command }]) => [id, command]))
}

/** Reads an own property only: names are users' text and may match inherited ones. */
export function own<T>(record: Readonly<Record<string, T>>, id: string, otherwise: T): T {
  return Object.hasOwn(record, id) ? record[id]! : otherwise
}

function withOpen(state: RunState, id: string, change: Partial<OpenCommand>): RunState {
  return { ...state, open: { ...state.open, [id]: { ...own(state.open, id, noCommand), ...change } } }
}

function withUndo(state: RunState, id: string, change: Partial<Undo>): RunState {
  return { ...state, undos: { ...state.undos, [id]: { ...own(state.undos, id, noUndo), ...change } } }
}

function without<T>(record: Readonly<Record<string, T>>, id: string | undefined): Readonly<Record<string, T>> {
  if (id === undefined || !Object.hasOwn(record, id)) return record
  const { [id]: _gone, ...rest } = record
  return rest
}

function withSqlResult(journal: Journal, id: string, result: unknown): Journal {
  return journalOf(
    itemsOf(journal).map((item) => (item.kind === 'done' && item.id === id ? { ...item, result, rode: null } : item)),
  )
}

/** Removes a refused update, so that later code does not find it. */
function withoutUpdate(journal: Journal, update: string): Journal {
  return journalOf(itemsOf(journal).filter((item) => !(item.kind === 'update' && item.update === update)))
}

/** Drops the entries of earlier iterations of this loop, with the signals that they took. */
function afterIteration(
  state: RunState,
  loop: string,
  took: ReadonlySet<number>,
  boundary: Item,
): Pick<RunState, 'journal' | 'open' | 'undone' | 'patches'> {
  const inside = (id: string) => id === loop || id.startsWith(`${loop}.`)
  const kept = itemsOf(state.journal).filter(
    (item) => !('id' in item && inside(item.id)) && !(item.kind === 'signal' && took.has(item.seq)),
  )
  return {
    journal: journalOf([...kept, boundary]),
    open: dropInside(state.open, inside),
    undone: dropInside(state.undone, inside),
    patches: dropInside(state.patches, inside),
  }
}

function dropInside<T>(
  record: Readonly<Record<string, T>>,
  inside: (id: string) => boolean,
): Readonly<Record<string, T>> {
  for (const id in record) {
    if (inside(id)) return Object.fromEntries(Object.entries(record).filter(([each]) => !inside(each)))
  }
  return record
}

function afresh(state: RunState): RunState {
  const generation = state.generation + 1
  const salt = [...(state.salts ?? []).map((each) => each.salt), generation].join('.')
  return {
    ...state,
    generation,
    ...(state.salts && { salts: [{ after: 0, salt }] }),
    open: {},
    patches: {},
    undone: {},
    undos: {},
    rolling: null,
    end: null,
  }
}

/** Signals and updates that no code took; empty if `took` is null. */
function keptMail(journal: Journal, took: readonly number[] | null): Item[] {
  if (took === null) return []
  const taken = new Set(took)
  return itemsOf(journal).filter((item) => (item.kind === 'signal' || item.kind === 'update') && !taken.has(item.seq))
}

function bounded<T>(record: Readonly<Record<string, T>>, max: number): Readonly<Record<string, T>> {
  const keys = Object.keys(record)
  if (keys.length <= max) return record
  return Object.fromEntries(Object.entries(record).slice(keys.length - max))
}
