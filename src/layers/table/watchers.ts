// Watchers of changes in a table. Changes are collected while a commit is applied and reported together afterwards, so a
// watcher never sees a partial transaction.

import type { KeyedRange } from '../../core/keyed-state/keyed.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import { checkFunction } from '../../core/synchronous.ts'
import { warnOnReject } from '../../lib/warn-on-reject.ts'

const known = namesOf<KeyedRange>()('from to prefix reverse limit')

export interface TableChange<V> {
  readonly key: string
  /** Undefined: the row was deleted. */
  readonly value: V | undefined
  readonly before: V | undefined
}

export class Watchers<V> {
  readonly #watchers = new Set<{ readonly range: KeyedRange; call(changes: readonly TableChange<V>[]): void }>()
  #changes: TableChange<V>[] = []

  get isEmpty(): boolean {
    return this.#watchers.size === 0
  }

  add(range: string | KeyedRange, call: (changes: readonly TableChange<V>[]) => void): () => void {
    checkFunction(call, 'watch()')
    if (typeof range !== 'string') checkRange(range)
    const watcher = { range: typeof range === 'string' ? { from: range, to: `${range}\u0000` } : range, call }
    this.#watchers.add(watcher)
    return () => this.#watchers.delete(watcher)
  }

  wants(key: string): boolean {
    for (const { range } of this.#watchers) if (isInside(key, range)) return true
    return false
  }

  note(change: TableChange<V>): void {
    this.#changes.push(change)
  }

  notify(): void {
    if (this.#changes.length === 0) return
    const changes = this.#changes
    this.#changes = []
    for (const { range, call } of this.#watchers) {
      const seen = changes.filter(({ key }) => isInside(key, range))
      if (seen.length > 0) warnOnReject(call(seen), 'watch()')
    }
  }
}

/** A misspelt name would select every row. */
export function checkRange(range: KeyedRange): void {
  checkOptions('range of rows', range, known)
}

function isInside(key: string, { from, to, prefix }: KeyedRange): boolean {
  return (
    (from === undefined || key >= from) &&
    (to === undefined || key < to) &&
    (prefix === undefined || key.startsWith(prefix))
  )
}
