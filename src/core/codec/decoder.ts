// Decodes bytes to a value (format in codec.ts). It trusts nothing: every count, tag, number and key is checked, and
// any encoding but the encoder's is MALFORMED. No data selects code to run: classes come from the registry.

import { RepriseError } from '../errors.ts'
import type { ClassCodec } from './class-codec.ts'
import { fillError, type Pace, SortedKeys, setField } from './fields.ts'
import {
  arrayTags,
  bytesPerUnit,
  codecVersion,
  define,
  errorKinds,
  plainTags,
  shapesMax,
  shapeTags,
  tag,
  textTags,
  unitsFree,
  weight,
} from './format.ts'
import { readBuffer, readRegExp, readView } from './leaf.ts'
import { readBigint, readBigNegative, readFloat32, readFloat64, readNegative, readPositive } from './number.ts'
import { isStackOverflow, malformed, ValueReader } from './reader.ts'
import { isListed, type ReadShape, type ReadShapes } from './shape.ts'

/** The same number of levels as the encoder writes in steps. */
const outerLevels = 4
const dateMax = 8.64e15
const arrayLengthMax = 0xffff_ffff
const unfinished = Object.freeze({})

export class ValueDecoder {
  readonly #in: ValueReader
  readonly #known: ReadShapes
  readonly #classes: ReadonlyMap<string, ClassCodec>
  readonly #depthMax: number
  readonly #unitsMax: number
  readonly #shapes: ReadShape[] = []
  /** In the order of first appearance, as the encoder numbered them. */
  readonly #containers: unknown[] = []
  #units = 0

  constructor(
    bytes: Uint8Array,
    known: ReadShapes,
    classes: ReadonlyMap<string, ClassCodec>,
    limits: { readonly valueBytes: number; readonly valueDepth: number },
  ) {
    this.#in = new ValueReader(bytes)
    this.#known = known
    this.#classes = classes
    this.#depthMax = limits.valueDepth
    this.#unitsMax = unitsFree + Math.floor(limits.valueBytes / bytesPerUnit)
  }

  decode(): unknown {
    this.#begin()
    return this.#end(this.#value(0))
  }

