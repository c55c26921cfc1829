// Items that are due at a time, earliest first: a binary heap of times, and a set of items per time. The queue is an index
// over state and is never stored: the owner of the state fills it again after a restore.

import { assert } from './assert.ts'

export class TimeQueue<T> {
  readonly #times: number[] = []
  readonly #due = new Map<number, Set<T>>()

  /** The earliest time; Infinity if the queue is empty. */
  get next(): number {
    return this.#times[0] ?? Number.POSITIVE_INFINITY
  }

  add(time: number, item: T): void {
    const items = this.#due.get(time)
    if (items) {
      items.add(item)
      return
    }
    this.#due.set(time, new Set([item]))
    this.#push(time)
  }

  /** Removes and returns the items of the earliest time, if that is not after `until`; null if no item is due. */
  take(until: number): { readonly time: number; readonly items: ReadonlySet<T> } | null {
    const time = this.#times[0]
    if (time === undefined || time > until) return null
    this.#pop()
    const items = this.#due.get(time)
    this.#due.delete(time)
    assert(items !== undefined && this.#times.length === this.#due.size, 'every time in the heap has items, once')
    return { time, items }
  }

  #push(time: number): void {
    const heap = this.#times
    let at = heap.push(time) - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (heap[parent]! <= time) break
      heap[at] = heap[parent]!
      at = parent
    }
    heap[at] = time
  }

  #pop(): void {
    const heap = this.#times
    const last = heap.pop()!
    if (heap.length === 0) return
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && heap[child + 1]! < heap[child]!) child += 1
      if (heap[child]! >= last) break
      heap[at] = heap[child]!
      at = child
    }
    heap[at] = last
  }
}
