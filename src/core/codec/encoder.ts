// Encodes a value to bytes (format in codec.ts). An instance encodes one value at a time and is reused for the next.
// It reads data properties only and runs none of the value's code, except registered class codecs and proxy traps.

import { RepriseError } from '../errors.ts'
import type { ClassCodec } from './class-codec.ts'
import {
  arrayTags,
  bytesPerUnit,
  codecVersion,
  define,
  errorKinds,
  needsDefine,
  shapesMax,
  shapeTags,
  tag,
  unitsFree,
  weight,
} from './format.ts'
import { className, fieldsOfError, hasHole, indexesOf, isForeignObjectPrototype, outerKind } from './inspect.ts'
import { viewKind, writeBuffer, writeRegExp, writeView } from './leaf.ts'
import { writeBigint, writeNumber } from './number.ts'
import { ValuePath } from './path.ts'
import { isStackOverflow } from './reader.ts'
import { type WriteShape, WriteShapes } from './shape.ts'
import { ValueWriter } from './writer.ts'

/** Up to this many containers, searching a list is faster than a map. */
const listedMax = 8
/** Number of outer levels that are written in steps: parts, state, its collections, their items. */
const outerLevels = 4

export class ValueEncoder {
  readonly #out: ValueWriter
  readonly #shapes = new WriteShapes()
  readonly #path = new ValuePath()
  readonly #classes: ReadonlyMap<object, ClassCodec>
  readonly #depthMax: number
  readonly #unitsMax: number

  // The containers written so far, in the order of first appearance: a reference is the position in this order.
  readonly #listed: (object | undefined)[] = []
  readonly #indexed = new Map<object, number>()
  #containers = 0
  #units = 0
  /** Output length at which the current step ends. */
  #stepAt = 0
  #message = 0
  #shapeCount = 0
  #unfinished: Set<object> | null = null
  #keepsSimple = false
  /** A copy of the outermost object, if all of its fields are simple. */
  #simple: Record<string, unknown> | null = null

  constructor(
    classes: ReadonlyMap<object, ClassCodec>,
    limits: { readonly valueBytes: number; readonly valueDepth: number },
    out = new ValueWriter(limits.valueBytes),
  ) {
    this.#out = out
    this.#classes = classes
    this.#depthMax = limits.valueDepth
    this.#unitsMax = unitsFree + Math.floor(limits.valueBytes / bytesPerUnit)
  }

  /** With `keepsSimple`, `takeSimple` returns the value afterwards. */
  encode(value: unknown, keepsSimple = false): Uint8Array {
    this.#out.begin()
    this.#write(value, keepsSimple)
    return this.#out.finish()
  }

  /** Encodes after the bytes already in the writer; `takeSimple` returns the value afterwards. */
  encodeBehind(value: unknown): void {
    this.#out.beginValue()
    this.#write(value, true)
    this.#out.endValue()
  }

  /**
   * Encodes to the same bytes in steps: yields after every `stepBytes` bytes. The value must not change meanwhile. This encoder
   * must not be used again: the returned bytes may be its own buffer.
   */
  *encodeInSteps(value: unknown, stepBytes: number): Generator<void, Uint8Array> {
    this.#out.begin()
    this.#begin(false)
    try {
      this.#out.byte(codecVersion)
      this.#stepAt = stepBytes
      yield* this.#outer(value, 0, stepBytes)
      return this.#out.finishLast()
    } finally {
      this.#forget()
    }
  }

  /**
   * The last encoded value, as decoding its bytes would return it, if it is an object of simple fields (texts, numbers, …):
   * those are immutable, so they need not be decoded. Otherwise undefined. Can be taken once.
   */
  takeSimple(): Record<string, unknown> | undefined {
    const simple = this.#simple
    this.#simple = null
    return simple ?? undefined
  }

