// The folds this process knows, by the prefix of their timelines: how tools that are given only an id (verify, drill,
// card, savepoint, rollback) find out what its history means.

import { RepriseError } from '../core/errors.ts'
import type { Head } from '../core/ports.ts'
import type { RetentionPolicy } from '../core/retention.ts'
import type { Fold } from './definition.ts'

export class Folds {
  readonly #byPrefix = new Map<string, Fold<unknown>>()

  set<State>(prefix: string, fold: Fold<State>): void {
    this.#byPrefix.set(prefix, fold as Fold<unknown>)
  }

  /** The one with the longest prefix, or null. */
  find(id: string): Fold<unknown> | null {
    let best: Fold<unknown> | null = null
    let length = -1
    for (const [prefix, fold] of this.#byPrefix) {
      if (!id.startsWith(prefix) || prefix.length <= length) continue
      best = fold
      length = prefix.length
    }
    return best
  }

  mustFind(id: string): Fold<unknown> {
    const fold = this.find(id)
    if (fold) return fold
    const what = `the definition of ${id} is not known here: open or register one first`
    throw new RepriseError('INVALID_ARGUMENT', what, { timeline: id })
  }

  policyOf(head: Head): { readonly policy: RetentionPolicy; readonly foldVersion: string } | null {
    const fold = this.find(head.timeline)
    return fold ? { policy: fold.retain ?? {}, foldVersion: fold.version } : null
  }
}
