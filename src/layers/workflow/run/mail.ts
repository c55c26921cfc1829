// Mail of a run: signals, updates, results of children, and requests of people. The commit that removes a message from
// the inbox adds it to history, so each message counts once.

import type { MessageId } from '../../../core/coordinate.ts'
import { isReprise } from '../../../core/errors.ts'
import { type DatedMail, dateMail, nextFacts } from '../../../core/history/order-of-facts.ts'
import type { Message } from '../../../core/store/ports.ts'
import { reportDropped } from '../../../engine/host/shaped-mail.ts'
import type { Kernel } from '../../../engine/storage/kernel.ts'
import type { OpenTimeline } from '../../../engine/writing/timeline.ts'
import type { CommitExtras } from '../../../engine/writing/writer.ts'
import { commandLink, commandOfLink } from '../history/child-mail.ts'
import { planRerun } from '../history/rerun.ts'
import { mailFault } from '../history/shapes.ts'
import { noCommand, own, type RunState, wasAsked } from '../history/state.ts'
import type { CommandRun } from './command-host.ts'
import type { Execution } from './execution.ts'
import type { Recorder } from './recorder.ts'
import { leaveScope } from './scope.ts'

type Dated = DatedMail<Message>['messages']
type Draft = { readonly type: string; readonly data: unknown }

// biome-ignore lint/suspicious/noExplicitAny: each kind of message has its own fields.
type Data = any

const atOnce = 100

/** Messages that make a queued run begin. */
const begins = new Set(['admitted', 'cancel'])

const isTurn = new Set(['rollback', 'rerun', 'terminate'])

/** Messages that wait behind a deferred rollback: they are for the run after it. */
const waitsForRollback = new Set(['rollback', 'rerun', 'signal', 'update'])

/** The parts of a run that mail uses. */
export interface MailedRun extends Pick<CommandRun, 'state' | 'alarms' | 'tenure' | 'now' | 'spawn'> {
  readonly kernel: Pick<Kernel, 'clock' | 'events' | 'planted'>
  readonly open: Pick<OpenTimeline<RunState>, 'mail' | 'id'>
  readonly host: { readonly engine: { openMessage(message: Message): unknown } }
  readonly code: {
    /** Undefined until the code has begun. */
    readonly execution: Execution
    readonly ending: {
      readonly isConcluding: boolean
      readonly isEnding: boolean
      terminate(entry: Draft, extras: CommitExtras): Promise<void>
    }
    readonly cancelled: unknown
    /** All of history was delivered, and the code waits. */
    readonly isAtRest: boolean
    /** Resolves when `isAtRest` is true. */
    atRest(): Promise<void>
  }
  readonly calls: { readonly isCalling: boolean }
  readonly recorder: Pick<Recorder, 'noteTime' | 'write'>
  readonly residency: { readonly isPaused: boolean }
}

export class Mail {
  /** The time of the last check for mail, by the monotonic clock. */
  lookedAt: number
  readonly #run: MailedRun
  #comesFirst = false
  #reading: Promise<number> | null = null
  /** The number of messages that wait behind a deferred rollback. */
  #deferred = 0
  /** The deferred messages wait for a rollback that is in progress. */
  #isRolling = false

  constructor(run: MailedRun) {
    this.#run = run
    this.lookedAt = run.kernel.clock.elapsed()
  }

  /** No step is called before the mail was read: the run may be cancelled, or past its deadline. */
  get comesFirst(): boolean {
    return this.#comesFirst
  }

