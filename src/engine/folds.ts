// The folds this process knows, by the scope of their timelines (core/scope.ts): how tools that are given only an id
// (verify, drill, card, savepoint, rollback, collect) find out what its history means. A fold and its policy reach only
// what was declared with them.

import { RepriseError } from '../core/errors.ts'
import type { Head } from '../core/ports.ts'
import type { RetentionPolicy } from '../core/retention.ts'
import { scopesOf } from '../core/scope.ts'
import type { Fold } from './definition.ts'
import type { Planted } from './kernel.ts'

export class Folds {
  readonly #byScope = new Map<string, Fold<unknown>>()
  readonly #isLoose: boolean

  constructor(planted: Planted) {
    this.#isLoose = planted.has('loose-scope')
  }

  set<State>(scope: string, fold: Fold<State>): void {
    this.#byScope.set(scope, fold as Fold<unknown>)
  }

  /** The one with the longest scope, or null. */
  find(id: string): Fold<unknown> | null {
    for (const scope of this.#isLoose ? beginningsOf(id) : scopesOf(id)) {
      const fold = this.#byScope.get(scope)
      if (fold) return fold
    }
    return null
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

/** Planted: the beginning of an id, wherever it ends. */
function* beginningsOf(id: string): Generator<string> {
  for (let length = id.length; length >= 0; length--) yield id.slice(0, length)
}
