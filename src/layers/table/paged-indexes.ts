// Secondary indexes of a paged table: terms and keys in memory, never values. An index is built by one pass over the pages on
// first use, while writes continue. A row that changes during the pass may also be indexed in its old state, so a reader
// checks that a row is still at its position.

import { RepriseError } from '../../core/errors.ts'
import { Index, type IndexFunction } from './indexes.ts'

interface Held<V> {
  readonly index: Index<V>
  ready: Promise<void>
}

export class PagedIndexes<V> {
  readonly #table: string
  readonly #functions: Readonly<Record<string, IndexFunction<V>>>
  readonly #held = new Map<string, Held<V>>()

  constructor(table: string, functions: Readonly<Record<string, IndexFunction<V>>>) {
    this.#table = table
    this.#functions = functions
  }

  get isEmpty(): boolean {
    return this.#held.size === 0
  }

  changed(key: string, before: V | undefined, after: V | undefined): void {
    for (const { index } of this.#held.values()) index.changed(key, before, after)
  }

  /** `between` runs its function at a point where no write is between its read and its application. */
  async get(
    name: string,
    between: (run: () => void) => Promise<void>,
    walk: () => AsyncIterable<[string, V]>,
  ): Promise<Index<V>> {
    const terms = Object.hasOwn(this.#functions, name) ? this.#functions[name] : undefined
    if (!terms) throw new RepriseError('INVALID_ARGUMENT', `${this.#table} has no index ${name}`, { index: name })
    for (;;) {
      const held = this.#held.get(name)
      if (held) {
        await held.ready
        return held.index
      }
      await between(() => {
        if (!this.#held.has(name)) this.#begin(name, terms, walk)
      })
    }
  }

  #begin(name: string, terms: IndexFunction<V>, walk: () => AsyncIterable<[string, V]>): void {
    const held: Held<V> = { index: new Index<V>(terms, []), ready: Promise.resolve() }
    this.#held.set(name, held)
    const fill = async () => {
      for await (const [key, value] of walk()) held.index.changed(key, undefined, value)
    }
    held.ready = fill().catch((error) => {
      this.#held.delete(name)
      throw error
    })
    // Callers of `get`, if any, receive the failure.
    held.ready.catch(() => undefined)
  }
}