  /** Reads the mail before the next commands: the run was out of memory, and earlier facts come first. */
  readFirst(): void {
    const { code, tenure } = this.#run
    this.#comesFirst = true
    this.#run.spawn(async () => {
      await this.read()
      this.#comesFirst = false
      if (!tenure.isLeaving) leaveScope(() => code.execution?.startAll())
    })
  }

  readSoon(): void {
    this.#run.spawn(() => this.read())
  }

  /** Processes mail and due alarms, in the order of facts. Returns the number of both. */
  read(): Promise<number> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = null
    })
    return this.#reading
  }

  /** An alarm may be due: only a read that begins now shows which mail was durable before it. */
  alarmed(): void {
    const run = this.#run
    if (run.kernel.planted.has('alarm-before-mail'))
      for (const alarm of run.alarms.all()) run.spawn(() => run.alarms.ring(alarm))
    else run.spawn(() => this.#readAnew())
  }

  /** No read is in progress, and the messages of the last one were delivered. */
  get isIdle(): boolean {
    return this.#reading === null && this.#run.code.isAtRest
  }

  /** Resolves when `isIdle` is true. */
  async idle(): Promise<void> {
    while (this.#reading) await this.#reading
    await this.#run.code.atRest()
  }

  /** Some mail cannot be processed yet. */
  get isDeferring(): boolean {
    return this.#deferred > 0
  }

  /** Processes the mail that waited for calls in flight to end. */
  readDeferred(): void {
    if (this.#deferred === 0) return
    if (this.#isRolling ? this.#run.state.rolling !== null : !this.#mayRollBack()) return
    this.#deferred = 0
    this.#run.spawn(() => this.read())
  }

  /** A read in progress may have begun too early. */
  async #readAnew(): Promise<void> {
    await this.#reading
    await this.read()
  }

  async #read(): Promise<number> {
    const run = this.#run
    // Until then the set of alarms is not known.
    await run.code.atRest()
    if (!this.#mayAct) return 0
    // Deferred messages must not hide later ones: the rollback may wait for one of those.
    const limit = atOnce + this.#deferred
    const { messages, now } = await run.open.mail(limit)
    const isWhole = messages.length < limit
    const { reach, messages: dated } = dateMail(messages, now, isWhole)
    run.recorder.noteTime(Math.max(now, reach))
    const ignoresAlarms = run.kernel.planted.has('mail-before-alarm')
    let rest = dated
    let done = 0
    for (;;) {
      await run.code.atRest()
      if (!this.#mayAct) return done
      const waiting = this.#waiting(rest.map(({ message }) => message))
      const alarms = run.code.ending.isConcluding || (ignoresAlarms && rest.length > 0) ? [] : run.alarms.all()
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
    const { tenure, code, residency } = this.#run
    return !tenure.isLeaving && !code.ending.isEnding && !residency.isPaused
  }

  /** The messages that wait for a rollback, which is either deferred itself or in progress. */
  #waiting(messages: readonly Message[]): ReadonlySet<Message> {
    const waiting = new Set<Message>()
    const mayRollBack = this.#mayRollBack()
    let isWaiting = this.#run.state.rolling !== null
    for (const message of messages) {
      isWaiting ||= (message.kind === 'rollback' || message.kind === 'rerun') && !mayRollBack
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
      const data = run.host.engine.openMessage(message) as Data
      consume.push(message.id)
      const fault = mailFault(message.kind, data)
      if (fault !== null) {
        this.#drop(message, fault)
        continue
      }
      // The first decision on a step is final; the state does not include it yet.
      if (message.kind === 'settle' && settled.size === settled.add(data.id).size) continue
      drafts.push(...this.#entriesFor(message, data))
    }
    const end = drafts.find((draft) => draft.type === 'terminated')
    if (end) return await run.code.ending.terminate(end, { consume })
    // Due from now on: if this process dies, no mail is left to wake the run.
    const isQueued = state.started?.queue && !state.isAdmitted && !drafts.some(({ type }) => begins.has(type))
    await run.recorder.write(drafts, { consume, status: isQueued ? 'queued' : 'running', wakeup: run.now() })
  }

  #entriesFor(message: Message, data: Data): Draft[] {
    const { state, code } = this.#run
    switch (message.kind) {
      case 'signal':
        return [{ type: 'signal', data }]
      case 'update':
        return [{ type: 'update', data: { update: message.id, name: data.name, args: data.args } }]
      case 'cancel':
        return code.cancelled ? [] : [{ type: 'cancel', data: { reason: data.reason, why: 'cancel', ...undoIn(data) } }]
      case 'terminate':
        return [{ type: 'terminated', data: { reason: data.reason } }]
      case 'child': {
        const command = commandOfLink(data.command)
        const { result, error } = data
        const isOurs = data.command === commandLink(state, command)
        return isOurs ? [{ type: 'child', data: { id: command, ...(error ? { error } : { result }) } }] : []
      }
      case 'settle':
        return this.#settle(data)
      case 'resume':
        return [{ type: 'resumed', data: { by: data.by } }]
      case 'rollback':
        return wasAsked(state, data.key) ? [] : [{ type: 'rollback', data }]
      case 'rerun':
        return this.#rerun(message, data)
      case 'admit':
        return state.isAdmitted ? [] : [{ type: 'admitted', data: {} }]
      default:
        // A message from a newer version or from another program: it adds no entry.
        this.#drop(message, 'its kind is not known here')
        return []
    }
  }

  #drop(message: Message, fault: string): void {
    reportDropped(this.#run.kernel, message, fault)
  }

  /** The run may have changed since the request was checked: an unsound re-run is dropped with a report. */
  #rerun(message: Message, data: Data): Draft[] {
    const { state, open } = this.#run
    if (wasAsked(state, data.key)) return []
    try {
      planRerun(state, data.to, open.id)
      return [{ type: 'rerun', data }]
    } catch (error) {
      if (!isReprise(error, 'RERUN_UNSOUND', 'NOT_FOUND')) throw error
      this.#drop(message, error.message)
      return []
    }
  }

  /** A person's decision on a held step or a stuck compensation. */
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
      data: { id, error: error ?? { name: 'Error', message: 'it was undone manually' }, by },
    }
    if (outcome === 'failed') return [failed]
    // The step happened and was undone: code that continued as if it had happened would be wrong, and so would another
    // undo.
    if (outcome === 'compensated') return [failed, { type: 'undone', data: { id, by } }]
    return [{ type: 'done', data: { id, result, by } }]
  }

  /** True once the outcome of every call that may have to be undone is known. */
  #mayRollBack(): boolean {
    const { calls, state } = this.#run
    const { execution } = this.#run.code
    return execution && !execution.isReplaying && !execution.isUndoable && !calls.isCalling && state.rolling === null
  }
}

/** Messages after a rollback or an end belong to the run after it. */
function untilTurn(messages: Dated, waiting: ReadonlySet<Message>): Dated {
  const turn = messages.findIndex(({ message }) => isTurn.has(message.kind) && !waiting.has(message))
  return turn === -1 ? messages : messages.slice(0, turn + 1)
}

function undoIn({ undo }: Data): { readonly undo?: string } {
  return undo === undefined ? {} : { undo }
}
