// The one deep comparison of values: of states, saves, session data and cells of a pipeline. It covers every value that the
// codec stores. Two values are equal if they contain the same, whatever the order of keys, of map entries and of set members;
// references may be shared on one side and not on the other. The stack of an error is not compared.

export interface Difference {
  /** Empty for the whole value. A name with a dot is quoted, a key that is not text is in brackets. @example optimizer.rate */
  readonly path: string
  readonly kind: 'added' | 'removed' | 'changed'
  readonly before?: unknown
  readonly after?: unknown
}

export interface DifferenceOptions {
  /** Stops after this many. Default: no limit. */
  readonly most?: number
  /** The data of an instance that its own properties do not show; undefined for all others. */
  readonly dataOf?: (instance: object) => unknown
}

/** @example differences({ a: 1 }, { a: 2 }) // [{ path: 'a', kind: 'changed', before: 1, after: 2 }] */
export function differences(before: unknown, after: unknown, options: DifferenceOptions = {}): Difference[] {
  const walk = new Walk(options)
  walk.compare(before, after, '')
  return walk.found
}

/** @example isEqual(new Date(1), new Date(2)) // false */
export function isEqual(a: unknown, b: unknown, options: Pick<DifferenceOptions, 'dataOf'> = {}): boolean {
  return differences(a, b, { ...options, most: 1 }).length === 0
}

/** The type of a value, for people: `Date`, `bigint`, `-0`. */
export function kindOf(value: unknown): string {
  if (value === null) return 'null'
  if (typeof value !== 'object') return Object.is(value, -0) ? '-0' : typeof value
  if (value instanceof Error) return errorTypes.find((type) => value instanceof type)?.name ?? 'Error'
  const kind = Object.prototype.toString.call(value).slice(8, -1)
  if (kind !== 'Object') return kind
  const type: unknown = Object.getPrototypeOf(value)?.constructor
  return typeof type === 'function' ? type.name : 'Object'
}

const errorTypes = [AggregateError, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError]

class Walk {
  readonly found: Difference[] = []
  readonly #most: number
  readonly #dataOf: (instance: object) => unknown
  /** The comparison in which this one decides whether two keys are equal. */
  readonly #outer: Walk | null
  /** Pairs that are being compared further out, or were found equal: cycles end, and shared parts are compared once. */
  readonly #settled = new Map<object, Set<object>>()

  constructor(
    { most = Number.POSITIVE_INFINITY, dataOf = () => undefined }: DifferenceOptions,
    outer: Walk | null = null,
  ) {
    this.#most = most
    this.#dataOf = dataOf
    this.#outer = outer
  }

  compare(a: unknown, b: unknown, path: string): void {
    if (this.#isFull || Object.is(a, b)) return
    if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null || !isSameType(a, b)) {
      this.found.push({ path, kind: 'changed', before: a, after: b })
      return
    }
    if (this.#isSettled(a, b)) return
    const settled = this.#settled.get(a) ?? new Set()
    this.#settled.set(a, settled.add(b))
    const foundBefore = this.found.length
    this.#parts(a, b, path)
    // A shared part that differs is reported at each of its places.
    if (this.found.length > foundBefore) settled.delete(b)
  }

  #isSettled(a: object, b: object): boolean {
    if (this.#settled.get(a)?.has(b)) return true
    return this.#outer === null ? false : this.#outer.#isSettled(a, b)
  }

  get #isFull(): boolean {
    return this.found.length >= this.#most
  }

  /** Two objects of one type. */
  #parts(a: object, b: object, path: string): void {
    const [leaf, otherLeaf] = [leafOf(a), leafOf(b)]
    if (leaf !== null && otherLeaf !== null) {
      const isSame = leaf.length === otherLeaf.length && leaf.every((unit, i) => Object.is(unit, otherLeaf[i]))
      if (!isSame) this.found.push({ path, kind: 'changed', before: a, after: b })
      return
    }
    const data = isInstance(a) ? this.#dataOf(a) : undefined
    if (data !== undefined) this.compare(data, this.#dataOf(b), path)
    else if (a instanceof Set) this.#sets(a, b as Set<unknown>, path)
    else if (hasEntries(a)) this.#maps(a, b as Entries, path)
    else this.#fields(fieldsOf(a), fieldsOf(b), path)
  }

  #fields(a: Readonly<Record<string, unknown>>, b: Readonly<Record<string, unknown>>, path: string): void {
    for (const name of Object.keys(a)) {
      if (this.#isFull) return
      if (Object.hasOwn(b, name)) this.compare(a[name], b[name], step(path, name))
      else this.found.push({ path: step(path, name), kind: 'removed', before: a[name] })
    }
    for (const name of Object.keys(b)) {
      if (this.#isFull) return
      if (!Object.hasOwn(a, name)) this.found.push({ path: step(path, name), kind: 'added', after: b[name] })
    }
    if (Array.isArray(a) && Array.isArray(b)) this.#holesAtTheEnd(a, b, path)
  }

  #holesAtTheEnd(a: readonly unknown[], b: readonly unknown[], path: string): void {
    const longer = a.length > b.length ? a : b
    if (Object.hasOwn(longer, longer.length - 1)) return
    this.compare(a.length, b.length, step(path, 'length'))
  }

