// Runs the tasks of one thread in turns, and sleeps when none of them has a message. Frames are sent before the loop yields, so
// that no record waits in a frame that is not full.

import type { Clock } from '../../../core/store/ports.ts'
import { Alarm } from '../../../lib/waiting.ts'
import type { StageTask } from './stage-task.ts'

const [sliceMs, tickMs] = [4, 100]

export class TaskLoop {
  readonly #clock: Clock
  readonly #tasks: readonly StageTask[]
  readonly #alarm: Alarm
  readonly #onTick: () => void
  #tickedAt = Number.NEGATIVE_INFINITY
  #isOver = false

  /** `onTick` runs ten times a second, after the operators. */
  constructor(clock: Clock, tasks: readonly StageTask[], onTick: () => void) {
    this.#clock = clock
    this.#tasks = tasks
    this.#alarm = new Alarm(clock, { isAwaited: true })
    this.#onTick = onTick
  }

  /** Resolves after `stop`; rejects if a task fails. */
  async run(): Promise<void> {
    while (!this.#isOver) {
      this.#alarm.hush()
      this.#tick()
      const hasMoved = this.#slice()
      for (const { outputs } of this.#tasks) outputs.flush()
      if (this.#isOver) return
      if (hasMoved) await new Promise<void>((resolve) => this.#clock.soon(resolve))
      else await this.#alarm.wait(tickMs)
    }
  }

  wake(): void {
    this.#alarm.ring()
  }

  stop(): void {
    this.#isOver = true
    this.wake()
  }

  /** True: there may be more messages. */
  #slice(): boolean {
    const startedMs = this.#clock.elapsed()
    for (;;) {
      let hasMoved = false
      for (const task of this.#tasks) if (task.step()) hasMoved = true
      if (!hasMoved) return false
      if (this.#isOver || this.#clock.elapsed() - startedMs >= sliceMs) return true
    }
  }

  #tick(): void {
    if (this.#clock.elapsed() - this.#tickedAt < tickMs) return
    this.#tickedAt = this.#clock.elapsed()
    const now = this.#clock.now()
    for (const task of this.#tasks) task.tick(now)
    this.#onTick()
  }
}
