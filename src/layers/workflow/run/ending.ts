// The end of a run: it returns a result, undoes its steps and reports why, or starts over. One commit holds the last
// entry, the release, and the mail to its parent and its queue.

import type { TimelineId } from '../../../core/coordinate.ts'
import { isReprise, isSignal, type RepriseError } from '../../../core/errors.ts'
import type { OutgoingMessage } from '../../../core/store/ports.ts'
import type { Host } from '../../../engine/host/host.ts'
import type { CommitExtras } from '../../../engine/writing/writer.ts'
import type { Queries } from '../commands/queries.ts'
import type { Saga } from '../commands/saga.ts'
import { dropSqlRows, type SqlResultsRun } from '../commands/transaction.ts'
import type { Signals } from '../commands/waits.ts'
import { reportId } from '../history/child-mail.ts'
import { cancelsReturned, failsUnseen } from '../history/entries.ts'
import { cancelledError, type Failure, toFailure } from '../history/failure.ts'
import { itemsOf } from '../history/journal.ts'
import { repeatedBy } from '../history/rerun.ts'
import { leaveMessages } from '../queue/queue.ts'
import type { CommandRun } from './command-host.ts'
import type { Execution } from './execution.ts'
import type { Mail } from './mail.ts'
import type { Recorder } from './recorder.ts'
import type { Tenure } from './tenure.ts'
import type { Working } from './work-count.ts'

/** Thrown by ctx.continueAsNew; do not catch it. */
export class ContinueAsNew extends Error {
  override readonly name: string = 'ContinueAsNew'
  readonly input: unknown

  constructor(input: unknown) {
    super('the run starts over with new input')
    this.input = input
  }
}

export type Outcome = { readonly value: unknown } | { readonly error: unknown }

type Draft = { readonly type: string; readonly data: unknown }

/** The parts of a run that its end uses. */
export interface EndingRun extends Pick<CommandRun, 'state' | 'spawn'> {
  readonly open: { readonly id: TimelineId }
  readonly code: {
    readonly execution: Execution
    readonly cancelled: RepriseError | null
    readonly saga: Pick<Saga, 'advance'>
    readonly signals: Pick<Signals, 'taken' | 'takers'>
    readonly queries: Pick<Queries, 'taken'>
  }
  readonly mail: Pick<Mail, 'read' | 'idle' | 'isIdle'>
  readonly recorder: Pick<Recorder, 'isDirect' | 'write' | 'checkpointIfDue'>
  readonly tenure: Pick<Tenure, 'isLeaving' | 'release'>
  readonly sqlResults: SqlResultsRun['sqlResults']
  readonly host: {
    readonly engine: Host
    hasMail(timeline: TimelineId): Promise<boolean>
    poke(timeline: string): void
  }
}

/** The end of one execution; a run that starts over has a new one. */
export class Ending {
  readonly #run: EndingRun
  #outcome: Outcome | null = null
  #isConcluding = false
  #isEnding = false

  constructor(run: EndingRun) {
    this.#run = run
  }

  /** The outcome of the code, once it has ended. */
  get outcome(): Outcome | null {
    return this.#outcome
  }

  /** The end is decided and is being carried out. */
  get isConcluding(): boolean {
    return this.#isConcluding
  }

  /** The end is being written. */
  get isEnding(): boolean {
    return this.#isEnding
  }

  /** The code has returned or thrown, or is treated as if it had. */
  codeEnded(outcome: Outcome): void {
    this.#outcome = outcome
  }

