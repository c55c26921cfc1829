// Reports the loading of a state as `progress` events: bytes read from its checkpoint, then entries replayed. Costs
// nothing without a listener, and emits at most ten events per second.

import { forwardBlobs } from '../../core/store/store-wrapper.ts'
import type { StateIo } from '../model/state-io.ts'
import type { Kernel } from '../storage/kernel.ts'

const everyMs = 100

export class Loading {
  readonly #kernel: Pick<Kernel, 'clock' | 'events'>
  readonly #timeline: string
  readonly #isHeard: boolean
  #reportedAt: number
  #hasReported = false

  constructor(kernel: Pick<Kernel, 'clock' | 'events'>, timeline: string) {
    this.#kernel = kernel
    this.#timeline = timeline
    this.#isHeard = kernel.events.has('progress')
    this.#reportedAt = kernel.clock.elapsed()
  }

  /** `done` counts bytes of the checkpoint, or entries of history. */
  at(part: 'restore' | 'replay', done: number, total: number): void {
    if (!this.#isHeard || this.#kernel.clock.elapsed() - this.#reportedAt < everyMs) return
    this.#reportedAt = this.#kernel.clock.elapsed()
    this.#hasReported = true
    this.#report(part, Math.min(done, total), total)
  }

  /** Reports the bytes read from a checkpoint of this size. */
  watching(io: StateIo, total: number): StateIo {
    if (!this.#isHeard) return io
    const { blobs } = io
    let done = 0
    const get: typeof blobs.get = async (digests) => {
      const found = await blobs.get(digests)
      for (const bytes of found) done += bytes?.length ?? 0
      this.at('restore', done, total)
      return found
    }
    return { ...io, blobs: forwardBlobs(blobs, { get }) }
  }

  /** The state is loaded. */
  end(): void {
    if (this.#hasReported) this.#report('ready', 1, 1)
  }

  #report(part: string, done: number, total: number): void {
    const { events } = this.#kernel
    events.emit('progress', { work: 'load', timeline: this.#timeline, part, done, total, at: null })
  }
}
