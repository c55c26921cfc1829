// Values of a graph's state as portable data: LangChain objects by their class id, long texts and large binaries as
// leaves that are stored once per thread, everything else with the codec, so Date, BigInt, NaN, Map and bytes survive.
// Values that JSON would drop (functions, symbols) are dropped; other class instances become plain data, as in LangGraph.

import * as messageClasses from '@langchain/core/messages'
import { DeltaSnapshot } from '@langchain/langgraph-checkpoint'
import type { ClassCodec } from '../../core/codec/class-codec.ts'
import { Codec } from '../../core/codec/codec.ts'
import type { Limits } from '../../core/limits.ts'
import type { Hash } from '../../core/store/ports.ts'

/** A text, a binary, or (in a list of one) an encoded message. */
export type LeafValue = string | Uint8Array | readonly [Uint8Array]

/** Minimum length of texts and binaries that are stored as leaves. */
export const leafLengthMin = 128
/** Minimum size of messages that are stored as leaves: a message occurs as a write, as a step's input and in the list. */
const messageBytesMin = 48
/** Enough to prevent collisions, even deliberate ones. */
const leafDigestBytes = 16

/** Replaces a message, a long text or a large binary: the digest under which it is stored. */
export class Leaf {
  readonly digest: string

  constructor(digest: string) {
    this.digest = digest
  }
}

/** A LangChain object: its class id and its constructor arguments. */
export class LangChainObject {
  readonly id: readonly string[]
  readonly kwargs: unknown
  /** True: `kwargs` come from the class's toJSON, and LangChain's loader revives them; false: those from a message class. */
  readonly isForLoader: boolean

  constructor(id: readonly string[], kwargs: unknown, isForLoader: boolean) {
    this.id = id
    this.kwargs = kwargs
    this.isForLoader = isForLoader
  }
}

class Snapshot {
  readonly value: unknown

  constructor(value: unknown) {
    this.value = value
  }
}

/** An encoded value to be stored. */
export interface Encoded {
  readonly bytes: Uint8Array
  /** Its leaves, by digest. */
  readonly leaves: ReadonlyMap<string, LeafValue>
}

export class Portable {
  readonly #codec: Codec
  readonly #hash: Hash
  readonly #shared = new WeakMap<Uint8Array, { readonly tree: unknown }>()

  constructor(hash: Hash, limits: Pick<Limits, 'valueBytes' | 'valueDepth'>) {
    this.#hash = hash
    this.#codec = new Codec({ limits, classes })
  }

