// Mail of a run: signals, updates, results of children, and what people ask of it. It becomes part of history in the same
// commit that takes it out of the inbox, so each message counts once.

import type { MessageId } from '../../../core/coordinate.ts'
import { RepriseError } from '../../../core/errors.ts'
import { type DatedMail, dateMail, nextFacts } from '../../../core/history/order-of-facts.ts'
import type { Message } from '../../../core/store/ports.ts'
import type { Kernel } from '../../../engine/storage/kernel.ts'
import type { OpenTimeline } from '../../../engine/writing/timeline.ts'
import type { CommitExtras } from '../../../engine/writing/writer.ts'
import { mailFault } from '../history/shapes.ts'
import { noCommand, own, type RunState } from '../history/state.ts'
import type { CommandRun } from './asking.ts'
import type { Recorder } from './recorder.ts'

type Dated = DatedMail<Message>['messages']
type Draft = { readonly type: string; readonly data: unknown }

// biome-ignore lint/suspicious/noExplicitAny: each kind of message has the fields that its sender gives it.
type Data = any

const atOnce = 100

/** What makes a run begin that waits for its turn. */
const begins = new Set(['admitted', 'cancel'])

const isTurn = new Set(['rollback', 'terminate'])

/** Behind a rollback that has to wait, these wait too: they are for the run as it is after it. */
const waitsForRollback = new Set(['rollback', 'signal', 'update'])

/** What mail needs of its run. */
export interface MailedRun extends Pick<CommandRun, 'state' | 'execution' | 'alarms' | 'isLeaving' | 'now' | 'spawn'> {
  readonly kernel: Pick<Kernel, 'clock' | 'events' | 'planted'>
  readonly open: Pick<OpenTimeline<RunState>, 'mail'>
  readonly ending: { readonly isConcluding: boolean; readonly isEnding: boolean }
  readonly recorder: Pick<Recorder, 'noteTime'>
  readonly cancelled: unknown
  readonly isPaused: boolean
  /** Calls are in flight. */
  readonly isCalling: boolean
  /** All of history was delivered, and the code waits. */
  readonly isAtRest: boolean
  /** Resolves when that is so. */
  atRest(): Promise<void>
  readMessage(message: Message): unknown
  write(entries: readonly Draft[], along: CommitExtras): Promise<unknown>
  terminate(entry: Draft, consume: readonly MessageId[]): Promise<void>
}

export class Mail {
  /** When somebody last looked whether there is any; by the clock that only grows. */
  lookedAt: number
  readonly #run: MailedRun
  #reading: Promise<number> | null = null
  /** How many messages wait for a rollback that waits. */
  #deferred = 0
  /** They wait for one that is under way. */
  #isRolling = false

  constructor(run: MailedRun) {
    this.#run = run
    this.lookedAt = run.kernel.clock.elapsed()
  }

