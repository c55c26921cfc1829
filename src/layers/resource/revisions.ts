// Revisions as they leave a kind. Inside, a revision is a sequence of its timeline; outside, it also says of which era of the
// store and of which life of the kind it is, so that a revision of another history is refused and never read as a place in
// this one. In a store that never went back both are the same number.

import { type Era, revisionAt, seqOfRevision } from '../../core/history/identity.ts'
import { freezeJson } from './rules/json.ts'
import type { ResourceObject } from './rules/object.ts'

export class Revisions {
  readonly #now: () => Era
  #era: Era = { era: 0, life: 1 }
  #shown = new WeakMap<ResourceObject, ResourceObject>()

  /** `now`: of the store and the kind, as far as this process knows. */
  constructor(now: () => Era) {
    this.#now = now
  }

  /** Changes when the history becomes another one. */
  get number(): number {
    return this.outside(0)
  }

  outside(seq: number): number {
    return revisionAt(this.#now(), seq)
  }

  /** Null: the revision is of another history. 0 is the start of each. */
  inside(revision: number): number | null {
    return revision === 0 ? 0 : seqOfRevision(this.#now(), revision)
  }

  /** The object as people outside see it. One value for all of them. */
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

/** Equal to no sequence: what a revision of another history is compared as. */
export const otherHistory = -1
