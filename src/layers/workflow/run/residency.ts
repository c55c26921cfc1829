// How long a run stays in memory: while work is in progress, and a moment longer. A run that only waits is released, with
// its next wakeup.

import { RepriseError } from '../../../core/errors.ts'
import type { Clock } from '../../../core/store/ports.ts'
import type { Queries } from '../commands/queries.ts'
import type { Signals } from '../commands/waits.ts'
import { notedWaits } from '../history/summary.ts'
import type { CommandRun } from './command-host.ts'
import type { Execution } from './execution.ts'
import type { Mail } from './mail.ts'
import type { Recorder } from './recorder.ts'
import type { Tenure } from './tenure.ts'
import { Work, type Working } from './work-count.ts'

/** A waiting run is released after this long without activity. */
const lingerMs = 100
/** A run that only waits for a time at least this far away is released at once. */
const farMs = 1000

export interface ResidentRun extends Pick<CommandRun, 'state' | 'alarms' | 'now'> {
  readonly kernel: { readonly clock: Clock }
  readonly code: {
    /** Undefined until the code has begun. */
    readonly execution: Execution
    readonly signals: Pick<Signals, 'isAwaited'>
    readonly queries: Pick<Queries, 'updates'>
  }
  readonly mail: Pick<Mail, 'read' | 'isDeferring'>
  readonly recorder: Pick<Recorder, 'flush'>
  readonly tenure: Pick<Tenure, 'isLeaving' | 'failed' | 'release'>
  /** A dry replay: nothing is started or written. */
  readonly isDry: boolean
}

export class Residency {
  /** The work in progress for the run. */
  readonly work: Work
  readonly #run: ResidentRun
  #isPaused = false
  #cancelLinger: (() => void) | null = null

  constructor(run: ResidentRun) {
    this.#run = run
    this.work = new Work(
      () => {
        if (!run.tenure.isLeaving) run.code.execution?.wake()
      },
      (error) => run.tenure.failed(error),
    )
  }

  /** Nothing more is started. */
  get isPaused(): boolean {
    return this.#isPaused
  }

  /** Starts work on behalf of the run, which stays in memory until the work is done. */
  spawn(work: () => Working): void {
    if (this.#run.tenure.isLeaving || this.#run.isDry) return
    this.stay()
    this.work.during(work)
  }

  /** Activity: postpones the release. */
  stay(): void {
    this.#cancelLinger?.()
    this.#cancelLinger = null
  }

  /** Starts nothing more, and waits up to `graceMs` for calls in flight. */
  async pause(graceMs: number): Promise<void> {
    const run = this.#run
    this.#isPaused = true
    run.alarms.clear()
    if (this.work.isIdle) return
    await new Promise<void>((resolve) => {
      const cancel = run.kernel.clock.after(graceMs, resolve)
      const look = () => {
        if (run.tenure.isLeaving || this.work.isIdle) {
          cancel()
          resolve()
        } else run.kernel.clock.after(5, look)
      }
      look()
    })
    await run.recorder.flush().catch(() => undefined)
  }

  /** Releases a run that only waits, with its next wakeup. One with work in progress, or with mail, stays. */
  async letGoNow(): Promise<void> {
    const { tenure, mail, isDry } = this.#run
    if (!this.work.isIdle || tenure.isLeaving || mail.isDeferring || isDry) return
    await new Promise<void>((resolve) => this.spawn(() => this.#release(true).finally(resolve)))
  }

  letGoSoon(): void {
    const { alarms, mail, code, tenure } = this.#run
    if (!this.work.isIdle || this.#cancelLinger || tenure.isLeaving || mail.isDeferring) return
    const nearest = alarms.nearest()
    const waitMs = nearest === null ? Number.POSITIVE_INFINITY : nearest - this.#run.now()
    if (waitMs <= lingerMs) return
    const onlyTime = !code.signals.isAwaited && waitMs >= farMs && nearest !== null
    const look = () => {
      this.#cancelLinger = null
      if (this.work.isIdle) this.spawn(() => this.#release(true))
    }
    if (onlyTime) this.spawn(() => this.#release(false))
    else this.#cancelLinger = this.#run.kernel.clock.after(lingerMs, look)
  }

  /** Mail that arrives too late makes the run due again at once, so none is missed. */
  async #release(looksForMail: boolean): Promise<void> {
    const run = this.#run
    if (looksForMail && (await run.mail.read()) > 0) return
    if (this.work.count > 1 || run.tenure.isLeaving) return
    const isStuck = Object.values(run.state.undos).some((undo) => undo.isStuck)
    const isHeld = run.state.restored?.isHeld || Object.values(run.state.open).some((command) => command.held)
    if (!isStuck && !isHeld && this.#waitsForNothing()) {
      run.code.execution.blame(waitingForNothing())
      return
    }
    const waits = notedWaits(run.code.execution?.open ?? [])
    await run.tenure.release('waiting', waits.length > 0 ? [{ type: 'waits', data: { for: waits } }] : [], {
      wakeup: run.alarms.nearest(),
      status: isStuck ? 'stuck' : isHeld ? 'held' : 'waiting',
    })
  }

  /** The code waits for neither a command nor an update: no entry of history can ever wake it. */
  #waitsForNothing(): boolean {
    const { code, state } = this.#run
    const { execution, queries } = code
    if (!execution || execution.isReplaying || execution.isOver || state.rolling !== null) return false
    return execution.open.size === 0 && queries.updates.length === 0
  }
}

function waitingForNothing(): RepriseError {
  const what = 'workflow code waits for something that is not in history (a client, a stream, another promise)'
  const cure = "wait for it in a step, as in ctx.step('name', () => …)"
  return new RepriseError('NON_DETERMINISTIC', `${what}, and would wait forever: ${cure}`, { call: 'await' })
}
