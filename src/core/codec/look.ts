// What the encoder finds out about a value before it writes it.

import { define } from './format.ts'

/** Stops at the first hole, so a long array of nothing costs nothing. */
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

/** A container of many children, of which each can be written by itself; null: what it is, it is written in one go. */
export function outerKind(value: object): 'object' | 'array' | 'map' | null {
  const prototype = Object.getPrototypeOf(value) as object | null
  if (prototype === Object.prototype || prototype === null) return 'object'
  if (prototype === Array.prototype && Array.isArray(value)) return hasHole(value) ? null : 'array'
  return prototype === Map.prototype ? 'map' : null
}

/** Looked at one by one, whether enumerable or not. */
const errorFields: ReadonlySet<string> = new Set(['name', 'message', 'cause', 'errors', 'stack'])

/** What an error says beyond its kind; the stack is of this process and stays here. */
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

/** The places of an array that hold something. */
export function indexesOf(value: readonly unknown[]): number[] {
  const indexes: number[] = []
  for (const key of Object.keys(value)) {
    const index = Number(key)
    if (!Number.isInteger(index) || index < 0 || index > arrayIndexMax || String(index) !== key) break
    indexes.push(index)
  }
  return indexes
}
