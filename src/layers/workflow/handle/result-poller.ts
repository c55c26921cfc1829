// Polls runs that other processes execute, for everyone who waits for a result. Polls are shared, and their rate is
// bounded to a small part of the time, however many callers wait.

import type { TimelineId } from '../../../core/coordinate.ts'
import type { Head } from '../../../core/store/ports.ts'
import { headsInReach } from '../../../core/store/shard-set.ts'
import { Yielder } from '../../../engine/base/yielder.ts'
import type { Kernel } from '../../../engine/storage/kernel.ts'

/** The interval if polls are cheap. */
const lookMs = 250
/** The largest part of the time that polls may take. */
const share = 0.1
const pauseMaxMs = 5000
const atOnce = 200

type Seen = (head: Head | undefined) => void

export class ResultPoller {
  readonly #kernel: Kernel
  readonly #waiting = new Map<TimelineId, Set<Seen>>()
  #cancel: (() => void) | null = null
  #isLooking = false
  #pauseMs = lookMs

  constructor(kernel: Kernel) {
    this.#kernel = kernel
  }

  /** Calls `seen` once, with the head from the next poll; with undefined if the head could not be read or is gone. */
  next(timeline: TimelineId, seen: Seen): () => void {
    const waiting = this.#waiting.get(timeline) ?? new Set()
    this.#waiting.set(timeline, waiting.add(seen))
    this.#schedule()
    return () => {
      waiting.delete(seen)
      if (waiting.size === 0 && this.#waiting.get(timeline) === waiting) this.#waiting.delete(timeline)
      if (this.#waiting.size > 0) return
      this.#cancel?.()
      this.#cancel = null
    }
  }

  #schedule(): void {
    if (this.#cancel || this.#isLooking || this.#waiting.size === 0) return
    this.#cancel = this.#kernel.clock.after(this.#pauseMs, () => {
      this.#cancel = null
      this.#isLooking = true
      void this.#look().finally(() => {
        this.#isLooking = false
        this.#schedule()
      })
    })
  }

  async #look(): Promise<void> {
    const { clock, store } = this.#kernel
    const timelines = [...this.#waiting.keys()]
    const yielder = new Yielder(clock)
    let busyMs = 0
    for (let from = 0; from < timelines.length; from += atOnce) {
      if (yielder.isDue) await yielder.take()
      const some = timelines.slice(from, from + atOnce)
      const began = clock.elapsed()
      // On failure each waiting caller reads its own head, and receives the error.
      const heads = await headsInReach(store, some).catch(() => [])
      busyMs += clock.elapsed() - began
      for (const [at, timeline] of some.entries()) this.#notify(timeline, heads[at] ?? undefined)
    }
    // A poll of an unreachable database is slow without causing load, so the pause has an upper bound.
    this.#pauseMs = Math.min(Math.max(lookMs, busyMs / share), pauseMaxMs)
  }

  #notify(timeline: TimelineId, head: Head | undefined): void {
    const waiting = this.#waiting.get(timeline)
    this.#waiting.delete(timeline)
    for (const seen of waiting ?? []) seen(head)
  }
}
