// Where two values differ, as paths a person can read. Pure; stops after a hundred places.

export interface Difference {
  /** @example optimizer.rate */
  readonly path: string
  readonly kind: 'added' | 'removed' | 'changed'
}

const most = 100
const deepest = 50

export function differences(first: unknown, second: unknown): Difference[] {
  const found: Difference[] = []
  compare(first, second, '', 0, found)
  return found
}

function compare(a: unknown, b: unknown, path: string, depth: number, found: Difference[]): void {
  if (found.length >= most || Object.is(a, b)) return
  const [left, right] = [partsOf(a), partsOf(b)]
  if (!left || !right || depth >= deepest || kindOf(a) !== kindOf(b)) {
    if (!isSame(a, b)) found.push({ path, kind: 'changed' })
    return
  }
  for (const [name, part] of left) {
    if (found.length >= most) return
    const where = path === '' ? name : `${path}.${name}`
    if (right.has(name)) compare(part, right.get(name), where, depth + 1, found)
    else found.push({ path: where, kind: 'removed' })
  }
  for (const name of right.keys()) {
    if (found.length >= most) return
    if (!left.has(name)) found.push({ path: path === '' ? name : `${path}.${name}`, kind: 'added' })
  }
}

/** Null: not made of parts. */
function partsOf(value: unknown): Map<string, unknown> | null {
  if (typeof value !== 'object' || value === null || value instanceof Date || ArrayBuffer.isView(value)) return null
  if (value instanceof Map) return new Map([...value].map(([key, part]) => [String(key), part]))
  if (value instanceof Set) return new Map([...value].map((part) => [String(part), part]))
  return new Map(Object.entries(value))
}

function kindOf(value: unknown): string {
  return Object.prototype.toString.call(value)
}

function isSame(a: unknown, b: unknown): boolean {
  if (a instanceof Date && b instanceof Date) return a.getTime() === b.getTime()
  if (!ArrayBuffer.isView(a) || !ArrayBuffer.isView(b) || kindOf(a) !== kindOf(b)) return false
  const [x, y] = [bytesOf(a), bytesOf(b)]
  return x.length === y.length && x.every((byte, i) => byte === y[i])
}

function bytesOf(view: ArrayBufferView): Uint8Array {
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength)
}
