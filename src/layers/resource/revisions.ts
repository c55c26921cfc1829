// External revisions of a kind. Internally, a revision is a sequence of the timeline; an external revision also carries the
// era of the store, and the life and identity of the kind, so that a revision of another history, namespace or store is refused
// and never read as a position in this one.

import { type Era, revisionAt, seqOfRevision } from '../../core/identity.ts'
import { freezeJson } from './rules/json.ts'
import type { ResourceObject } from './rules/object.ts'

export class Revisions {
  readonly #now: () => Era
  #history = -1
  #shown = new WeakMap<ResourceObject, ResourceObject>()

  /** `now`: the current era of the store, and life and first number of the kind, as this process knows them. */
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
    const history = this.number
    if (object === undefined || history === 0) return freezeJson(object) as Shown
    if (this.#history !== history) {
      this.#history = history
      this.#shown = new WeakMap()
    }
    const known = this.#shown.get(object)
    if (known) return known as Shown
    const shown = freezeJson({ ...object, revision: this.outside(object.revision) }) as ResourceObject
    this.#shown.set(object, shown)
    return shown as Shown
  }
}
