// Inspects a value before the encoder writes it.

import { define } from './format.ts'

/** Stops at the first hole, so that a long empty array costs nothing. */
export function hasHole(value: readonly unknown[]): boolean {
  for (let i = 0; i < value.length; i++) if (value[i] === undefined && !Object.hasOwn(value, i)) return true
  return false
}

/** Plain objects of another realm (a vm context, a frame) are plain too. */
export function isForeignObjectPrototype(prototype: object): boolean {
  return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype, 'isPrototypeOf')
}

export function className(prototype: object): string {
  const type: unknown = Object.getOwnPropertyDescriptor(prototype, 'constructor')?.value
  return typeof type === 'function' && type.name !== '' ? type.name : 'a class without a name'
}

/** The kind of a container whose many children can be written one by one; null: the value is written without a pause. */
export function outerKind(value: object): 'object' | 'array' | 'map' | null {
  const prototype = Object.getPrototypeOf(value) as object | null
  if (prototype === Object.prototype || prototype === null) return 'object'
  if (prototype === Array.prototype && Array.isArray(value)) return hasHole(value) ? null : 'array'
  return prototype === Map.prototype ? 'map' : null
}

/** Read one by one, whether enumerable or not. */
const errorFields: ReadonlySet<string> = new Set(['name', 'message', 'cause', 'errors', 'stack'])

/** The fields of an error beyond its kind; the stack belongs to this process and is not stored. */
export function fieldsOfError(value: Error, kindName: string): Record<string, unknown> {
  const fields: Record<string, unknown> = {}
  for (const key of Object.keys(value)) {
    const property = Object.getOwnPropertyDescriptor(value, key)
    if (!errorFields.has(key) && property) Object.defineProperty(fields, key, property)
  }
  if (value.name !== kindName) define(fields, 'name', value.name)
  if (value.message !== '') define(fields, 'message', value.message)
  if (Object.hasOwn(value, 'cause')) define(fields, 'cause', value.cause)
  if (Object.hasOwn(value, 'errors')) define(fields, 'errors', (value as AggregateError).errors)
  return fields
}

const arrayIndexMax = 0xffff_fffe

/** The indexes of an array that hold an item. */
export function indexesOf(value: readonly unknown[]): number[] {
  const indexes: number[] = []
  for (const key of Object.keys(value)) {
    const index = Number(key)
    if (!Number.isInteger(index) || index < 0 || index > arrayIndexMax || String(index) !== key) break
    indexes.push(index)
  }
  return indexes
}
