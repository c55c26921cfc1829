// Follows the objects of a kind for whoever works on them: first all that there are, then every change, and all again if it
// fell too far behind. Nothing is lost in between: what is told is which objects to look at, and they are looked at as they
// are then.

import { growingPause } from '../../core/calls/pause.ts'
import { isReprise } from '../../core/errors.ts'
import { restUnlessAborted } from '../../engine/base/aborting.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import type { ResourceHandle } from './handle.ts'
import type { Watch, WatchEvent } from './watch.ts'

export interface Told {
  event(event: Exclude<WatchEvent, { type: 'bookmark' }>, isInitial: boolean): void
  /** All that there was at the start has been told. */
  listed(): void
  /** The objects cannot be followed at the moment; it is tried again. */
  failed(error: unknown): void
}

const longestPauseMs = 5000

export class Following {
  readonly #kernel: Kernel
  readonly #stopping = new AbortController()
  readonly #loop: Promise<void>
  readonly #handle: ResourceHandle
  /** Null while what there was at the start is told. */
  #watch: Watch | null = null

  constructor(kernel: Kernel, handle: ResourceHandle, told: Told) {
    this.#kernel = kernel
    this.#handle = handle
    this.#loop = this.#run(told)
  }

  /** Everything up to this revision was told; -1: somebody is at it. */
  get seen(): number {
    return this.#watch?.resting ?? -1
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#loop
  }

  async #run(told: Told): Promise<void> {
    const { signal } = this.#stopping
    for (let failures = 0; !signal.aborted; ) {
      try {
        const watch = this.#handle.watch({ signal })
        let isInitial = true
        for await (const event of watch) {
          failures = 0
          if (event.type !== 'bookmark') told.event(event, isInitial)
          else if (event.isInitialEnd) {
            isInitial = false
            told.listed()
            this.#watch = watch
          }
        }
        return
      } catch (error) {
        this.#watch = null
        if (signal.aborted || isReprise(error, 'CLOSED')) return
        failures += 1
        if (isReprise(error, 'REVISION_GONE') && error.data.isOther === true) {
          const { timeline } = this.#handle
          const what = `${timeline} is another history than the one that was followed: all objects are looked at anew`
          this.#kernel.events.emit('report', { kind: 'resync', timeline, what })
        }
        if (!isReprise(error, 'REVISION_GONE')) {
          told.failed(error)
          this.#kernel.events.emit('problem', { where: this.#handle.timeline, error })
        }
        await restUnlessAborted(this.#kernel.clock, growingPause(failures, 5, longestPauseMs), signal)
      }
    }
  }
}
