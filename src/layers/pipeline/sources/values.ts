// Values that exist already, and values computed from their number: sources for tests, first steps and benchmarks. A position
// is the number of values returned.

import { RepriseError } from '../../../core/errors.ts'
import { checkCount, checkList, checkOptions, namesOf } from '../../../core/options.ts'
import { checkFunction, refuseThenable, type Synchronous } from '../../../core/synchronous.ts'
import type { Positions, Source, SourceBatch, SourceReader } from '../source.ts'

/**
 * The same values after every restart, in the same order.
 * @example p.from('orders', valueSource([{ cents: 5 }, { cents: 7 }]))
 */
export function valueSource<T>(all: readonly T[]): Source<T> {
  checkList('the values of valueSource()', all)
  return { ...generatedSource((n) => all[n] as Synchronous<T>, { count: all.length }), kind: 'values' }
}

export interface GeneratedOptions {
  /** The number of values in each partition. Default: endless. */
  readonly count?: number
  readonly partitions?: number
}

/** The nth value is a function of n: the same after every restart. */
export function generatedSource<T>(
  make: (n: number, partition: number) => Synchronous<T>,
  options: GeneratedOptions = {},
): Source<T> {
  checkOptions('generatedSource', options, namesOf<GeneratedOptions>()('count partitions'))
  checkFunction(make, 'generatedSource()')
  const { count = Number.POSITIVE_INFINITY, partitions = 1 } = options
  checkCount('partitions', partitions)
  const names = Array.from({ length: partitions }, (_, i) => (partitions === 1 ? '' : String(i)))
  return {
    kind: 'generated',
    partitions: async () => names,
    open: async (from, context) => new GeneratedReader<T>(make, count, names, context.partitions ?? names, from),
  }
}

/**
 * Anything that can be iterated again from its beginning, in the same order: a restart iterates again and skips values already
 * read. @example iterableSource(() => readRows())
 */
export function iterableSource<T>(begin: () => Iterable<T> | AsyncIterable<T>): Source<T> {
  checkFunction(begin, 'iterableSource()')
  return {
    kind: 'iterable',
    async open(from) {
      const done = positionOf(from?.get(''))
      return new IterableReader<T>(begin(), done)
    },
  }
}

class GeneratedReader<T> implements SourceReader<T> {
  readonly #make: (n: number, partition: number) => T
  readonly #count: number
  readonly #names: readonly string[]
  /** The number of each partition among all partitions. */
  readonly #numbers: readonly number[]
  readonly #next: number[]
  #turn = 0

  constructor(
    make: (n: number, partition: number) => T,
    count: number,
    all: readonly string[],
    own: readonly string[],
    from: Positions | null,
  ) {
    this.#make = make
    this.#count = count
    this.#names = all.filter((name) => own.includes(name))
    this.#numbers = this.#names.map((name) => all.indexOf(name))
    this.#next = this.#names.map((name) => positionOf(from?.get(name)))
  }

  partitions(): readonly string[] {
    return this.#names
  }

  read(max: number): SourceBatch<T> | null {
    for (let tried = 0; tried < this.#names.length; tried++) {
      const partition = this.#turn++ % this.#names.length
      const first = this.#next[partition]!
      const size = Math.min(max, this.#count - first)
      if (size <= 0) continue
      const made = new Array<T>(size)
      const number = this.#numbers[partition]!
      for (let i = 0; i < size; i++) made[i] = this.#make(first + i, number)
      refuseThenable(made[0], 'the function of generatedSource()', 'use iterableSource() for asynchronous values')
      this.#next[partition] = first + size
      return { partition: this.#names[partition]!, values: made, position: first + size }
    }
    return null
  }

  async close(): Promise<void> {}
}

class IterableReader<T> implements SourceReader<T> {
  readonly #items: Iterator<T> | AsyncIterator<T>
  #toSkip: number
  #given: number
  #isReading = false

  constructor(items: Iterable<T> | AsyncIterable<T>, done: number) {
    this.#items = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]()
    this.#toSkip = done
    this.#given = done
  }

  partitions(): readonly string[] {
    return ['']
  }

  async read(max: number): Promise<SourceBatch<T> | null> {
    const batch: T[] = []
    while (batch.length < max) {
      const next = this.#items.next()
      this.#isReading = true
      const step = next instanceof Promise ? await next : next
      this.#isReading = false
      if (step.done) break
      if (this.#toSkip > 0) this.#toSkip -= 1
      else batch.push(step.value)
      // Values that arrive slowly are returned as they arrive.
      if (next instanceof Promise && batch.length > 0) break
    }
    if (batch.length === 0) return null
    this.#given += batch.length
    return { partition: '', values: batch, position: this.#given }
  }

  async close(): Promise<void> {
    const closed = this.#items.return?.()
    // An iterator that waits for its next value closes when that value arrives, which may be never.
    if (!this.#isReading) await closed
    else Promise.resolve(closed).catch(() => undefined)
  }
}

export function positionOf(position: unknown): number {
  if (position === undefined) return 0
  if (Number.isSafeInteger(position) && (position as number) >= 0) return position as number
  throw new RepriseError(
    'INVALID_ARGUMENT',
    'the position of this source must be a count: another source used its name before',
    {
      position,
    },
  )
}