  #write(value: unknown, keepsSimple: boolean): void {
    this.#begin(keepsSimple)
    try {
      this.#out.byte(codecVersion)
      this.#value(value, 0)
    } finally {
      this.#forget()
    }
  }

  #begin(keepsSimple: boolean): void {
    this.#keepsSimple = keepsSimple
    this.#message += 1
    this.#shapeCount = 0
    this.#units = 0
    this.#unfinished = null
    this.#simple = null
    this.#shapes.tidy()
  }

  /** Drops all references to the encoded value: it belongs to the caller. */
  #forget(): void {
    const listed = Math.min(this.#containers, listedMax)
    for (let i = 0; i < listed; i++) this.#listed[i] = undefined
    if (this.#containers > listedMax) this.#indexed.clear()
    this.#containers = 0
  }

  #value(value: unknown, depth: number): void {
    switch (typeof value) {
      case 'string':
        this.#out.text(value)
        return
      case 'number':
        writeNumber(this.#out, value)
        return
      case 'object':
        if (value === null) this.#out.byte(tag.null)
        else if (!this.#refer(value, depth)) this.#container(value, depth)
        return
      case 'boolean':
        this.#out.byte(value ? tag.true : tag.false)
        return
      case 'undefined':
        this.#out.byte(tag.undefined)
        return
      case 'bigint':
        writeBigint(this.#out, value)
        return
      case 'function':
        throw this.#path.refuse(depth, `a function (${value.name || 'without a name'})`)
      default:
        throw this.#path.refuse(depth, 'a symbol')
    }
  }

  /** Writes the outer levels of a value child by child; deeper levels are written without a pause. */
  *#outer(value: unknown, depth: number, stepBytes: number): Generator<void> {
    const kind = typeof value === 'object' && value !== null && depth < outerLevels ? outerKind(value) : null
    if (kind === null) this.#value(value, depth)
    else if (!this.#refer(value as object, depth)) {
      if (kind === 'object') yield* this.#outerFields(value as object, depth, stepBytes)
      else if (kind === 'array') yield* this.#outerItems(value as unknown[], depth, stepBytes)
      else yield* this.#outerMap(value as Map<unknown, unknown>, depth, stepBytes)
    }
    if (this.#out.length < this.#stepAt) return
    yield* this.#out.growInSteps(4 * stepBytes)
    this.#stepAt = this.#out.length + stepBytes
    yield
  }

  *#outerFields(value: object, depth: number, stepBytes: number): Generator<void> {
    this.#weigh(weight.light)
    if (Object.getOwnPropertySymbols(value).length > 0) throw this.#path.refuse(depth, 'a symbol as key')
    this.#path.enter(depth, 'property')
    const keys = Object.keys(value)
    const shape = this.#shape(keys)
    if (shape === null) {
      keys.sort()
      this.#out.tagged(tag.largeObject, keys.length)
    }
    for (const key of shape?.keys ?? keys) {
      if (shape === null) this.#out.text(key)
      yield* this.#outer(this.#property(value, key, depth), depth + 1, stepBytes)
    }
  }

  *#outerItems(value: readonly unknown[], depth: number, stepBytes: number): Generator<void> {
    this.#path.enter(depth, 'item')
    this.#weigh(weight.light)
    if (value.length < 16) this.#out.byte(arrayTags + value.length)
    else this.#out.tagged(tag.array, value.length)
    for (let i = 0; i < value.length; i++) {
      this.#path.at(depth, i)
      yield* this.#outer(value[i], depth + 1, stepBytes)
    }
  }

  *#outerMap(value: Map<unknown, unknown>, depth: number, stepBytes: number): Generator<void> {
    this.#weigh(weight.medium)
    this.#out.tagged(tag.map, value.size)
    let i = 0
    for (const [key, item] of Map.prototype.entries.call(value)) {
      this.#path.at(depth, i++)
      this.#path.enter(depth, 'key')
      this.#value(key, depth + 1)
      this.#path.enter(depth, 'value')
      yield* this.#outer(item, depth + 1, stepBytes)
    }
  }

  /** Writes a reference if this container was written before; otherwise assigns its number. */
  #refer(value: object, depth: number): boolean {
    const count = this.#containers
    let index: number | undefined
    if (count <= listedMax) {
      for (let i = 0; i < count; i++) if (this.#listed[i] === value) index = i
    } else {
      index = this.#indexed.get(value)
    }
    if (index !== undefined) {
      if (this.#unfinished?.has(value)) throw this.#path.refuse(depth, 'a cycle through an instance of a class')
      this.#out.tagged(tag.reference, index)
      return true
    }
    if (depth >= this.#depthMax) throw this.#path.tooDeep(depth, this.#depthMax)
    if (count < listedMax) {
      this.#listed[count] = value
    } else {
      if (count === listedMax) for (let i = 0; i < listedMax; i++) this.#indexed.set(this.#listed[i]!, i)
      this.#indexed.set(value, count)
    }
    this.#containers = count + 1
    return false
  }

  #weigh(units: number): void {
    this.#units += units
    if (this.#units <= this.#unitsMax) return
    throw new RepriseError('LIMIT_EXCEEDED', 'a value holds too many containers for the size limit', {
      limit: 'valueBytes',
      unitsMax: this.#unitsMax,
    })
  }

  #container(value: object, depth: number): void {
    const prototype = Object.getPrototypeOf(value) as object | null
    const isArray = Array.isArray(value)
    if (prototype === Object.prototype || prototype === null || (!isArray && isForeignObjectPrototype(prototype))) {
      this.#weigh(weight.light)
      if (Object.getOwnPropertySymbols(value).length > 0) throw this.#path.refuse(depth, 'a symbol as key')
      this.#fields(value, depth)
    } else if (isArray) {
      this.#array(value, prototype, depth)
    } else {
      this.#special(value, prototype, depth)
    }
  }

  #fields(value: object, depth: number): void {
    const out = this.#out
    const keys = Object.keys(value)
    this.#path.enter(depth, 'property')
    const shape = this.#shape(keys)
    if (shape === null) {
      keys.sort()
      out.tagged(tag.largeObject, keys.length)
      for (const key of keys) {
        out.text(key)
        this.#value(this.#property(value, key, depth), depth + 1)
      }
      return
    }
    const sorted = shape.keys
    if (depth === 0 && this.#keepsSimple) this.#simple = this.#copied(value, shape)
    else for (let i = 0; i < sorted.length; i++) this.#value(this.#property(value, sorted[i]!, depth), depth + 1)
  }

  #copied(value: object, { keys, hasOddKey }: WriteShape): Record<string, unknown> | null {
    const copy: Record<string, unknown> = {}
    let isSimple = true
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i]!
      const field = this.#property(value, key, 0)
      if (typeof field === 'object' && field !== null) isSimple = false
      else if (hasOddKey && needsDefine(key)) define(copy, key, field)
      else if (isSimple) copy[key] = field
      this.#value(field, 1)
    }
    return isSimple ? copy : null
  }

  /** Writes the shape of the object; null: it has no shape, and its keys are written with it. */
  #shape(keys: string[]): WriteShape | null {
    const out = this.#out
    const shape = this.#shapes.find(keys, this.#shapeCount < shapesMax)
    if (shape !== null && shape.message === this.#message) {
      if (shape.index < 16) out.byte(shapeTags + shape.index)
      else out.tagged(tag.knownShape, shape.index)
    } else if (shape !== null && this.#shapeCount < shapesMax) {
      shape.message = this.#message
      shape.index = this.#shapeCount++
      out.tagged(tag.newShape, shape.block.length)
      out.raw(shape.block)
    } else return null
    return shape
  }

  #property(value: object, key: string, depth: number): unknown {
    this.#path.at(depth, key)
    const property = Object.getOwnPropertyDescriptor(value, key)
    if (property === undefined || property.get !== undefined || property.set !== undefined) {
      throw this.#path.refuse(depth + 1, 'a property that is computed by a getter or setter')
    }
    return property.value
  }

  #array(value: readonly unknown[], prototype: object, depth: number): void {
    // Array.prototype is itself an array, in every realm; the prototype of a subclass is not.
    if (prototype !== Array.prototype && !Array.isArray(prototype)) {
      this.#special(value, prototype, depth)
      return
    }
    this.#path.enter(depth, 'item')
    if (hasHole(value)) {
      this.#sparseArray(value, depth)
      return
    }
    this.#weigh(weight.light)
    const count = value.length
    if (count < 16) this.#out.byte(arrayTags + count)
    else this.#out.tagged(tag.array, count)
    for (let i = 0; i < count; i++) {
      this.#path.at(depth, i)
      this.#value(value[i], depth + 1)
    }
  }

  /** The cost depends on the items that are present, not on `length`. */
  #sparseArray(value: readonly unknown[], depth: number): void {
    this.#weigh(weight.medium)
    const indexes = indexesOf(value)
    this.#out.tagged(tag.sparseArray, value.length)
    this.#out.integer(indexes.length)
    let next = 0
    for (const index of indexes) {
      this.#out.integer(index - next)
      next = index + 1
      this.#path.at(depth, index)
      this.#value(value[index], depth + 1)
    }
  }

  #special(value: object, prototype: object, depth: number): void {
    const codec = this.#classes.get(prototype)
    if (codec !== undefined) this.#instance(value, codec, depth)
    else if (ArrayBuffer.isView(value)) this.#view(value, depth)
    else if (prototype === Map.prototype) this.#map(value as Map<unknown, unknown>, depth)
    else if (prototype === Set.prototype) this.#set(value as Set<unknown>, depth)
    else if (prototype === Date.prototype) this.#date(value as Date)
    else if (prototype === ArrayBuffer.prototype) this.#leaf(writeBuffer, value as ArrayBuffer, weight.medium)
    else if (prototype === RegExp.prototype) this.#leaf(writeRegExp, value as RegExp, weight.heavy)
    else if (value instanceof Error) this.#error(value, depth)
    else throw this.#path.refuse(depth, `an instance of ${className(prototype)}`)
  }

  #map(value: Map<unknown, unknown>, depth: number): void {
    this.#weigh(weight.medium)
    // Called through the prototype, so that a property of the same name on the map itself has no effect.
    const entries = [...Map.prototype.entries.call(value)]
    this.#out.tagged(tag.map, entries.length)
    let i = 0
    for (const [key, item] of entries) {
      this.#path.at(depth, i++)
      this.#path.enter(depth, 'key')
      this.#value(key, depth + 1)
      this.#path.enter(depth, 'value')
      this.#value(item, depth + 1)
    }
  }

  #set(value: Set<unknown>, depth: number): void {
    this.#weigh(weight.medium)
    const members = [...Set.prototype.values.call(value)]
    this.#out.tagged(tag.set, members.length)
    this.#path.enter(depth, 'member')
    for (let i = 0; i < members.length; i++) {
      this.#path.at(depth, i)
      this.#value(members[i], depth + 1)
    }
  }

  #date(value: Date): void {
    this.#weigh(weight.medium)
    this.#out.byte(tag.date)
    writeNumber(this.#out, Date.prototype.getTime.call(value))
  }

  #leaf<T>(write: (out: ValueWriter, value: T) => void, value: T, units: number): void {
    this.#weigh(units)
    write(this.#out, value)
  }

  #view(value: ArrayBufferView, depth: number): void {
    this.#weigh(weight.medium)
    const kind = viewKind(value)
    if (kind < 0) throw this.#path.refuse(depth, 'a typed array of a new kind')
    writeView(this.#out, value, kind)
  }

  /**
   * Writes the nearest built-in class and the fields of the error; the stack belongs to this process and is not stored.
   * An error counts as two levels, the error and its fields.
   */
  #error(value: Error, depth: number): void {
    this.#weigh(weight.heavy)
    let kind = 0
    for (let i = 1; i < errorKinds.length; i++) if (value instanceof errorKinds[i]!.type) kind = i
    const fields = fieldsOfError(value, errorKinds[kind]!.name)
    this.#out.byte(tag.error)
    this.#out.byte(kind)
    this.#path.enter(depth, 'fields')
    if (depth + 1 >= this.#depthMax) throw this.#path.tooDeep(depth, this.#depthMax)
    this.#fields(fields, depth + 1)
  }

  #instance(value: object, codec: ClassCodec, depth: number): void {
    this.#weigh(weight.medium)
    let data: unknown
    try {
      data = codec.encode(value)
    } catch (cause) {
      if (isStackOverflow(cause)) throw cause
      throw this.#path.refuse(depth, `an instance of ${codec.name}: its codec failed`, cause)
    }
    this.#path.enter(depth, 'class')
    this.#path.at(depth, codec.name)
    this.#unfinished ??= new Set()
    this.#unfinished.add(value)
    this.#out.byte(tag.instance)
    this.#out.text(codec.name)
    this.#value(data, depth + 1)
    this.#unfinished.delete(value)
  }
}
