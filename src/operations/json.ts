// JSON that keeps what plain JSON would drop or refuse: big integers, bytes, maps, sets, errors, numbers that are none.

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