  /** Takes what is there, and rings what is due, in the order of facts. Says how many of both. */
  read(): Promise<number> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = null
    })
    return this.#reading
  }

  /** An alarm may be due: only a read that begins now can tell what came before it. */
  alarmed(): void {
    const run = this.#run
    if (run.kernel.planted.has('alarm-before-mail'))
      for (const alarm of run.alarms.all()) run.spawn(() => run.alarms.ring(alarm))
    else run.spawn(() => this.#readAnew())
  }

  /** No read is under way, and what it took was delivered. */
  get isIdle(): boolean {
    return this.#reading === null && this.#run.isAtRest
  }

  /** Resolves when that is so. */
  async idle(): Promise<void> {
    while (this.#reading) await this.#reading
    await this.#run.atRest()
  }

  /** Mail waits that cannot be taken yet. */
  get isDeferring(): boolean {
    return this.#deferred > 0
  }

  /** What had to wait until calls in flight came to an end. */
  readDeferred(): void {
    if (this.#deferred === 0) return
    if (this.#isRolling ? this.#run.state.rolling !== null : !this.#mayRollBack()) return
    this.#deferred = 0
    this.#run.spawn(() => this.read())
  }

  /** One that is under way may have begun too early. */
  async #readAnew(): Promise<void> {
    await this.#reading
    await this.read()
  }

  async #read(): Promise<number> {
    const run = this.#run
    // Before that nobody knows which alarms there are.
    await run.atRest()
    if (!this.#mayAct) return 0
    // Those that wait must not hide what comes after them: it may be what the rollback waits for.
    const limit = atOnce + this.#deferred
    const { messages, now } = await run.open.mail(limit)
    const isWhole = messages.length < limit
    const { reach, messages: dated } = dateMail(messages, now, isWhole)
    run.recorder.noteTime(Math.max(now, reach))
    const ignoresAlarms = run.kernel.planted.has('mail-before-alarm')
    let rest = dated
    let done = 0
    for (;;) {
      await run.atRest()
      if (!this.#mayAct) return done
      const waiting = this.#waiting(rest.map(({ message }) => message))
      const alarms = run.ending.isConcluding || (ignoresAlarms && rest.length > 0) ? [] : run.alarms.all()
      const page = { messages: untilTurn(rest, waiting), reach }
      const next = nextFacts(page, alarms, (message) => waiting.has(message))
      if (next.messages.length > 0) await this.#take(next.messages)
      await Promise.all(next.alarms.map((alarm) => run.alarms.ring(alarm)))
      const count = next.messages.length + next.alarms.length
      done += count
      rest = rest.filter(({ message }) => !next.messages.includes(message))
      if (count > 0) continue
      this.#deferred = rest.length
      this.#isRolling = run.state.rolling !== null
      if (!isWhole) return done + (await this.#read())
      run.alarms.wasRead(now, next.heldSince)
      return done
    }
  }

  get #mayAct(): boolean {
    const { isLeaving, ending, isPaused } = this.#run
    return !isLeaving && !ending.isEnding && !isPaused
  }

  /** The messages that wait for a rollback: for one that has to wait itself, or one that is under way. */
  #waiting(messages: readonly Message[]): ReadonlySet<Message> {
    const waiting = new Set<Message>()
    const mayRollBack = this.#mayRollBack()
    let isWaiting = this.#run.state.rolling !== null
    for (const message of messages) {
      isWaiting ||= message.kind === 'rollback' && !mayRollBack
      if (isWaiting && waitsForRollback.has(message.kind)) waiting.add(message)
    }
    return waiting
  }

  async #take(messages: readonly Message[]): Promise<void> {
    const run = this.#run
    const { state } = run
    const consume: MessageId[] = []
    const drafts: Draft[] = []
    const settled = new Set<string>()
    for (const message of messages) {
      const data = run.readMessage(message) as Data
      consume.push(message.id)
      const fault = mailFault(message.kind, data)
      if (fault !== null) {
        run.kernel.events.emit('problem', { where: message.to, error: malformed(message, fault) })
        continue
      }
      // The first word on a step counts: the state does not have it yet.
      if (message.kind === 'settle' && settled.size === settled.add(data.id).size) continue
      drafts.push(...this.#entriesFor(message.kind, message.id, data))
    }
    const end = drafts.find((draft) => draft.type === 'terminated')
    if (end) return await run.terminate(end, consume)
    // Due from now on: if this process dies, there is no more mail to bring the run back.
    const isQueued = state.started?.queue && !state.isAdmitted && !drafts.some(({ type }) => begins.has(type))
    await run.write(drafts, { consume, status: isQueued ? 'queued' : 'running', wakeup: run.now() })
  }

  #entriesFor(kind: string, id: string, data: Data): Draft[] {
    const { state, cancelled } = this.#run
    switch (kind) {
      case 'signal':
        return [{ type: 'signal', data }]
      case 'update':
        return [{ type: 'update', data: { update: id, name: data.name, args: data.args } }]
      case 'cancel':
        return cancelled ? [] : [{ type: 'cancel', data: { reason: data.reason, why: 'cancel', ...undoIn(data) } }]
      case 'terminate':
        return [{ type: 'terminated', data: { reason: data.reason } }]
      case 'child': {
        const [generation, command] = splitOnce(data.command)
        const { result, error } = data
        const isOurs = Number(generation) === state.generation
        return isOurs ? [{ type: 'child', data: { id: command, ...(error ? { error } : { result }) } }] : []
      }
      case 'settle':
        return this.#settle(data)
      case 'resume':
        return [{ type: 'resumed', data: { by: data.by } }]
      case 'rollback':
        return [{ type: 'rollback', data }]
      case 'admit':
        return state.isAdmitted ? [] : [{ type: 'admitted', data: {} }]
      default:
        // From a newer version, or a guest: history must not choke on it.
        return []
    }
  }

  /** A person says what became of a held step or a stuck compensation. */
  #settle(data: Data): Draft[] {
    const { state } = this.#run
    const { id, outcome, by, result, error } = data
    if (Object.hasOwn(state.undos, id)) {
      if (outcome === 'compensated') return [{ type: 'undone', data: { id, by } }]
      return outcome === 'retry' ? [{ type: 'resumed', data: { by } }] : []
    }
    if (!own(state.open, id, noCommand).held) return []
    if (outcome === 'retry') return [{ type: 'settled', data: { id, by } }]
    const failed = {
      type: 'failed',
      data: { id, error: error ?? { name: 'Error', message: 'it was undone by hand' }, by },
    }
    if (outcome === 'failed') return [failed]
    // It happened and was undone: code that goes on as if it had happened would be wrong, and so would another undo.
    if (outcome === 'compensated') return [failed, { type: 'undone', data: { id, by } }]
    return [{ type: 'done', data: { id, result, by } }]
  }

  /** Only when it is known what became of everything that may have to be undone. */
  #mayRollBack(): boolean {
    const { execution, isCalling, state } = this.#run
    return execution && !execution.isReplaying && !execution.isUndoable && !isCalling && state.rolling === null
  }
}

/** What follows a rollback or an end belongs to the run as it is after it. */
function untilTurn(messages: Dated, waiting: ReadonlySet<Message>): Dated {
  const turn = messages.findIndex(({ message }) => isTurn.has(message.kind) && !waiting.has(message))
  return turn === -1 ? messages : messages.slice(0, turn + 1)
}

function undoIn({ undo }: Data): { readonly undo?: string } {
  return undo === undefined ? {} : { undo }
}

/** It is taken out of the inbox, and nothing comes of it but this. */
function malformed({ id, kind, to }: Message, fault: string): RepriseError {
  return new RepriseError('MALFORMED', `${to}: the message ${id} of the kind ${kind} was dropped: ${fault}`, {
    id,
    kind,
  })
}

function splitOnce(text: string): [string, string] {
  const at = text.indexOf(':')
  return [text.slice(0, at), text.slice(at + 1)]
}