  encode(value: unknown): Encoded {
    const leaves = new Map<string, LeafValue>()
    const tree = new Flattening(
      (leaf) => this.#leaf(leaf, leaves),
      (message) => {
        const bytes = this.#codec.encode(message)
        return bytes.length < messageBytesMin ? message : this.#leaf([bytes], leaves)
      },
    ).of(value)
    return { bytes: this.#codec.encode(tree), leaves }
  }

  /** The tree with leaves and LangChain objects still in portable form; see revive.ts. It must not be changed. */
  decode(bytes: Uint8Array): unknown {
    return this.#codec.decode(bytes)
  }

  /** Decodes once per byte array: lists of checkpoints show the same elements again and again. */
  decodeShared(bytes: Uint8Array): unknown {
    const known = this.#shared.get(bytes)
    if (known !== undefined) return known.tree
    const tree = this.#codec.decode(bytes)
    this.#shared.set(bytes, { tree })
    return tree
  }

  #leaf(value: LeafValue, leaves: Map<string, LeafValue>): Leaf {
    const [kind, bytes] =
      typeof value === 'string' ? [1, utf16Safe(value)] : value instanceof Uint8Array ? [2, value] : [3, value[0]]
    const tagged = new Uint8Array(bytes.length + 1)
    tagged[0] = kind
    tagged.set(bytes, 1)
    const digest = Buffer.from(this.#hash(tagged).subarray(0, leafDigestBytes)).toString('base64url')
    leaves.set(digest, value)
    return new Leaf(digest)
  }
}

const encoder = new TextEncoder()

/** UTF-8 maps all lone surrogates to the same bytes, so texts that contain one are hashed by their code units too. */
function utf16Safe(text: string): Uint8Array {
  const bytes = encoder.encode(text)
  return /\p{Surrogate}/u.test(text) ? new Uint8Array([...bytes, 0, ...Buffer.from(text, 'utf16le')]) : bytes
}

/** Names of message classes and fields, by number. Append only: the numbers are stored. */
const messageNames = ['HumanMessage', 'AIMessage', 'ToolMessage', 'SystemMessage', 'RemoveMessage', 'ChatMessage']
const messageFields = [
  ...['content', 'id', 'additional_kwargs', 'response_metadata', 'tool_calls', 'invalid_tool_calls', 'name'],
  ...['tool_call_id', 'usage_metadata', 'status', 'artifact', 'role', 'type', 'metadata'],
]

const classes: readonly ClassCodec[] = [
  {
    name: 'l',
    type: Leaf,
    encode: (leaf) => new Uint8Array(Buffer.from((leaf as Leaf).digest, 'base64url')),
    decode: (data) => new Leaf(Buffer.from(data as Uint8Array).toString('base64url')),
  },
  {
    name: 'c',
    type: LangChainObject,
    encode: (value) => {
      const { id, kwargs, isForLoader } = value as LangChainObject
      if (isForLoader) return [id, kwargs]
      const fields = Object.entries(kwargs as object).flatMap(([key, item]) => [pack(messageFields, key), item])
      return [pack(messageNames, id[2]!), ...fields]
    },
    decode: (data) => {
      const [first, ...rest] = data as unknown[]
      if (Array.isArray(first)) return new LangChainObject(first as string[], rest[0], true)
      const kwargs: Record<string, unknown> = {}
      for (let i = 0; i < rest.length; i += 2) define(kwargs, unpack(messageFields, rest[i]), rest[i + 1])
      return new LangChainObject(['langchain_core', 'messages', unpack(messageNames, first)], kwargs, false)
    },
  },
  {
    name: 'd',
    type: Snapshot,
    encode: (value) => (value as Snapshot).value,
    decode: (data) => new Snapshot(data),
  },
]

function pack(names: readonly string[], name: string): string | number {
  const at = names.indexOf(name)
  return at < 0 ? name : at
}

function unpack(names: readonly string[], packed: unknown): string {
  return typeof packed === 'number' ? (names[packed] ?? '') : String(packed)
}

export { Snapshot }

export type MessageClass = new (kwargs: Record<string, unknown>) => object

/** The message class of LangChain with this name; undefined for any other name. */
export function messageClass(name: string): MessageClass | undefined {
  return classesByName.get(name)
}

const classesByName: ReadonlyMap<string, MessageClass> = new Map(
  Object.entries(messageClasses).flatMap(([name, found]: [string, unknown]): [string, MessageClass][] => {
    // Without instanceof, which LangChain redefines for its classes.
    const isClass =
      typeof found === 'function' &&
      Object.prototype.isPrototypeOf.call(messageClasses.BaseMessage.prototype, found.prototype)
    return isClass ? [[name, found as MessageClass]] : []
  }),
)

class Flattening {
  readonly #leaf: (value: string | Uint8Array) => Leaf
  readonly #messageLeaf: (message: LangChainObject) => LangChainObject | Leaf
  readonly #seen = new Map<object, unknown>()

  constructor(
    leaf: (value: string | Uint8Array) => Leaf,
    messageLeaf: (message: LangChainObject) => LangChainObject | Leaf,
  ) {
    this.#leaf = leaf
    this.#messageLeaf = messageLeaf
  }

  of(value: unknown): unknown {
    if (typeof value === 'string') return value.length < leafLengthMin ? value : this.#leaf(value)
    if (typeof value === 'function' || typeof value === 'symbol') return undefined
    if (typeof value !== 'object' || value === null) return value
    const known = this.#seen.get(value)
    return known === undefined ? this.#container(value) : known
  }

