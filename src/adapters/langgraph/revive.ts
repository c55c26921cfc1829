// Converts the portable tree back to values: leaves become their texts and binaries, LangChain messages are made by their
// classes, other LangChain objects by LangChain's own loader, which works on data only and runs no code named in it. Each
// call returns fresh objects: changes that a graph makes to its state never reach the stored data.

import { load } from '@langchain/core/load'
import { DeltaSnapshot } from '@langchain/langgraph-checkpoint'
import { RepriseError } from '../../core/errors.ts'
import { define, LangChainObject, Leaf, type LeafValue, messageClass, Snapshot } from './portable.ts'

export interface LeafReader {
  get(digest: string): LeafValue | undefined
  decodeShared(bytes: Uint8Array): unknown
}

/** @example await revive(portable.decode(bytes), leaves) */
export async function revive(tree: unknown, leaves: LeafReader): Promise<unknown> {
  const reviving = new Reviving(leaves)
  const value = reviving.of(tree)
  if (!reviving.isWaiting) return value
  const root = { value }
  if (value instanceof Later) reviving.later(value, (made) => Reflect.set(root, 'value', made))
  await reviving.settle()
  return root.value
}

/** A placeholder for a LangChain object that the loader is still making. */
class Later {
  readonly made: Promise<unknown>

  constructor(made: Promise<unknown>) {
    this.made = made
  }
}

class Reviving {
  readonly #leaves: LeafReader
  readonly #seen = new Map<object, unknown>()
  readonly #waiting: Promise<unknown>[] = []

  constructor(leaves: LeafReader) {
    this.#leaves = leaves
  }

  get isWaiting(): boolean {
    return this.#waiting.length > 0
  }

  of(value: unknown): unknown {
    if (typeof value !== 'object' || value === null) return value
    const known = this.#seen.get(value)
    if (known !== undefined) return known
    if (value instanceof Leaf) return this.#leaf(value)
    if (value instanceof Snapshot) return new DeltaSnapshot(this.of(value.value))
    if (value instanceof LangChainObject) return this.#langChain(value)
    if (Array.isArray(value)) return this.#array(value)
    if (value instanceof Map) return this.#map(value)
    if (value instanceof Set) return this.#set(value)
    const prototype: unknown = Object.getPrototypeOf(value)
    if (prototype === Object.prototype || prototype === null) return this.#plain(value)
    // Dates, binaries and the like are copied: the tree is shared, and they can be changed in place.
    const made: unknown = structuredClone(value)
    this.#seen.set(value, made)
    return made
  }

  later(value: Later, put: (made: unknown) => void): void {
    this.#waiting.push(value.made.then(put))
  }

  async settle(): Promise<void> {
    await Promise.all(this.#waiting)
  }

  #put(value: unknown, put: (made: unknown) => void): void {
    if (value instanceof Later) this.later(value, put)
    else put(value)
  }

  #leaf({ digest }: Leaf): unknown {
    const value = this.#leaves.get(digest)
    if (value === undefined) {
      throw new RepriseError('MALFORMED', `a value names the leaf ${digest}, which is missing`, { digest })
    }
    if (typeof value === 'string') return value
    if (value instanceof Uint8Array) return value.slice()
    // Fresh objects each time, although the decoded tree is shared: two occurrences of one message are two objects.
    return new Reviving(this.#leaves).of(this.#leaves.decodeShared(value[0]))
  }

  #langChain(value: LangChainObject): unknown {
    const Class = value.isForLoader ? undefined : messageClass(value.id[2] ?? '')
    if (Class) {
      const kwargs = this.#plain(value.kwargs as object)
      const made = new Class(kwargs)
      this.#seen.set(value, made)
      return made
    }
    const later = new Later(
      load(JSON.stringify({ lc: 1, type: 'constructor', id: value.id, kwargs: this.of(value.kwargs) })),
    )
    this.#waiting.push(later.made)
    return later
  }

  #array(value: readonly unknown[]): unknown {
    const made: unknown[] = new Array(value.length)
    this.#seen.set(value, made)
    for (let i = 0; i < value.length; i++) {
      const revived = this.of(value[i])
      if (revived instanceof Later) this.later(revived, (late) => Reflect.set(made, i, late))
      else made[i] = revived
    }
    return made
  }

  #map(value: ReadonlyMap<unknown, unknown>): unknown {
    const made = new Map<unknown, unknown>()
    this.#seen.set(value, made)
    for (const [key, item] of value) {
      const revivedKey = this.of(key)
      made.set(revivedKey, undefined)
      this.#put(this.of(item), (revived) => made.set(revivedKey, revived))
    }
    return made
  }

  #set(value: ReadonlySet<unknown>): unknown {
    const made = new Set<unknown>()
    this.#seen.set(value, made)
    for (const item of value) this.#put(this.of(item), (revived) => made.add(revived))
    return made
  }

  #plain(value: object): Record<string, unknown> {
    const made: Record<string, unknown> = {}
    this.#seen.set(value, made)
    for (const key of Object.keys(value)) {
      const revived = this.of((value as Record<string, unknown>)[key])
      // The key keeps its position while its value is being made.
      define(made, key, revived instanceof Later ? undefined : revived)
      if (revived instanceof Later) this.later(revived, (late) => define(made, key, late))
    }
    return made
  }
}
