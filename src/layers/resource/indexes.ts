// Objects of a kind by the values of user-defined indexes. The indexes follow the changes that this process has read, and are
// rebuilt when those changes are no longer in memory.

import { RepriseError } from '../../core/errors.ts'
import { refuseThenable } from '../../core/synchronous.ts'
import type { ResourceObject } from './rules/object.ts'
import type { SharedResource } from './shared-resource.ts'

export type ResourceIndex<Spec = unknown, Status = unknown> = (
  object: ResourceObject<Spec, Status>,
) => string | readonly string[] | undefined

export class ResourceIndexes {
  readonly #resource: SharedResource
  readonly #indexes: Readonly<Record<string, ResourceIndex>>
  /** Names, by index and value. */
  #names = new Map<string, Map<string, Set<string>>>()
  #revision = -1
  #branch = 0

  constructor(resource: SharedResource, indexes: Readonly<Record<string, ResourceIndex>>) {
    this.#resource = resource
    this.#indexes = indexes
  }

  by(index: string, value: string): ResourceObject[] {
    if (!Object.hasOwn(this.#indexes, index)) {
      const known = Object.keys(this.#indexes).join(', ') || 'none'
      throw new RepriseError('INVALID_ARGUMENT', `there is no index ${index} (there is ${known})`, { index })
    }
    this.#sync()
    const { objects } = this.#resource.state
    const names = this.#names.get(index)?.get(value) ?? new Set<string>()
    return [...names].sort().map((name) => objects.get(name)!)
  }

  #sync(): void {
    const { revision, branch, window, state } = this.#resource
    if (this.#revision === revision && this.#branch === branch) return
    const changes =
      this.#revision < 0 || this.#branch !== branch ? null : window.after(this.#revision, Number.POSITIVE_INFINITY)
    if (changes) {
      for (const { type, object, before } of changes) {
        if (before) this.#note(before, 'delete')
        if (type !== 'deleted') this.#note(object, 'add')
      }
    } else {
      this.#names = new Map()
      for (const object of state.objects.values()) this.#note(object, 'add')
    }
    this.#revision = revision
    this.#branch = branch
  }

  #note(object: ResourceObject, how: 'add' | 'delete'): void {
    for (const [index, valuesOf] of Object.entries(this.#indexes)) {
      const given = valuesOf(object)
      refuseThenable(given, `index ${index}`, 'compute the values from the object alone')
      const values = given === undefined ? [] : typeof given === 'string' ? [given] : given
      for (const value of values) {
        const byValue = this.#names.get(index) ?? new Map<string, Set<string>>()
        this.#names.set(index, byValue)
        const names = byValue.get(value) ?? new Set<string>()
        names[how](object.name)
        if (names.size > 0) byValue.set(value, names)
        else byValue.delete(value)
      }
    }
  }
}
