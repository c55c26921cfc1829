// The kinds of resources that the server has definitions for, and their open collections, one per requested namespace. The
// number of open collections is bounded; the least recently used idle one is closed.

import { RepriseError } from '../core/errors.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import type { ResourceHandle } from '../layers/resource/handle.ts'
import { isResource, type ResourceDefinition } from '../layers/resource/resource.ts'
import { type ApiNames, qualifiedName } from '../layers/resource/rules/api-names.ts'
import { type Collection, encodeObject } from '../layers/resource/rules/kubernetes.ts'
import type { ResourceObject } from '../layers/resource/rules/object.ts'

export interface OpenCollection extends Collection {
  readonly handle: ResourceHandle
  /** The object as JSON, encoded once for all watchers. */
  json(object: ResourceObject): string
}

interface Held {
  readonly opening: Promise<OpenCollection>
  users: number
}

export class ResourceKinds {
  readonly #engine: Reprise
  readonly #openMax: number
  readonly #definitions: readonly ResourceDefinition[]
  readonly #kinds: ReadonlyMap<string, ApiNames>
  /** By timeline, in order of last use. */
  readonly #held = new Map<string, Held>()

  constructor(engine: Reprise, definitions: readonly unknown[], openMax: number) {
    this.#engine = engine
    this.#openMax = openMax
    // The core group belongs to a cluster's own kinds; objects of another API server are served by that server.
    this.#definitions = definitions.filter(isResource).filter(({ api, from }) => api.group !== '' && !from)
    this.#kinds = new Map(this.#definitions.map(({ name, api }) => [name, api]))
    const names = this.#definitions.map(({ api }) => `${qualifiedName(api)}/${api.version}`)
    const twice = names.find((name, i) => names.indexOf(name) !== i)
    if (twice === undefined) return
    throw new RepriseError('INVALID_ARGUMENT', `two resources are called ${twice}: set another api for one of them`, {})
  }

  /** The kinds served here. */
  get all(): readonly ResourceDefinition[] {
    return this.#definitions
  }

  find(group: string, version: string, plural: string): ResourceDefinition | undefined {
    return this.#definitions.find(({ api }) => {
      return api.group === group && api.version === version && api.plural === plural
    })
  }

  /** Returns the open collection, which stays open until `release` is called. */
  async hold(definition: ResourceDefinition, namespace: string | undefined) {
    const id = namespace === undefined ? definition.name : `${definition.name}/${namespace}`
    const held = this.#held.get(id) ?? { opening: this.#open(definition, namespace), users: 0 }
    this.#held.delete(id)
    this.#held.set(id, held)
    held.users += 1
    let isOver = false
    const release = () => {
      if (isOver) return
      isOver = true
      held.users -= 1
    }
    try {
      const collection = await held.opening
      this.#closeUnused()
      return { collection, release }
    } catch (error) {
      if (this.#held.get(id) === held) this.#held.delete(id)
      throw error
    }
  }

  async close(): Promise<void> {
    const all = [...this.#held.values()]
    this.#held.clear()
    for (const { opening } of all) await opening.then(({ handle }) => handle.close()).catch(() => undefined)
  }

  async #open(definition: ResourceDefinition, namespace: string | undefined): Promise<OpenCollection> {
    const handle = await this.#engine.open(definition, namespace)
    const texts = new WeakMap<ResourceObject, string>()
    const collection: Collection = { api: definition.api, namespace, kinds: this.#kinds }
    return {
      ...collection,
      handle,
      json(object) {
        const known = texts.get(object)
        if (known !== undefined) return known
        const text = JSON.stringify(encodeObject(object, collection))
        texts.set(object, text)
        return text
      },
    }
  }

  #closeUnused(): void {
    for (const [id, { opening, users }] of this.#held) {
      if (this.#held.size <= this.#openMax) return
      if (users > 0) continue
      this.#held.delete(id)
      void opening.then(({ handle }) => handle.close()).catch(() => undefined)
    }
  }
}
