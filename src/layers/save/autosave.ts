// Saves a value in time: as often as a bound of loss requires, measured by the time that a save takes. A failed save is
// reported and retried; the bound is then exceeded, and the doctor reports it.

import { lossInterval } from '../../core/checkpoint/checkpoint-policy.ts'
import { isReprise } from '../../core/errors.ts'
import { growingPause } from '../../core/retry/pause.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'

const firstPauseMs = 100
const longestPauseMs = 60_000

/** @example const autosave = weights.autosave(() => model) */
export class Autosave {
  readonly #kernel: Pick<Kernel, 'clock' | 'events'>
  readonly #timeline: string
  readonly #loseAtMostMs: number
  readonly #save: () => Promise<void>
  #tookMs = 0
  #failures = 0
  #isStopped = false
  #cancel: (() => void) | null = null
  #underWay: Promise<void> = Promise.resolve()
  #isSaving = false

  /** @internal */
  constructor(
    kernel: Pick<Kernel, 'clock' | 'events'>,
    timeline: string,
    loseAtMostMs: number,
    save: () => Promise<void>,
  ) {
    this.#kernel = kernel
    this.#timeline = timeline
    this.#loseAtMostMs = loseAtMostMs
    this.#save = save
    this.#plan(this.#intervalMs)
  }

  /** Starts no further save. @example autosave.stop() */
  stop(): void {
    this.#isStopped = true
    this.#cancel?.()
    this.#cancel = null
  }

  /** @internal Resolves when no save of its own is in progress. */
  get settled(): Promise<void> {
    return this.#underWay
  }

  /** @internal A save was made, by this or by another call. */
  saved(): void {
    if (!this.#isSaving) this.#plan(this.#intervalMs)
  }

  get #intervalMs(): number {
    return lossInterval(this.#loseAtMostMs, this.#tookMs).ms
  }

  #plan(ms: number): void {
    this.#cancel?.()
    if (this.#isStopped) return
    this.#cancel = this.#kernel.clock.after(ms, () => {
      this.#cancel = null
      this.#underWay = this.#round()
    })
  }

  async #round(): Promise<void> {
    const startedAt = this.#kernel.clock.elapsed()
    this.#isSaving = true
    try {
      await this.#save()
      this.#tookMs = this.#kernel.clock.elapsed() - startedAt
      this.#failures = 0
      this.#plan(this.#intervalMs)
    } catch (error) {
      // Another process owns the series, or no process does: a retry cannot succeed.
      if (isReprise(error, 'CLOSED', 'FENCED', 'OWNED')) this.stop()
      this.#failures += 1
      const { events } = this.#kernel
      events.emit('checkpoint-failed', { timeline: this.#timeline, error, failuresInARow: this.#failures })
      this.#plan(growingPause(this.#failures, firstPauseMs, longestPauseMs))
    } finally {
      this.#isSaving = false
    }
  }
}
