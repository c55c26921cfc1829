// How long a run stays in memory: while work is under way, and a moment longer. A run that only waits is released, with
// its next wakeup.

import { RepriseError } from '../../../core/errors.ts'
import type { Clock } from '../../../core/store/ports.ts'
import type { CommitExtras } from '../../../engine/writing/writer.ts'
import type { Queries } from '../commands/queries.ts'
import type { Signals } from '../commands/waits.ts'
import { notedWaits } from '../history/summary.ts'
import type { CommandRun } from './asking.ts'
import type { Mail } from './mail.ts'
import type { Recorder } from './recorder.ts'
import type { Work } from './work.ts'

/** A waiting run is released after this long without activity. */
const lingerMs = 100
/** A run that only waits for a time at least this far away is released at once. */
const farMs = 1000

export interface ResidentRun
  extends Pick<CommandRun, 'state' | 'execution' | 'alarms' | 'isLeaving' | 'now' | 'spawn'> {
  readonly clock: Clock
  readonly work: Work
  readonly mail: Pick<Mail, 'read' | 'isDeferring'>
  readonly signals: Pick<Signals, 'isAwaited'>
  readonly queries: Pick<Queries, 'updates'>
  readonly recorder: Pick<Recorder, 'flush'>
  /** Writes the last entries of this process together with the release. */
  release(because: 'waiting', entries: readonly { type: string; data: unknown }[], along: CommitExtras): Promise<void>
}

export class Residency {
  readonly #run: ResidentRun
  #isPaused = false
  #cancelLinger: (() => void) | null = null

  constructor(run: ResidentRun) {
    this.#run = run
  }

  /** Nothing more is started. */
  get isPaused(): boolean {
    return this.#isPaused
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
    if (run.work.isIdle) return
    await new Promise<void>((resolve) => {
      const cancel = run.clock.after(graceMs, resolve)
      const look = () => {
        if (run.isLeaving || run.work.isIdle) {
          cancel()
          resolve()
        } else run.clock.after(5, look)
      }
      look()
    })
    await run.recorder.flush().catch(() => undefined)
  }

  letGoSoon(): void {
    const { alarms, mail, signals, work, isLeaving } = this.#run
    if (!work.isIdle || this.#cancelLinger || isLeaving || mail.isDeferring) return
    const nearest = alarms.nearest()
    const waitMs = nearest === null ? Number.POSITIVE_INFINITY : nearest - this.#run.now()
    if (waitMs <= lingerMs) return
    const onlyTime = !signals.isAwaited && waitMs >= farMs && nearest !== null
    const look = () => {
      this.#cancelLinger = null
      if (work.isIdle) this.#run.spawn(() => this.#letGo(true))
    }
    if (onlyTime) this.#run.spawn(() => this.#letGo(false))
    else this.#cancelLinger = this.#run.clock.after(lingerMs, look)
  }

  /** Mail that arrives too late makes the run due again at once, so none is missed. */
  async #letGo(looksForMail: boolean): Promise<void> {
    const run = this.#run
    if (looksForMail && (await run.mail.read()) > 0) return
    if (run.work.count > 1 || run.isLeaving) return
    const isStuck = Object.values(run.state.undos).some((undo) => undo.isStuck)
    const isHeld = run.state.restored?.isHeld || Object.values(run.state.open).some((command) => command.held)
    if (!isStuck && !isHeld && this.#waitsForNothing()) {
      run.execution.blame(waitingForNothing())
      return
    }
    const waits = notedWaits(run.execution?.open ?? [])
    await run.release('waiting', waits.length > 0 ? [{ type: 'waits', data: { for: waits } }] : [], {
      wakeup: run.alarms.nearest(),
      status: isStuck ? 'compensation-stuck' : isHeld ? 'held' : 'waiting',
    })
  }

  /** The code waits for neither a command nor an update: no entry of history can ever wake it. */
  #waitsForNothing(): boolean {
    const { execution, queries, state } = this.#run
    if (!execution || execution.isReplaying || execution.isOver || state.rolling !== null) return false
    return execution.open.size === 0 && queries.updates.length === 0
  }
}

function waitingForNothing(): RepriseError {
  const what = 'workflow code waits for something that history does not have (a client, a stream, another promise)'
  const cure = "wait for it in a step, as in ctx.step('name', () => …)"
  return new RepriseError('NON_DETERMINISTIC', `${what}, and would wait forever: ${cure}`, { call: 'await' })
}
