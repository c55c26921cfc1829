// State in readable form: Keyed parts become plain objects, long byte arrays their length and digest, and two states can be
// compared.

import { createHash } from 'node:crypto'
import type { Codec } from '../core/codec/codec.ts'
import { Keyed } from '../core/keyed-state/keyed.ts'
import { type Difference, differences, kindOf } from '../lib/differences.ts'
import { jsonOf } from './json.ts'

const itemsShown = 1000
const bytesShown = 64
const changesShown = 1000

/** Plain data without values that JSON would hide. Large Keyed parts are truncated, with the number of omitted rows. */
export function plainState(value: unknown, codec: Codec, around: readonly object[] = []): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (around.includes(value)) return { $cycle: around.length - around.indexOf(value) }
  const inside = [...around, value]
  const plain = (inner: unknown) => plainState(inner, codec, inside)
  const fields = (of: object) => Object.fromEntries(Object.entries(of).map(([key, item]) => [key, plain(item)]))
  if (value instanceof Keyed) return plainKeyed(value, plain)
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return plainBytes(value)
  if (value instanceof Map) return { $map: [...value].map(([key, item]) => [plain(key), plain(item)]) }
  if (value instanceof Set) return { $set: [...value].map(plain) }
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? String(value) : value
  if (value instanceof RegExp) return String(value)
  if (Array.isArray(value))
    return value.length > Object.keys(value).length ? { $sparse: fields(value) } : value.map(plain)
  if (value instanceof Error) {
    const { name, message, cause, errors } = value as AggregateError
    const more = { ...(cause !== undefined && { cause }), ...(errors !== undefined && { errors }) }
    return fields({ ...value, name, message, ...more })
  }
  const data = codec.dataOf(value)
  return data === undefined ? fields(value) : plain(data)
}

function plainKeyed(value: Keyed, plain: (inner: unknown) => unknown): Record<string, unknown> {
  const shown: Record<string, unknown> = {}
  let count = 0
  for (const [key, item] of value.entries({ limit: itemsShown })) {
    shown[key] = plain(item)
    count += 1
  }
  if (value.size > count) shown['…'] = `${value.size - count} more`
  return shown
}

function plainBytes(value: ArrayBufferView | ArrayBuffer): unknown {
  const bytes = ArrayBuffer.isView(value)
    ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
    : new Uint8Array(value)
  if (bytes.length <= bytesShown) return bytes
  return `${bytes.length} bytes, SHA-256 ${createHash('sha256').update(bytes).digest('hex').slice(0, 16)}…`
}

export interface StateChanges {
  readonly changes: readonly Difference[]
  /** False: there are more changes than these. */
  readonly isComplete: boolean
}

/** The first thousand differences of two states, with plain values. Values that would look alike are shown with their type. */
export function changesOf(before: unknown, after: unknown, codec: Codec): StateChanges {
  const found = differences(before, after, { most: changesShown + 1, dataOf: (value) => codec.dataOf(value) })
  const changes = found.slice(0, changesShown).map((difference): Difference => {
    const [was, is] = [plainState(difference.before, codec), plainState(difference.after, codec)]
    const isAmbiguous = jsonOf([was]) === jsonOf([is])
    const shown = (value: unknown, plain: unknown) => (isAmbiguous ? { $type: kindOf(value), value: plain } : plain)
    return {
      path: difference.path || '(all)',
      kind: difference.kind,
      ...(difference.kind !== 'added' && { before: shown(difference.before, was) }),
      ...(difference.kind !== 'removed' && { after: shown(difference.after, is) }),
    }
  })
  return { changes, isComplete: found.length <= changesShown }
}
