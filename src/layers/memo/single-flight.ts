// One computation per key: within a process callers share the promise, across processes the owner of the entry's timeline
// computes. A waiting process takes over when the owner dies; an owner that was only suspended is refused when it publishes,
// and does not store its result.

import type { TimelineId } from '../../core/coordinate.ts'
import { orElse } from '../../core/errors.ts'
import { growingPause } from '../../core/retry/pause.ts'
import { throwIfAborted, unlessAborted } from '../../engine/base/abortable-wait.ts'
import { whileAwaited } from '../../engine/base/stay-alive.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import { StateTimeline } from '../../engine/writing/state-timeline.ts'
import { sleep } from '../../lib/waiting.ts'

const firstPauseMs = 10
const longestPauseMs = 500

export class Flights<T> {
  readonly #kernel: Kernel
  readonly #under = new Map<TimelineId, Promise<T>>()

  constructor(kernel: Kernel) {
    this.#kernel = kernel
  }

  /**
   * `look` returns the entry if it exists by now; one process at a time calls `compute`, as the owner of the timeline. A caller
   * that aborts leaves the computation to the others.
   */
  join(
    id: TimelineId,
    look: () => Promise<T | null>,
    compute: (taken: StateTimeline) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    let flight = this.#under.get(id)
    if (!flight) {
      flight = whileAwaited(this.#fly(id, look, compute), this.#kernel.clock).finally(() => this.#under.delete(id))
      this.#under.set(id, flight)
      // Each caller has its own promise; all of them may have given up.
      flight.catch(() => undefined)
    }
    throwIfAborted(signal, id)
    return unlessAborted(flight, signal, `waiting for ${id}`)
  }

  /** Resolves when all computations in progress have ended. */
  async settled(): Promise<void> {
    while (this.#under.size > 0) await Promise.allSettled(this.#under.values())
  }

  async #fly(id: TimelineId, look: () => Promise<T | null>, compute: (taken: StateTimeline) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      const taken = await StateTimeline.take(this.#kernel, id).catch(orElse(null, 'OWNED'))
      if (taken) {
        try {
          return (await look()) ?? (await compute(taken))
        } finally {
          await taken.release()
        }
      }
      const { clock } = this.#kernel
      await sleep(clock, growingPause(attempt, firstPauseMs, longestPauseMs))
      const found = await look()
      if (found !== null) return found
    }
  }
}
