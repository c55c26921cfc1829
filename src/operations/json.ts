// JSON that preserves values which plain JSON would drop or refuse: big integers, bytes, maps, sets, errors, non-finite
// numbers.

/** Uses the replacer `plain` only if it makes a difference: it slows JSON.stringify down several times. */
export function jsonOf(value: unknown): string {
  return isPlain(value, 0) ? JSON.stringify(value) : JSON.stringify(value, plain)
}

const deepestLook = 32

/** True if `plain` would change nothing in it; false also if the check takes too long. */
function isPlain(value: unknown, depth: number): boolean {
  switch (typeof value) {
    case 'string':
    case 'boolean':
    case 'undefined':
      return true
    case 'number':
      return Number.isFinite(value)
    case 'object':
      break
    default:
      return false
  }
  if (value === null) return true
  if (depth === deepestLook) return false
  if (Array.isArray(value)) {
    for (const item of value) if (!isPlain(item, depth + 1)) return false
    return true
  }
  const prototype = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return value instanceof Date
  for (const key in value) if (!isPlain((value as Record<string, unknown>)[key], depth + 1)) return false
  return true
}

/** A replacer. @example JSON.stringify({ n: 1n }, plain) // '{"n":"1"}' */
export function plain(this: unknown, _key: string, value: unknown): unknown {
  if (typeof value === 'bigint') return String(value)
  if (value instanceof Uint8Array) return { $bytes: Buffer.from(value).toString('base64') }
  if (value instanceof Map) return { $map: [...value] }
  if (value instanceof Set) return { $set: [...value] }
  if (value instanceof Error) return { name: value.name, message: value.message }
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value)
  if (typeof value === 'function' || typeof value === 'symbol') return String(value)
  return value
}
