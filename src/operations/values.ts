// State as people look at it: Keyed parts become plain objects, bytes become their length, and two states can be compared.

import { Keyed } from '../core/keyed/keyed.ts'

const itemsShown = 1000

/** Plain data, with nothing in it that JSON would hide. Large Keyed parts are cut, and say so. */
export function plainState(value: unknown): unknown {
  if (value instanceof Keyed) {
    const shown: Record<string, unknown> = {}
    let count = 0
    for (const [key, item] of value.entries({ limit: itemsShown })) {
      shown[key] = plainState(item)
      count += 1
    }
    if (value.size > count) shown['…'] = `${value.size - count} more`
    return shown
  }
  if (value instanceof Uint8Array) return value.length > 64 ? `${value.length} bytes` : value
  if (value instanceof Map) return { $map: [...value].map(([key, item]) => [plainState(key), plainState(item)]) }
  if (value instanceof Set) return { $set: [...value].map(plainState) }
  if (value instanceof Date || typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(plainState)
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plainState(item)]))
}

export interface Difference {
  readonly path: string
  readonly kind: 'added' | 'removed' | 'changed'
  readonly before?: unknown
  readonly after?: unknown
}

/** @example differences({ a: 1 }, { a: 2 }) // [{ path: 'a', kind: 'changed', before: 1, after: 2 }] */
export function differences(before: unknown, after: unknown, path = ''): Difference[] {
  if (Object.is(before, after)) return []
  if (isTree(before) && isTree(after) && Array.isArray(before) === Array.isArray(after)) {
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
    return names.flatMap((name) => {
      const inner = path === '' ? name : `${path}.${name}`
      if (!Object.hasOwn(before, name)) return [{ path: inner, kind: 'added' as const, after: after[name] }]
      if (!Object.hasOwn(after, name)) return [{ path: inner, kind: 'removed' as const, before: before[name] }]
      return differences(before[name], after[name], inner)
    })
  }
  if (JSON.stringify(before) === JSON.stringify(after)) return []
  return [{ path: path || '(all)', kind: 'changed', before, after }]
}

function isTree(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