  #container(value: object): unknown {
    if (value instanceof Uint8Array) return this.#binary(value)
    if (value instanceof Date || value instanceof RegExp || value instanceof ArrayBuffer) return value
    if (ArrayBuffer.isView(value)) return value
    if (value instanceof DeltaSnapshot) return new Snapshot(this.of(value.value))
    if (value instanceof Error) return new Error(value.message)
    if (Array.isArray(value)) return this.#array(value)
    if (value instanceof Map) return this.#map(value)
    if (value instanceof Set) return this.#set(value)
    if (isMessage(value)) return this.#message(value)
    if ('lg_name' in value && value.lg_name === 'Send') return this.#plain(value, this.#sendFields(value))
    if ('toJSON' in value && typeof value.toJSON === 'function') return this.#fromJson(value, value.toJSON())
    return this.#plain(value, Object.keys(value))
  }

  #binary(value: Uint8Array): unknown {
    // A plain view over the same bytes: a Buffer is stored as a Uint8Array.
    const plain = new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
    return plain.length < leafLengthMin ? plain : this.#leaf(plain)
  }

  #array(value: readonly unknown[]): unknown {
    const made: unknown[] = []
    this.#seen.set(value, made)
    for (const item of value) made.push(isDropped(item) ? null : this.of(item))
    return made
  }

  #map(value: ReadonlyMap<unknown, unknown>): unknown {
    const made = new Map<unknown, unknown>()
    this.#seen.set(value, made)
    for (const [key, item] of value) made.set(this.of(key), this.of(item))
    return made
  }

  #set(value: ReadonlySet<unknown>): unknown {
    const made = new Set<unknown>()
    this.#seen.set(value, made)
    for (const item of value) made.add(this.of(item))
    return made
  }

  #plain(value: object, keys: readonly string[]): unknown {
    const made: Record<string, unknown> = {}
    this.#seen.set(value, made)
    for (const key of keys) {
      const item: unknown = Reflect.get(value, key)
      if (!isDropped(item)) define(made, key, this.of(item))
    }
    return made
  }

  #sendFields(send: object): string[] {
    return ['node', 'args', 'timeout'].filter((key) => Reflect.get(send, key) !== undefined)
  }

  #message(message: { readonly lc_kwargs: object; readonly lc_id: readonly string[] }): unknown {
    const kwargs: Record<string, unknown> = {}
    for (const key of Object.keys(message.lc_kwargs)) {
      const item: unknown = key in message ? Reflect.get(message, key) : Reflect.get(message.lc_kwargs, key)
      if (!isDropped(item)) define(kwargs, key, this.of(item))
    }
    return this.#messageLeaf(new LangChainObject(message.lc_id, kwargs, false))
  }

  #fromJson(value: object, json: unknown): unknown {
    const { lc, type, id, kwargs } = (json ?? {}) as Record<string, unknown>
    if (lc === 1 && type === 'constructor' && Array.isArray(id) && 'lc_serializable' in value) {
      return new LangChainObject(id as string[], this.of(kwargs), true)
    }
    return json === value ? this.#plain(value, Object.keys(value)) : this.of(json)
  }
}

function isMessage(value: object): value is { readonly lc_kwargs: object; readonly lc_id: readonly string[] } {
  if (!('lc_serializable' in value && value.lc_serializable === true && 'lc_id' in value && 'lc_kwargs' in value)) {
    return false
  }
  const id = value.lc_id
  return Array.isArray(id) && id.length === 3 && id[0] === 'langchain_core' && messageClass(String(id[2])) !== undefined
}

function isDropped(value: unknown): boolean {
  return typeof value === 'function' || typeof value === 'symbol'
}

/** Supports the key __proto__ too. */
export function define(target: object, key: string, value: unknown): void {
  if (key === '__proto__') {
    Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true })
  } else (target as Record<string, unknown>)[key] = value
}
