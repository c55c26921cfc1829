// External revisions of a kind. Internally, a revision is a sequence of the timeline; an external revision also carries the
// era of the store and the life of the kind, so that a revision of another history is refused and never read as a position in
// this one. In a store that was never restored both are the same number.

import { type Era, revisionAt, seqOfRevision } from '../../core/identity.ts'
import { freezeJson } from './rules/json.ts'
import type { ResourceObject } from './rules/object.ts'

export class Revisions {
  readonly #now: () => Era
  #era: Era = { era: 0, life: 1 }
  #shown = new WeakMap<ResourceObject, ResourceObject>()

  /** `now`: the current era of the store and life of the kind, as this process knows them. */
  constructor(now: () => Era) {
    this.#now = now
  }

  /** Changes when the history becomes a different one. */
  get number(): number {
    return this.outside(0)
  }

  outside(seq: number): number {
    return revisionAt(this.#now(), seq)
  }

  /** Null: the revision belongs to another history. 0 is the start of every history. */
  inside(revision: number): number | null {
    return revision === 0 ? 0 : seqOfRevision(this.#now(), revision)
  }

  /** The object with its external revision. All callers share one value. */
  shown<Shown extends ResourceObject | undefined>(object: Shown): Shown {
    const { era, life } = this.#now()
    if (object === undefined || (era === 0 && life === 1)) return freezeJson(object) as Shown
    if (this.#era.era !== era || this.#era.life !== life) {
      this.#era = { era, life }
      this.#shown = new WeakMap()
    }
    const known = this.#shown.get(object)
    if (known) return known as Shown
    const shown = freezeJson({ ...object, revision: this.outside(object.revision) }) as ResourceObject
    this.#shown.set(object, shown)
    return shown as Shown
  }
}