  #begin(): void {
    const version = this.#in.byte()
    if (version !== codecVersion) {
      throw new RepriseError('INCOMPATIBLE_VERSION', `value format ${version} is not known`, {
        version,
        known: codecVersion,
      })
    }
  }

  #end(value: unknown): unknown {
    if (this.#in.remaining > 0) throw malformed(`${this.#in.remaining} bytes follow the value`)
    return value
  }

  /** Decodes to the same value in steps: yields after every `stepBytes` bytes. */
  *decodeInSteps(stepBytes: number): Generator<void, unknown> {
    this.#begin()
    const value = yield* this.#outer(0, { at: stepBytes, stepBytes })
    return this.#end(value)
  }

  /** Reads the outer levels of a value child by child; deeper levels are read without a pause. */
  *#outer(depth: number, pace: Pace): Generator<void, unknown> {
    const found = this.#in.peek()
    const isArray = (found >= arrayTags && found < shapeTags) || found === tag.array
    let value: unknown
    if (depth >= outerLevels) value = this.#value(depth)
    else if (isArray) value = yield* this.#outerItems(found, depth, pace)
    else if (found === tag.largeObject) value = yield* this.#outerFields(depth, pace)
    else if (found === tag.map) value = yield* this.#outerMap(depth, pace)
    else if ((found >= shapeTags && found < plainTags) || found === tag.newShape || found === tag.knownShape)
      value = yield* this.#outerObject(found, depth, pace)
    else value = this.#value(depth)
    if (this.#in.offset >= pace.at) {
      pace.at = this.#in.offset + pace.stepBytes
      yield
    }
    return value
  }

  *#outerItems(found: number, depth: number, pace: Pace): Generator<void, unknown[]> {
    this.#in.byte()
    const count = found === tag.array ? this.#longCount() : found - arrayTags
    const items = this.#newArray(count, depth)
    for (let i = 0; i < count; i++) items.push(yield* this.#outer(depth + 1, pace))
    return items
  }

  *#outerObject(found: number, depth: number, pace: Pace): Generator<void, Record<string, unknown>> {
    this.#in.byte()
    const shape =
      found === tag.newShape
        ? this.#newShape()
        : found === tag.knownShape
          ? this.#laterShape()
          : this.#shape(found - shapeTags)
    const result = this.#newObject(depth)
    if (shape.keys.length > this.#in.remaining) throw malformed('the data ends early')
    for (const key of shape.keys) setField(result, key, yield* this.#outer(depth + 1, pace))
    return result
  }

  *#outerFields(depth: number, pace: Pace): Generator<void, Record<string, unknown>> {
    this.#in.byte()
    const result = this.#newObject(depth)
    const keys = new SortedKeys(this.#in, this.#shapes.length === shapesMax)
    for (let i = 0; i < keys.count; i++) setField(result, keys.next(), yield* this.#outer(depth + 1, pace))
    keys.check()
    return result
  }

  *#outerMap(depth: number, pace: Pace): Generator<void, Map<unknown, unknown>> {
    this.#in.byte()
    this.#enter(depth, weight.medium)
    const count = this.#in.count(2)
    const result = new Map<unknown, unknown>()
    this.#containers.push(result)
    for (let i = 0; i < count; i++) {
      const key = this.#value(depth + 1)
      if (Object.is(key, -0)) throw malformed('a map has no key -0')
      result.set(key, yield* this.#outer(depth + 1, pace))
    }
    if (result.size !== count) throw malformed('a map has the same key twice')
    return result
  }

  #value(depth: number): unknown {
    const found = this.#in.byte()
    if (found < textTags) return found
    if (found < arrayTags) return this.#in.shortText(found - textTags)
    if (found < shapeTags) return this.#array(found - arrayTags, depth)
    if (found < plainTags) return this.#object(this.#shape(found - shapeTags), depth)
    switch (found) {
      case tag.undefined:
        return undefined
      case tag.null:
        return null
      case tag.false:
        return false
      case tag.true:
        return true
      case tag.positive:
        return readPositive(this.#in)
      case tag.negative:
        return readNegative(this.#in)
      case tag.float32:
        return readFloat32(this.#in)
      case tag.float64:
        return readFloat64(this.#in)
      case tag.notANumber:
        return Number.NaN
      case tag.minusZero:
        return -0
      case tag.infinity:
        return Number.POSITIVE_INFINITY
      case tag.minusInfinity:
        return Number.NEGATIVE_INFINITY
      case tag.bigPositive:
        return readBigint(this.#in)
      case tag.bigNegative:
        return readBigNegative(this.#in)
      case tag.text:
        return this.#in.longText()
      case tag.text16:
        return this.#in.text16()
      case tag.array:
        return this.#longArray(depth)
      case tag.newShape:
        return this.#object(this.#newShape(), depth)
      case tag.knownShape:
        return this.#object(this.#laterShape(), depth)
      case tag.largeObject:
        return this.#largeObject(depth)
      default:
        return this.#special(found, depth)
    }
  }

  #special(found: number, depth: number): unknown {
    switch (found) {
      case tag.sparseArray:
        return this.#sparseArray(depth)
      case tag.map:
        return this.#map(depth)
      case tag.set:
        return this.#set(depth)
      case tag.date:
        return this.#date(depth)
      case tag.regExp:
        return this.#leaf(readRegExp, weight.heavy, depth)
      case tag.error:
        return this.#error(depth)
      case tag.buffer:
        return this.#leaf(readBuffer, weight.medium, depth)
      case tag.view:
        return this.#leaf(readView, weight.medium, depth)
      case tag.instance:
        return this.#instance(depth)
      case tag.reference:
        return this.#reference()
      default:
        throw malformed(`unknown tag ${found}`)
    }
  }

  /** Checks every container before anything is allocated for it. */
  #enter(depth: number, units: number): void {
    if (depth >= this.#depthMax) {
      throw new RepriseError('LIMIT_EXCEEDED', `a value is nested deeper than ${this.#depthMax}`, {
        limit: 'valueDepth',
        max: this.#depthMax,
      })
    }
    this.#units += units
    if (this.#units > this.#unitsMax) {
      throw new RepriseError('LIMIT_EXCEEDED', 'a value holds too many containers for the size limit', {
        limit: 'valueBytes',
        unitsMax: this.#unitsMax,
      })
    }
  }

  #longArray(depth: number): unknown[] {
    return this.#array(this.#longCount(), depth)
  }

  #longCount(): number {
    const count = this.#in.count(1)
    if (count < 16) throw malformed('an array is not in its shortest form')
    return count
  }

  #newArray(count: number, depth: number): unknown[] {
    this.#enter(depth, weight.light)
    if (count > this.#in.remaining) throw malformed('the data ends early')
    const items: unknown[] = []
    this.#containers.push(items)
    return items
  }

  #array(count: number, depth: number): unknown[] {
    const items = this.#newArray(count, depth)
    for (let i = 0; i < count; i++) items.push(this.#value(depth + 1))
    return items
  }

  #sparseArray(depth: number): unknown[] {
    this.#enter(depth, weight.medium)
    const length = this.#in.integer()
    const count = this.#in.count(2)
    if (length > arrayLengthMax || count >= length) throw malformed('a sparse array has no holes, or is too long')
    const items: unknown[] = []
    // The maximum length first: it turns the array into a hash table, so that no memory is reserved for the holes.
    items.length = arrayLengthMax
    items.length = length
    this.#containers.push(items)
    let next = 0
    for (let i = 0; i < count; i++) {
      const index = next + this.#in.integer()
      if (index >= length) throw malformed('an index lies beyond its array')
      next = index + 1
      items[index] = this.#value(depth + 1)
    }
    return items
  }

  #shape(index: number): ReadShape {
    const shape = this.#shapes[index]
    if (shape === undefined) throw malformed(`shape ${index} was not written before`)
    return shape
  }

  #laterShape(): ReadShape {
    const index = this.#in.integer()
    if (index < 16) throw malformed('a shape is not in its shortest form')
    return this.#shape(index)
  }

  #newShape(): ReadShape {
    const shape = this.#known.read(this.#in, this.#in.integer())
    if (this.#shapes.length === shapesMax) throw malformed('a value has too many shapes')
    if (isListed(this.#shapes, shape)) throw malformed('a shape is written twice')
    this.#shapes.push(shape)
    return shape
  }

  #newObject(depth: number): Record<string, unknown> {
    this.#enter(depth, weight.light)
    const result: Record<string, unknown> = {}
    this.#containers.push(result)
    return result
  }

  #object(shape: ReadShape, depth: number): Record<string, unknown> {
    const result = this.#newObject(depth)
    this.#fields(result, shape, depth)
    return result
  }

  #fields(result: Record<string, unknown>, shape: ReadShape, depth: number): void {
    const { keys } = shape
    if (keys.length > this.#in.remaining) throw malformed('the data ends early')
    if (shape.hasOddKey) {
      for (const key of keys) define(result, key, this.#value(depth + 1))
      return
    }
    for (let i = 0; i < keys.length; i++) result[keys[i]!] = this.#value(depth + 1)
  }

  #largeObject(depth: number): Record<string, unknown> {
    const result = this.#newObject(depth)
    this.#largeFields(result, depth)
    return result
  }

  #largeFields(result: Record<string, unknown>, depth: number): void {
    const keys = new SortedKeys(this.#in, this.#shapes.length === shapesMax)
    for (let i = 0; i < keys.count; i++) setField(result, keys.next(), this.#value(depth + 1))
    keys.check()
  }

  #map(depth: number): Map<unknown, unknown> {
    this.#enter(depth, weight.medium)
    const count = this.#in.count(2)
    const result = new Map<unknown, unknown>()
    this.#containers.push(result)
    for (let i = 0; i < count; i++) {
      const key = this.#value(depth + 1)
      if (Object.is(key, -0)) throw malformed('a map has no key -0')
      result.set(key, this.#value(depth + 1))
    }
    if (result.size !== count) throw malformed('a map has the same key twice')
    return result
  }

  #set(depth: number): Set<unknown> {
    this.#enter(depth, weight.medium)
    const count = this.#in.count(1)
    const result = new Set<unknown>()
    this.#containers.push(result)
    for (let i = 0; i < count; i++) {
      const member = this.#value(depth + 1)
      if (Object.is(member, -0)) throw malformed('a set has no member -0')
      result.add(member)
    }
    if (result.size !== count) throw malformed('a set has the same member twice')
    return result
  }

  #date(depth: number): Date {
    this.#enter(depth, weight.medium)
    const time = this.#value(depth + 1)
    const isTime = typeof time === 'number' && (Number.isNaN(time) || (Number.isInteger(time) && !Object.is(time, -0)))
    if (!isTime || Math.abs(time) > dateMax) throw malformed('a date is out of range')
    const result = new Date(time)
    this.#containers.push(result)
    return result
  }

  #leaf(read: (from: ValueReader) => object, units: number, depth: number): object {
    this.#enter(depth, units)
    const result = read(this.#in)
    this.#containers.push(result)
    return result
  }

  #error(depth: number): Error {
    this.#enter(depth + 1, weight.heavy)
    const kind = errorKinds[this.#in.byte()]
    if (kind === undefined) throw malformed('an unknown kind of error')
    const result = kind.create()
    this.#containers.push(result)
    const fields: Record<string, unknown> = {}
    const found = this.#in.byte()
    if (found >= shapeTags && found < plainTags) this.#fields(fields, this.#shape(found - shapeTags), depth + 1)
    else if (found === tag.newShape) this.#fields(fields, this.#newShape(), depth + 1)
    else if (found === tag.knownShape) this.#fields(fields, this.#laterShape(), depth + 1)
    else if (found === tag.largeObject) this.#largeFields(fields, depth + 1)
    else throw malformed('an error without its fields')
    fillError(result, kind.name, fields)
    return result
  }

  #instance(depth: number): unknown {
    this.#enter(depth, weight.medium)
    const name = this.#in.text()
    const codec = this.#classes.get(name)
    if (codec === undefined) {
      throw new RepriseError(
        'UNKNOWN_CODEC',
        `no codec is registered for the class ${JSON.stringify(name.slice(0, 80))}`,
        {
          class: name.slice(0, 80),
        },
      )
    }
    const index = this.#containers.push(unfinished) - 1
    const data = this.#value(depth + 1)
    let result: unknown
    try {
      result = codec.decode(data)
    } catch (cause) {
      if (isStackOverflow(cause)) throw cause
      throw malformed(`the codec of the class ${name} refused its data`, cause)
    }
    this.#containers[index] = result
    return result
  }

  #reference(): unknown {
    const index = this.#in.integer()
    if (index >= this.#containers.length)
      throw malformed(`a reference to container ${index}, which did not appear before`)
    const result = this.#containers[index]
    if (result === unfinished) throw malformed('a cycle through an instance of a class')
    return result
  }
}