  #maps(a: Entries, b: Entries, path: string): void {
    const added = new Map(b.entries())
    const objects = objectKeys(added)
    for (const [key, value] of a.entries()) {
      if (this.#isFull) return
      const twin = this.#twin(key, added, objects)
      if (twin === null) this.found.push({ path: step(path, key), kind: 'removed', before: value })
      else {
        this.compare(value, added.get(twin.key), step(path, key))
        added.delete(twin.key)
      }
    }
    for (const [key, value] of added) {
      if (this.#isFull) return
      this.found.push({ path: step(path, key), kind: 'added', after: value })
    }
  }

  #sets(a: ReadonlySet<unknown>, b: ReadonlySet<unknown>, path: string): void {
    const added = new Map([...b].map((member) => [member, member]))
    const objects = objectKeys(added)
    for (const member of a) {
      if (this.#isFull) return
      const twin = this.#twin(member, added, objects)
      if (twin === null) this.found.push({ path: step(path, member), kind: 'removed', before: member })
      else added.delete(twin.key)
    }
    for (const member of added.keys()) {
      if (this.#isFull) return
      this.found.push({ path: step(path, member), kind: 'added', after: member })
    }
  }

  /** The equal key of the other side. Objects are keys by identity there, and are searched by their content. */
  #twin(key: unknown, others: ReadonlyMap<unknown, unknown>, objects: Set<object>): { readonly key: unknown } | null {
    if (typeof key !== 'object' || key === null) return others.has(key) ? { key } : null
    for (const other of objects) {
      if (!this.#isEqualAside(key, other)) continue
      objects.delete(other)
      return { key: other }
    }
    return null
  }

  /** Reports nothing. Pairs that are being compared further out count as equal, or a set that holds itself would never end. */
  #isEqualAside(a: object, b: object): boolean {
    const aside = new Walk({ most: 1, dataOf: this.#dataOf }, this)
    aside.compare(a, b, '')
    return aside.found.length === 0
  }
}

/** A map, or a collection that reads like one. */
interface Entries {
  readonly size: number
  entries(): Iterable<readonly [unknown, unknown]>
}

function hasEntries(value: object): value is Entries {
  if (value instanceof Map) return true
  const { entries, size } = value as Partial<Entries>
  return isInstance(value) && typeof entries === 'function' && typeof size === 'number'
}

function isSameType(a: object, b: object): boolean {
  if (kindOf(a) !== kindOf(b)) return false
  if (!isInstance(a) && !isInstance(b)) return true
  // Views and errors of a subclass are stored as their base class.
  if (ArrayBuffer.isView(a) || a instanceof Error) return true
  return Object.getPrototypeOf(a) === Object.getPrototypeOf(b)
}

/** Neither an array nor a plain object, even from another realm. */
function isInstance(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return !Array.isArray(value) && prototype !== null && Object.getPrototypeOf(prototype) !== null
}

/** The content of an object without parts; null for all others. */
function leafOf(
  value: object,
): (ArrayLike<unknown> & { every(test: (unit: unknown, i: number) => boolean): boolean }) | null {
  if (value instanceof Date) return [value.getTime()]
  if (value instanceof RegExp) return [value.source, value.flags]
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
  return value instanceof ArrayBuffer ? new Uint8Array(value) : null
}

/** Own properties; for an error, also its non-enumerable fields. */
function fieldsOf(value: object): Readonly<Record<string, unknown>> {
  if (!(value instanceof Error)) return value as Record<string, unknown>
  const fields: Record<string, unknown> = { ...value, name: value.name, message: value.message }
  delete fields.stack
  for (const name of ['cause', 'errors']) if (Object.hasOwn(value, name)) fields[name] = Reflect.get(value, name)
  return fields
}

function objectKeys(map: ReadonlyMap<unknown, unknown>): Set<object> {
  return new Set([...map.keys()].filter((key) => typeof key === 'object' && key !== null) as object[])
}

function step(path: string, name: unknown): string {
  const isName = typeof name === 'string' && name !== '' && !/[.[\]"]/.test(name)
  if (isName) return path === '' ? name : `${path}.${name}`
  return `${path}[${typeof name === 'string' ? JSON.stringify(name) : keyText(name)}]`
}

function keyText(key: unknown): string {
  if (typeof key === 'bigint') return `${key}n`
  if (key instanceof Date) return `Date ${key.getTime()}`
  return typeof key === 'object' && key !== null ? kindOf(key) : String(key)
}
