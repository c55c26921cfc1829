// The callbacks of an execution into its run: whether a command may start, how to proceed when all of history is
// delivered or the code is quiet, and how a cancellation affects the open commands.

import { RepriseError } from '../../../core/errors.ts'
import type { Clock } from '../../../core/store/ports.ts'
import type { Queries } from '../commands/queries.ts'
import type { Saga } from '../commands/saga.ts'
import { abandonStep, type StepRun } from '../commands/steps.ts'
import type { Signals } from '../commands/waits.ts'
import { awaitsDirectly, type Item } from '../history/entries.ts'
import { cancelledError } from '../history/failure.ts'
import type { Command, CommandKind } from './command.ts'
import type { CommandRun } from './command-host.ts'
import type { Ending } from './ending.ts'
import type { ExecutionHooks } from './execution.ts'
import type { Mail } from './mail.ts'
import type { Digester } from './observations.ts'
import type { Seed } from './randomness.ts'
import type { Residency } from './residency.ts'
import type { Reuse } from './reuse.ts'
import { leaveScope } from './scope.ts'
import { keyOf } from './step-key.ts'
import type { Tenure } from './tenure.ts'

/** These commands set alarms; the order of alarms and mail is known only once they are started. */
const waits: ReadonlySet<CommandKind> = new Set(['timer', 'signal'])

/** The run that an execution belongs to. */
export interface ExecutedRun extends CommandRun, Pick<StepRun, 'calls'> {
  readonly open: { readonly id: string }
  readonly kernel: CommandRun['kernel'] & Digester & { readonly clock: Clock }
  readonly code: CommandRun['code'] & {
    readonly ending: Ending
    readonly queries: Pick<Queries, 'update' | 'refuse' | 'flush'>
    readonly saga: Pick<Saga, 'serve'>
    readonly reuse: Pick<Reuse, 'issued' | 'serve'>
    readonly signals: Pick<Signals, 'deliver' | 'stopWaiting'>
    wasReplayed(): void
  }
  readonly mail: Pick<Mail, 'comesFirst' | 'readDeferred'>
  readonly residency: Pick<Residency, 'isPaused' | 'letGoSoon'>
  readonly tenure: Pick<Tenure, 'isLeaving' | 'failed' | 'leave'>
  /** A dry replay: nothing is started or written. */
  readonly isDry: boolean
}

export class Hooks implements ExecutionHooks {
  readonly digester: Digester
  readonly #run: ExecutedRun
  #cancelled: RepriseError | null = null

  constructor(run: ExecutedRun) {
    this.#run = run
    const { hash, codec } = run.kernel
    this.digester = { hash, codec, skipsResults: run.state.started?.isBatched === true }
  }

  /** The error that the code receives if the run was cancelled or its deadline passed. */
  get cancelled(): RepriseError | null {
    return this.#cancelled
  }

  /** Called when the code runs from its start. */
  begin(): void {
    this.#cancelled = null
  }

