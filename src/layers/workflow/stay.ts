// How long a run stays in memory: while anything works for it, and a moment longer. A run that only waits is let go, with
// the time at which it wants to come back.

import type { Instance } from './instance.ts'
import { leaveScope } from './scope.ts'
import { notedWaits } from './summary.ts'

/** A run that waits is let go when nothing has happened for this long… */
const lingerMs = 100
/** …or at once if all it waits for is a time at least this far away. */
const farMs = 1000

/** What work gives that says itself when it is done (`done`, `failed`): for the hot path, which makes no promises. */
export const toldLater = Symbol('told later')

/** Nothing, or what has to be waited for. */
export type Working = Promise<unknown> | typeof toldLater | undefined

export class Stay {
  readonly #run: Instance
  #busy = 0
  #isPaused = false
  #cancelLinger: (() => void) | null = null

  constructor(run: Instance) {
    this.#run = run
  }

  /** Nothing works for it at the moment. */
  get isIdle(): boolean {
    return this.#busy === 0
  }

  /** Nothing more is started. */
  get isPaused(): boolean {
    return this.#isPaused
  }

  during(work: () => Working): void {
    this.#busy += 1
    this.#cancelLinger?.()
    this.#cancelLinger = null
    try {
      const working = leaveScope(work)
      if (working === undefined) queueMicrotask(this.done)
      else if (working !== toldLater) working.then(this.#worked, this.failed)
    } catch (error) {
      this.failed(error)
    }
  }

  readonly #worked = (result: unknown): void => {
    if (result !== toldLater) this.done()
  }

  readonly done = (): void => {
    this.#busy -= 1
    if (this.#busy === 0 && !this.#run.isLeaving) this.#run.execution?.wake()
  }

  readonly failed = (error: unknown): void => {
    this.#busy -= 1
    this.#run.lose(error)
  }

  end(): void {
    this.#cancelLinger?.()
    this.#cancelLinger = null
  }

  /** Starts nothing more, and lets calls in flight come to an end for a while. */
  async pause(graceMs: number): Promise<void> {
    const { attempts, alarms, kernel, recorder } = this.#run
    this.#isPaused = true
    alarms.clear()
    if (attempts.size === 0 && this.#busy === 0) return
    await new Promise<void>((resolve) => {
      const cancel = kernel.clock.after(graceMs, resolve)
      const look = () => {
        if (this.#run.isLeaving || this.#busy === 0) {
          cancel()
          resolve()
        } else kernel.clock.after(5, look)
      }
      look()
    })
    await recorder.flush().catch(() => undefined)
  }

  letGoSoon(): void {
    const { alarms, mail, signals, kernel, isLeaving } = this.#run
    if (this.#busy > 0 || this.#cancelLinger || isLeaving || mail.isDeferring) return
    const nearest = alarms.nearest()
    const waitMs = nearest === null ? Number.POSITIVE_INFINITY : nearest - this.#run.now()
    if (waitMs <= lingerMs) return
    const onlyTime = !signals.isAwaited && waitMs >= farMs && nearest !== null
    const look = () => {
      this.#cancelLinger = null
      if (this.#busy === 0) this.#run.spawn(() => this.#letGo(true))
    }
    if (onlyTime) this.#run.spawn(() => this.#letGo(false))
    else this.#cancelLinger = kernel.clock.after(lingerMs, look)
  }

  /** Mail that comes too late makes it due again at once: nothing is missed. */
  async #letGo(looksForMail: boolean): Promise<void> {
    const run = this.#run
    if (looksForMail && (await run.mail.read()) > 0) return
    if (this.#busy > 1 || run.isLeaving) return
    const wakeup = run.alarms.nearest()
    const isStuck = Object.values(run.state.undos).some((undo) => undo.isStuck)
    const isHeld = run.state.restored?.isHeld || Object.values(run.state.open).some((command) => command.held)
    const waits = run.execution ? notedWaits(run.execution.open) : []
    await run.write(waits.length > 0 ? [{ type: 'waits', data: { for: waits } }] : [], {
      release: true,
      wakeup,
      status: isStuck ? 'compensation-stuck' : isHeld ? 'held' : 'waiting',
    })
    run.letGoOf()
    run.leave({ because: 'waiting' })
    if (wakeup !== null) run.host.engine.dispatcher.expect(wakeup)
  }
}
