// The models this process knows, by the scope of their timelines (core/history/scope.ts): how tools that are given only an id
// (drill, card, savepoint, rollback, collect, show, …) find out what it is. A model and its policy reach only what was
// declared with them; nothing is compared, an id is looked up under each scope that holds it.

import { RepriseError } from '../../core/errors.ts'
import { scopesOf } from '../../core/history/scope.ts'
import type { Planted } from '../base/planted.ts'
import type { Fold } from './definition.ts'
import type { Model } from './model.ts'

export class Models {
  readonly #byScope = new Map<string, Model>()
  readonly #watchers: ((model: Model) => Promise<void>)[] = []
  readonly #ignoresSegments: boolean

  constructor(planted: Planted) {
    this.#ignoresSegments = planted.has('loose-scope')
  }

  /** Another definition of the same kind takes the place of one before it; one of another kind is refused. */
  declare(model: Model): void {
    const known = this.#byScope.get(model.scope)
    if (known === model) return
    if (known && known.kind !== model.kind) {
      const what = `${model.scope} is a ${known.kind} here and cannot be a ${model.kind} too: give one of them another name`
      throw new RepriseError('INVALID_ARGUMENT', what, { scope: model.scope, kinds: [known.kind, model.kind] })
    }
    this.#byScope.set(model.scope, model)
    for (const watcher of this.#watchers) void watcher(model)
  }

  /** Learns of each model that is declared, and of those that are. */
  watch(watcher: (model: Model) => Promise<void>): void {
    this.#watchers.push(watcher)
    for (const model of this.#byScope.values()) void watcher(model)
  }

  /** The one with the narrowest scope, or null. */
  find(id: string): Model | null {
    for (const scope of this.#ignoresSegments ? beginningsOf(id) : scopesOf(id)) {
      const model = this.#byScope.get(scope)
      if (model) return model
    }
    return null
  }

  foldOf(id: string): Fold<unknown> | null {
    return this.find(id)?.fold ?? null
  }

  mustFold(id: string): Fold<unknown> {
    const fold = this.foldOf(id)
    if (fold) return fold
    const what = `the definition of ${id} is not known here: open or register one first`
    throw new RepriseError('INVALID_ARGUMENT', what, { timeline: id })
  }

  all(): Model[] {
    return [...this.#byScope.values()]
  }
}

/** Planted: the beginning of an id, wherever it ends. */
function* beginningsOf(id: string): Generator<string> {
  for (let length = id.length; length >= 0; length--) yield id.slice(0, length)
}