  /** A run that is cancelled after its code returned, and before its end is recorded, is undone. */
  cancelled(error: RepriseError): void {
    const behaviour = this.#run.state.started?.behaviour ?? 0
    if (this.#outcome && endsWell(this.#outcome) && behaviour >= cancelsReturned) this.#outcome = { error }
  }

  /** Called whenever the run is idle and its code has ended, or it is being rolled back. */
  conclude(): void {
    const run = this.#run
    if (this.#isConcluding) return
    const fails = (run.state.started?.behaviour ?? 0) >= failsUnseen
    if (this.#outcome && endsWell(this.#outcome) && !run.code.cancelled && fails) {
      this.#outcome = run.code.execution.lostFailure ?? this.#outcome
    }
    const outcome = this.#outcome
    if (run.state.rolling) this.#rollBack()
    else if (!outcome) return
    else if ('value' in outcome)
      this.#conclude(() => this.#unlessCancelled(outcome, (extras) => this.#complete(outcome.value, extras)))
    else if (outcome.error instanceof ContinueAsNew) {
      const { input } = outcome.error
      this.#conclude(() => this.#unlessCancelled(outcome, (extras) => this.#startOver(input, extras)))
    } else if (!this.#isWaitedFor() && run.code.saga.advance()) this.#conclude(() => this.#fail(outcome.error))
  }

  /** Ends the run at once, without compensations. */
  async terminate(entry: Draft, extras: CommitExtras): Promise<void> {
    await this.#release(entry, 'terminated', this.#leaveQueue(), extras)
  }

  #conclude(work: () => Working): void {
    this.#isConcluding = true
    this.#run.spawn(work)
  }

  /**
   * True while calls are in flight that may have to be undone. Children are cancelled first, so that the run does not
   * wait for them to complete.
   */
  #isWaitedFor(): boolean {
    const { execution } = this.#run.code
    for (const command of [...execution.open]) {
      if (command.kind !== 'child' || !command.hasUndo || command.isAbandoned) continue
      command.isAbandoned = true
      command.onAbandon()
    }
    return execution.isUndoable
  }

  #rollBack(): void {
    const { code, state } = this.#run
    const { ends, to, input, hasInput, seq, isRerun, failure } = state.rolling!
    if (isRerun) {
      this.#rerun(to)
      return
    }
    if (failure) {
      const kept = state.rerun?.kept ?? {}
      if (code.saga.advance((id) => Object.hasOwn(kept, id))) this.#conclude(() => this.#endBadly(failure))
      return
    }
    if (ends !== undefined) {
      if (code.saga.advance()) this.#conclude(() => this.#endUndone(ends))
      return
    }
    const items = itemsOf(state.journal)
    const from = items.findIndex((item) => 'id' in item && item.id === to)
    const undo = new Set(items.slice(from === -1 ? items.length : from).map((item) => ('id' in item ? item.id : '')))
    if (!code.saga.advance((id) => undo.has(id))) return
    const data = { to, ...(hasInput && { input }), ...(seq !== undefined && { seq }) }
    this.#conclude(async () => {
      await this.#run.recorder.write([{ type: 'rolled', data }], { status: 'running' })
    })
  }

  /** The command and its dependants are undone; then the code runs again, and calls only those. */
  #rerun(to: string): void {
    const { code, state, recorder } = this.#run
    const { execution, signals, saga } = code
    const takers = signals.takers()
    const ids = repeatedBy(state, to, [...execution.open, ...takers.map(({ wait }) => wait)])
    if (!saga.advance((id) => ids.has(id))) return
    const took = takers.filter(({ wait }) => ids.has(wait.id)).map(({ seq }) => seq)
    const data = { to, ids: [...ids], took }
    this.#conclude(async () => {
      for (const command of [...execution.open])
        if (command.kind === 'child' && ids.has(command.id)) command.onAbandon()
      await recorder.write([{ type: 'rerunning', data }], { status: 'running' })
    })
  }

  /**
   * The end is a fact as well: mail that was durable before it is processed first, above all a cancellation or a
   * rollback. An end that the store refuses beside unread mail (`unlessMail`) needs no read before it.
   */
  #unlessCancelled(outcome: Outcome, end: (extras: CommitExtras) => Promise<unknown>): Promise<unknown> {
    const { mail, recorder } = this.#run
    const canGuard = recorder.isDirect && mail.isIdle
    if (!canGuard) return this.#afterMail(outcome, end)
    this.#isEnding = true
    return end(unlessMail).then(
      () => this.#concluded(outcome),
      (error) => {
        if (isSignal(error, 'MAIL_WAITING')) return this.#afterMail(outcome, end)
        this.#unstorable(outcome, error)
        this.#concluded(outcome)
        return undefined
      },
    )
  }

  async #afterMail(outcome: Outcome, end: (extras: CommitExtras) => Promise<unknown>): Promise<void> {
    const run = this.#run
    const { mail } = run
    const { execution } = run.code
    this.#isEnding = false
    if (await run.host.hasMail(run.open.id)) await mail.read()
    // No mail is taken from here on: a cancellation between the read and the end would be in history without effect.
    this.#isEnding = true
    await mail.idle()
    if (run.tenure.isLeaving || run.code.execution !== execution || run.state.rolling) return
    if (this.#outcome === outcome) await end({}).catch((error) => this.#unstorable(outcome, error))
    this.#concluded(outcome)
  }

  #concluded(outcome: Outcome): void {
    this.#isEnding = false
    if (this.#outcome !== outcome) this.#isConcluding = false
  }

  /** A result that cannot be stored fails the run. */
  #unstorable(outcome: Outcome, error: unknown): void {
    if (!('value' in outcome) || !isReprise(error, 'UNSERIALIZABLE', 'LIMIT_EXCEEDED')) throw error
    this.#outcome = { error }
  }

  async #startOver(input: unknown, extras: CommitExtras): Promise<void> {
    const { signals, queries } = this.#run.code
    const took = [...signals.taken(), ...queries.taken()]
    await this.#run.recorder.write([{ type: 'continued', data: { input, took } }], extras)
    this.#run.recorder.checkpointIfDue()
  }

  async #endUndone(reason: string): Promise<void> {
    const error = toFailure(cancelledError(reason))
    await this.#end({ type: 'ended-badly', data: { error, cancelled: true, undone: true } }, 'cancelled', { error })
  }

  #complete(result: unknown, extras: CommitExtras): Promise<void> {
    const data = result === undefined ? {} : { result }
    return this.#end({ type: 'completed', data }, 'completed', { result }, extras)
  }

  async #fail(reason: unknown): Promise<void> {
    const run = this.#run
    const error = toFailure(reason)
    const isCancelled = run.code.cancelled !== null && isReprise(reason, 'CANCELLED')
    for (const command of [...run.code.execution.open]) if (command.kind === 'child') command.onAbandon()
    // Steps that a re-run kept, and that the code did not reach again, are undone as well.
    if (run.state.rerun) {
      await run.recorder.write([{ type: 'unkept', data: { error, cancelled: isCancelled } }], {
        status: 'compensating',
      })
      return
    }
    await this.#endBadly({ error, cancelled: isCancelled })
  }

  async #endBadly({ error, cancelled: isCancelled }: { error: Failure; cancelled: boolean }): Promise<void> {
    const status = isCancelled ? 'cancelled' : 'failed'
    await this.#end({ type: 'ended-badly', data: { error, cancelled: isCancelled } }, status, { error })
  }

  /**
   * Neither this function nor the functions it calls are async: every run ends here, and each async function allocates
   * promises.
   */
  #end(
    entry: Draft,
    status: string,
    news: { result?: unknown; error?: unknown },
    extras: CommitExtras = {},
  ): Promise<void> {
    const { host, state } = this.#run
    const parent = state.started?.parent
    const send = this.#leaveQueue()
    if (parent && !parent.detached) {
      const id = reportId(state, state.generation)
      send.push(host.engine.message(parent.timeline, 'child', { command: parent.command, ...news }, id))
    }
    const released = this.#release(entry, status, send, { ...dropSqlRows(this.#run), ...extras })
    return parent ? released.then(() => host.poke(parent.timeline)) : released
  }

  #leaveQueue(): OutgoingMessage[] {
    const { host, open, state } = this.#run
    return leaveMessages(host.engine, open.id, state)
  }

  #release(entry: Draft, status: string, send: readonly OutgoingMessage[], extras: CommitExtras): Promise<void> {
    const gone = { wakeup: null, queue: null, status, ...(send.length > 0 && { send }) }
    return this.#run.tenure.release('ended', [entry], { ...gone, ...extras })
  }
}

const unlessMail: CommitExtras = { unlessMail: true }

/** True if the code returned or starts over; false if it failed or was cancelled. */
function endsWell(outcome: Outcome): boolean {
  return 'value' in outcome || outcome.error instanceof ContinueAsNew
}
