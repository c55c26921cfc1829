// The models this process knows, by the scope of their timelines (core/history/scope.ts). Tools that get only an id
// (drill, card, savepoint, rollback, collect, show, …) find its model here. A model and its policy apply only to the
// timelines declared with them: an id is looked up under each scope that contains it.

import { RepriseError } from '../../core/errors.ts'
import { scopesOf } from '../../core/history/scope.ts'
import { checkObject, checkText } from '../../core/options.ts'
import type { Planted } from '../base/planted-bugs.ts'
import type { Fold } from './definition.ts'
import type { Model } from './model.ts'

export class ModelRegistry {
  readonly #byScope = new Map<string, Model>()
  readonly #watchers: ((model: Model) => Promise<void>)[] = []
  readonly #ignoresSegments: boolean

  constructor(planted: Planted) {
    this.#ignoresSegments = planted.has('loose-scope')
  }

  /** A definition replaces an earlier one of the same kind; a definition of another kind is refused. */
  declare(model: Model): void {
    checkObject('the model of declare()', model)
    checkText('the scope of a model', model.scope)
    const known = this.#byScope.get(model.scope)
    if (known === model) return
    if (known && known.kind !== model.kind) {
      const what = `${model.scope} is a ${known.kind} and cannot also be a ${model.kind}: rename one of them`
      throw new RepriseError('INVALID_ARGUMENT', what, { scope: model.scope, kinds: [known.kind, model.kind] })
    }
    this.#byScope.set(model.scope, model)
    for (const watcher of this.#watchers) void watcher(model)
  }

  /** Called for each model already declared and for each later declaration. */
  watch(watcher: (model: Model) => Promise<void>): void {
    this.#watchers.push(watcher)
    for (const model of this.#byScope.values()) void watcher(model)
  }

  /** The model with the narrowest scope, or null. */
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

/** Planted bug: every prefix of an id, ignoring segments. */
function* beginningsOf(id: string): Generator<string> {
  for (let length = id.length; length >= 0; length--) yield id.slice(0, length)
}