  soon(call: () => void): void {
    leaveScope(() => this.#run.kernel.clock.soon(() => this.#guarded(call)))
  }

  /** Real time: the code may wait for something real, whatever clock the engine uses. */
  after(delayMs: number, call: () => void): void {
    leaveScope(() => void setTimeout(() => this.#guarded(call), delayMs))
  }

  /** These callbacks have no caller that could handle an exception: it fails this run, not the process. */
  #guarded(call: () => void): void {
    try {
      call()
    } catch (error) {
      this.#run.tenure.failed(error)
    }
  }

  get isDirect(): boolean {
    return (this.#run.state.started?.behaviour ?? 0) >= awaitsDirectly
  }

  seed(seq: number): Seed {
    const { started, generation, salts = [] } = this.#run.state
    const mixed = salts.filter(({ after }) => after <= seq).map(({ salt }) => salt)
    if (mixed.length > 0) return { text: mixed.join('.'), isShort: false }
    return { text: `${started?.seed ?? 0}.${generation}`, isShort: true }
  }

  readonly keyOf = (command: Command): string => keyOf(this.#run.state, command, this.digester.hash)

  mayStart(kind: CommandKind): boolean {
    const run = this.#run
    if (run.mail.comesFirst && !waits.has(kind)) return false
    if (run.state.restored?.isHeld) return false
    return run.state.rolling === null && !run.residency.isPaused && !run.isDry
  }

  reuses(command: Command): boolean {
    return this.#run.code.reuse.issued(command.id)
  }

  begun(): readonly string[] {
    return Object.keys(this.#run.state.open)
  }

  onSignal(item: Extract<Item, { kind: 'signal' }>): void {
    this.#run.code.signals.deliver(item)
  }

  onUpdate(item: Extract<Item, { kind: 'update' }>): void {
    this.#run.code.queries.update(item)
  }

  onCancel({ reason, why }: Extract<Item, { kind: 'cancel' }>): void {
    if (this.#cancelled) return
    const run = this.#run
    const error = why === 'deadline' ? new RepriseError('TIMEOUT', reason, { run: run.id }) : cancelledError(reason)
    this.#cancelled = error
    run.alarms.delete('~deadline')
    run.code.signals.stopWaiting()
    for (const command of [...run.code.execution.open]) this.#cancelCommand(command, error)
    run.code.ending.cancelled(error)
  }

  onLive(): void {
    const run = this.#run
    if (run.isDry) return
    const { started, startedAt, limitedFrom = startedAt } = run.state
    if (started?.deadline === undefined || this.#cancelled) return
    const { deadline } = started
    const reason = `the deadline of ${deadline - limitedFrom} ms passed`
    run.alarms.setPassing('~deadline', deadline, () => run.recorder.record('cancel', { reason, why: 'deadline' }))
  }

  onQuiet(): void {
    const run = this.#run
    if (run.tenure.isLeaving || run.residency.isPaused) return
    run.code.wasReplayed()
    if (run.isDry) return
    if (!run.state.rolling && !run.state.restored?.isHeld && !run.code.execution.isOver) run.code.queries.refuse()
    run.code.queries.flush()
    run.mail.readDeferred()
    run.code.saga.serve()
    run.code.reuse.serve()
    if (run.state.rolling || run.code.execution.isOver) run.code.ending.conclude()
    if (!run.code.ending.isConcluding) run.residency.letGoSoon()
  }

  onDiverged(error: RepriseError): void {
    this.#run.tenure.leave({ because: 'diverged', error: withRun(error, this.#run.open.id) })
  }

  onBlamed(error: RepriseError): void {
    const run = this.#run
    if (run.isDry) return
    run.code.ending.codeEnded({ error })
    run.code.execution.abandon(run.code.execution.root, error.message)
    run.code.execution.over()
  }

  #cancelCommand(command: Command, error: RepriseError): void {
    const run = this.#run
    // History decides whether a boundary is passed; the code receives the cancellation there.
    if (command.kind === 'loop') {
      command.cancelled = error.message
      return
    }
    if (command.kind !== 'step') {
      command.isAbandoned = true
      if (command.hasUndo) run.code.execution.keepOrphan(command)
      command.onAbandon()
      command.reject(error)
      return
    }
    command.cancelled = error.message
    // The step waits for its next attempt, which is cancelled.
    if (run.alarms.has(command.id)) {
      run.alarms.delete(command.id)
      const failure = { name: 'RepriseError', message: 'cancelled', code: 'CANCELLED' }
      run.spawn(() => run.recorder.record('failed', { id: command.id, error: failure }))
    } else abandonStep(run, command, error.message)
  }
}

function withRun(error: RepriseError, timeline: string): RepriseError {
  return new RepriseError(error.code, `${timeline}: ${error.message.replace(/ \[[A-Z_]+\]$/, '')}`, {
    timeline,
    ...error.data,
  })
}
