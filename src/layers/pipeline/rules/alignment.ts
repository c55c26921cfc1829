// Alignment of barriers at the inputs of a task (Chandy-Lamport, aligned). A barrier with id n on a channel means: later
// records are not part of checkpoint n. A channel therefore waits after its barrier until all channels have delivered theirs;
// then the task is captured, and all channels resume.
//
// Ids only grow. A barrier of an older or aborted checkpoint is dropped. A newer barrier cancels the pending checkpoint, and
// the cancellation is sent downstream, so that no task waits for a barrier that will not arrive. A source at the end of its
// input still takes part in checkpoints, so every channel delivers barriers until the pipeline stops.

import { assert } from '../../../core/assert.ts'

/** The actions for the task, in this order. */
export interface Aligned {
  /** The checkpoint that was aborted at this task: notify the tasks downstream. */
  readonly cancel: number | null
  /** All channels are aligned: capture now, and pass the barrier on in the same turn. */
  readonly capture: number | null
}

const nothing: Aligned = { cancel: null, capture: null }

export class Alignment {
  readonly #isWaiting: boolean[]
  /** The checkpoint whose barriers are being collected. */
  #pending: number | null = null
  /** Barriers up to this id are obsolete. */
  #done: number
  /** Ids above `done` that were aborted before their first barrier arrived. */
  readonly #aborted = new Set<number>()

  constructor(channels: number, done = 0) {
    assert(channels > 0, 'a task that aligns barriers has inputs')
    this.#isWaiting = new Array<boolean>(channels).fill(false)
    this.#done = done
  }

  get pending(): number | null {
    return this.#pending
  }

  /** True: this channel must not be read until the others have caught up. */
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

  /** The coordinator aborted this checkpoint, or a marker from upstream cancelled its barrier. */
  abort(id: number): Aligned {
    if (this.#isOver(id)) return nothing
    if (id === this.#pending) return { cancel: this.#giveUp(), capture: null }
    // The checkpoint is unknown here, and its barrier may still be in progress. Tasks downstream are notified from here, once.
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
