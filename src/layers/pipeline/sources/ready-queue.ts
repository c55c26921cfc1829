// Ready records of several partitions, for a source that reads them concurrently. Partitions take turns, so that a fast one
// does not crowd out a slow one. Each partition keeps its order; otherwise a position would skip records not returned yet.

import { assert } from '../../../core/assert.ts'
import type { SourceBatch } from '../source.ts'

export interface Ready<T> {
  readonly partition: string
  readonly values: readonly T[]
  /** The position after the first `count` values. Default: the values are returned whole, with the position after all of them. */
  readonly positionAt?: (count: number) => unknown
  /** The position after all values. */
  readonly position: unknown
  readonly isDue?: boolean
}

interface Waiting<T> {
  readonly ready: Ready<T>
  given: number
  readonly done: () => void
}

export class ReadyQueue<T> {
  /** The queues by partition, in order of turns. None is empty. */
  readonly #lines = new Map<string, Waiting<T>[]>()
  #reader: { resolve(batch: SourceBatch<T> | null): void; reject(error: unknown): void; max: number } | null = null
  #failure: { readonly error: unknown } | null = null
  #isClosed = false

  /** Settles when the values were returned: the reader of the partition then fetches more. */
  push(ready: Ready<T>): Promise<void> {
    if (this.#isClosed) return Promise.resolve()
    return new Promise((resolve) => {
      const line = this.#lines.get(ready.partition)
      const waiting = { ready, given: 0, done: resolve }
      if (line) line.push(waiting)
      else this.#lines.set(ready.partition, [waiting])
      this.#serve()
    })
  }

  /** The next read rejects with this error. */
  fail(error: unknown): void {
    if (this.#isClosed) return
    this.#failure ??= { error }
    this.#serve()
  }

  /** Nothing follows: reads return null. */
  close(): void {
    this.#isClosed = true
    for (const line of this.#lines.values()) for (const { done } of line) done()
    this.#lines.clear()
    this.#serve()
  }

  take(max: number): SourceBatch<T> | null | Promise<SourceBatch<T> | null> {
    if (this.#lines.size > 0 && !this.#failure) return this.#give(max)
    assert(this.#reader === null, 'a source is read one batch at a time')
    return new Promise((resolve, reject) => {
      this.#reader = { resolve, reject, max }
      this.#serve()
    })
  }

  #serve(): void {
    const reader = this.#reader
    if (!reader) return
    if (!this.#failure && !this.#isClosed && this.#lines.size === 0) return
    this.#reader = null
    if (this.#failure && !this.#isClosed) reader.reject(this.#failure.error)
    else reader.resolve(this.#lines.size > 0 ? this.#give(reader.max) : null)
  }

  #give(max: number): SourceBatch<T> {
    const [partition, line] = this.#lines.entries().next().value!
    const first = line[0]!
    const { ready, given } = first
    const { values, positionAt } = ready
    const end = positionAt ? Math.min(values.length, given + max) : values.length
    const isWhole = end === values.length
    first.given = end
    if (isWhole) line.shift()
    this.#lines.delete(partition)
    if (line.length > 0) this.#lines.set(partition, line)
    if (isWhole) first.done()
    return {
      partition,
      values: given === 0 && isWhole ? values : values.slice(given, end),
      position: isWhole ? ready.position : positionAt!(end),
      ...(isWhole && ready.isDue && { isDue: true }),
    }
  }
}
