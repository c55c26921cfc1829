// Follows the objects of a kind for an informer or a controller: first every existing object, then every change, and every
// object again if the watch fell too far behind. The callback receives only names; its owner reads the current object, so no
// change is lost in between.

import { isReprise } from '../../core/errors.ts'
import { growingPause } from '../../core/retry/pause.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import { sleep } from '../../lib/waiting.ts'
import type { ResourceHandle } from './handle.ts'
import type { Watch, WatchEvent } from './watch.ts'

export interface FollowListener {
  event(event: Exclude<WatchEvent, { type: 'bookmark' }>, isInitial: boolean): void
  /** Every object that existed at the start has been passed on. */
  listed(): void
  /** The objects cannot be followed at the moment; the watch is retried. */
  failed(error: unknown): void
}

const longestPauseMs = 5000

export class Following {
  readonly #kernel: Kernel
  readonly #stopping = new AbortController()
  readonly #loop: Promise<void>
  readonly #handle: ResourceHandle
  /** Null during the initial list. */
  #watch: Watch | null = null

  constructor(kernel: Kernel, handle: ResourceHandle, listener: FollowListener) {
    this.#kernel = kernel
    this.#handle = handle
    this.#loop = this.#run(listener)
  }

  /** Every change up to this revision has been passed on; -1: the initial list or an event is still in progress. */
  get seen(): number {
    return this.#watch?.resting ?? -1
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#loop
  }

  async #run(listener: FollowListener): Promise<void> {
    const { signal } = this.#stopping
    for (let failures = 0; !signal.aborted; ) {
      try {
        const watch = this.#handle.watch({ signal })
        let isInitial = true
        for await (const event of watch) {
          failures = 0
          if (event.type !== 'bookmark') listener.event(event, isInitial)
          else if (event.isInitialEnd) {
            isInitial = false
            listener.listed()
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
          const what = `${timeline} has another history than before: all objects are processed again`
          this.#kernel.events.emit('report', { kind: 'resync', timeline, what })
        }
        if (!isReprise(error, 'REVISION_GONE')) {
          listener.failed(error)
          this.#kernel.events.emit('problem', { where: this.#handle.timeline, error })
        }
        await sleep(this.#kernel.clock, growingPause(failures, 5, longestPauseMs), { signal, isAwaited: false })
      }
    }
  }
}
