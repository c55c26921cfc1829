// Alignment of barriers at the inputs of a task (Chandy-Lamport, aligned). A barrier with id n on a channel says: what
// follows is not part of checkpoint n. So a channel waits from its barrier on, until all channels have delivered theirs;
// then the task is captured, and everything flows again.
//
// Ids only grow. A barrier of an older or aborted checkpoint is dropped. A newer one cancels the pending one, and the
// cancellation goes downstream, so that nobody waits for a barrier that never comes. A source at the end of its input still
// takes part in checkpoints, so every channel delivers barriers until the pipeline stops.

import { assert } from '../../../core/assert.ts'

/** What the task has to do, in this order. */
export interface Aligned {
  /** The checkpoint that was given up at this task: tell those downstream. */
  readonly cancel: number | null
  /** Every channel is aligned: capture now, and pass the barrier on in the same turn. */
  readonly capture: number | null
}

const nothing: Aligned = { cancel: null, capture: null }

export class Alignment {
  readonly #isWaiting: boolean[]
  /** The checkpoint whose barriers are being collected. */
  #pending: number | null = null
  /** No barrier up to this id has a meaning any more. */
  #done: number
  /** Ids above `done` that were called off before their first barrier came. */
  readonly #aborted = new Set<number>()

  constructor(channels: number, done = 0) {
    assert(channels > 0, 'a task that aligns barriers has inputs')
    this.#isWaiting = new Array<boolean>(channels).fill(false)
    this.#done = done
  }

  get pending(): number | null {
    return this.#pending
  }

  /** True: nothing may be taken from this channel until the others have caught up. */
  isWaiting(channel: number): boolean {
    return this.#isWaiting[channel]!
  }

  barrier(channel: number, id: number): Aligned {
    assert(!this.#isWaiting[channel], 'a waiting channel is not read')
    if (this.#isOver(id) || (this.#pending !== null && id < this.#pending)) return nothing
    const cancel = this.#pending !== null && id > this.#pending ? this.#giveUp() : null
    this.#pending = id
    this.#isWaiting[channel] = true
    return { cancel, capture: this.#complete() }
  }

  /** The coordinator called this checkpoint off, or a marker from upstream says that its barrier will not come. */
  abort(id: number): Aligned {
    if (this.#isOver(id)) return nothing
    if (id === this.#pending) return { cancel: this.#giveUp(), capture: null }
    // Not seen here yet: its barrier may still be under way. Those downstream learn it from us, once.
    this.#aborted.add(id)
    return { cancel: id, capture: null }
  }

  #isOver(id: number): boolean {
    return id <= this.#done || this.#aborted.has(id)
  }

  #giveUp(): number {
    const id = this.#pending
    assert(id !== null, 'only a pending checkpoint is given up')
    this.#finish(id)
    return id
  }

  #complete(): number | null {
    const id = this.#pending
    assert(id !== null, 'only a pending checkpoint completes')
    if (this.#isWaiting.includes(false)) return null
    this.#finish(id)
    return id
  }

  #finish(id: number): void {
    assert(id > this.#done, 'checkpoints of a task are finished in order')
    this.#done = id
    this.#pending = null
    this.#isWaiting.fill(false)
    for (const aborted of this.#aborted) if (aborted <= id) this.#aborted.delete(aborted)
  }
}
