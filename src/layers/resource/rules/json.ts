// Values of resources are JSON: values that a client of any language can send, and to which both kinds of patches apply. They
// are copied on input, so that later changes by the caller do not affect stored state.

import { RepriseError } from '../../../core/errors.ts'

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }

const depthMax = 100

/** A copy without undefined properties. INVALID_ARGUMENT for a value that is not JSON. */
export function copyJson(value: unknown, what: string, depth = 0): Json {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'number' && Number.isFinite(value)) return Object.is(value, -0) ? 0 : value
  if (depth > depthMax) throw new RepriseError('INVALID_ARGUMENT', `${what} is nested deeper than ${depthMax} levels`)
  if (Array.isArray(value)) return value.map((each, i) => copyJson(each, `${what}[${i}]`, depth + 1))
  if (isJsonObject(value)) {
    const copy: Record<string, Json> = {}
    for (const [name, each] of Object.entries(value)) {
      if (each !== undefined) define(copy, name, copyJson(each, `${what}.${name}`, depth + 1))
    }
    return copy
  }
  const given = typeof value === 'object' ? (value as object).constructor?.name : typeof value
  throw new RepriseError('INVALID_ARGUMENT', `${what} must be JSON (got ${given})`, { given })
}

export function isJsonObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const prototype = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

/** Sets a property; a property named `__proto__` is data like any other. */
export function define<V>(target: Record<string, V>, name: string, value: V): void {
  Object.defineProperty(target, name, { value, writable: true, enumerable: true, configurable: true })
}

/** Compares two values; the order of properties does not matter. */
export function equalJson(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (Array.isArray(a) || Array.isArray(b)) {
    if (!Array.isArray(a) || !Array.isArray(b) || a.length !== b.length) return false
    return a.every((each, i) => equalJson(each, b[i]))
  }
  const names = Object.keys(a)
  if (names.length !== Object.keys(b).length) return false
  return names.every((name) => Object.hasOwn(b, name) && equalJson(Reflect.get(a, name), Reflect.get(b, name)))
}

/** Freezes the value deeply. A frozen value is already frozen throughout. */
export function freezeJson<V>(value: V): V {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  Object.freeze(value)
  for (const each of Object.values(value)) freezeJson(each)
  return value
}

/** Approximate size in memory. */
export function roughBytes(value: unknown): number {
  if (typeof value === 'string') return 16 + 2 * value.length
  if (typeof value !== 'object' || value === null) return 8
  let bytes = 32
  for (const [name, each] of Object.entries(value)) bytes += name.length + 8 + roughBytes(each)
  return bytes
}
