// Notifies the watchers of a run: events as they happen, progress at a bounded rate.

import type { Clock } from '../../core/store/ports.ts'
import { checkFunction } from '../../core/synchronous.ts'
import { warnOnReject } from '../../lib/warn-on-reject.ts'
import type { JobEvent, JobProgress } from './progress.ts'

const progressEveryMs = 100

export class RunWatchers {
  readonly #clock: Clock
  readonly #progress: () => JobProgress
  readonly #listeners = new Set<(event: JobEvent) => void>()
  #progressAt = Number.NEGATIVE_INFINITY

  constructor(clock: Clock, progress: () => JobProgress) {
    this.#clock = clock
    this.#progress = progress
  }

  watch(listener: (event: JobEvent) => void): () => void {
    checkFunction(listener, 'watch()')
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Cheap without listeners: called for every item. */
  changed(): void {
    if (this.#listeners.size === 0) return
    const now = this.#clock.elapsed()
    if (now - this.#progressAt < progressEveryMs) return
    this.#progressAt = now
    this.announce({ type: 'progress', progress: this.#progress() })
  }

  announce(event: JobEvent): void {
    for (const listener of this.#listeners) {
      try {
        warnOnReject(listener(event), 'watch()')
      } catch {
        // An observer that throws does not affect the run.
      }
    }
  }
}
