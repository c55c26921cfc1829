// The columns of a frame between threads. A column of numbers, of short texts, or of plain objects with the same keys becomes
// typed arrays, which costs a tenth of encoding each value by itself; any other column is left to the codec, value by value.
// Frames exist only between threads of one process: this is no stored format.

export type PackedColumn = readonly unknown[] | Float64Array | TextColumn | ObjectColumn

/** Texts whose characters fit into a byte. */
interface TextColumn {
  readonly text: Uint8Array
  /** Where each text ends. */
  readonly ends: Uint32Array
}

interface ObjectColumn {
  readonly keys: readonly string[]
  readonly columns: readonly PackedColumn[]
  readonly length: number
}

/** Shorter columns do not pay for their head. */
const packedMin = 8
const [depthMax, keysMax, textMax] = [3, 32, 64]
/** The number of texts that a receiver remembers: equal keys become one string again. A power of two. */
const knownMax = 32_768

export class ColumnPacker {
  #scratch = new Uint8Array(64 * 1024)

  pack(items: readonly unknown[], depth = 0): PackedColumn {
    if (items.length < packedMin) return items
    const first = items[0]
    if (typeof first === 'number') return numbers(items) ?? items
    if (typeof first === 'string') return this.#texts(items) ?? items
    return (depth < depthMax && isPlain(first) && this.#objects(items, Object.keys(first), depth)) || items
  }

  #texts(items: readonly unknown[]): TextColumn | null {
    const ends = new Uint32Array(items.length)
    let at = 0
    for (let i = 0; i < items.length; i++) {
      const item = items[i]
      if (typeof item !== 'string' || item.length > textMax) return null
      if (at + textMax > this.#scratch.length) this.#grow()
      for (let j = 0; j < item.length; j++) {
        const code = item.charCodeAt(j)
        if (code > 0xff) return null
        this.#scratch[at++] = code
      }
      ends[i] = at
    }
    return { text: this.#scratch.slice(0, at), ends }
  }

  #grow(): void {
    const before = this.#scratch
    this.#scratch = new Uint8Array(before.length * 2)
    this.#scratch.set(before)
  }

  #objects(items: readonly unknown[], keys: readonly string[], depth: number): ObjectColumn | null {
    if (keys.length === 0 || keys.length > keysMax || keys.includes('__proto__')) return null
    for (const item of items) if (!isPlain(item) || !hasKeys(item, keys)) return null
    const objects = items as readonly Readonly<Record<string, unknown>>[]
    const columns = keys.map((key) => {
      const column = new Array<unknown>(objects.length)
      for (let i = 0; i < objects.length; i++) column[i] = objects[i]![key]
      return this.pack(column, depth + 1)
    })
    return { keys, columns, length: items.length }
  }
}

function numbers(items: readonly unknown[]): Float64Array | null {
  const column = new Float64Array(items.length)
  for (let i = 0; i < items.length; i++) {
    const item = items[i]
    if (typeof item !== 'number') return null
    column[i] = item
  }
  return column
}

function isPlain(item: unknown): item is Readonly<Record<string, unknown>> {
  if (typeof item !== 'object' || item === null || Object.getPrototypeOf(item) !== Object.prototype) return false
  // The codec refuses them: they must not vanish here.
  return Object.getOwnPropertySymbols(item).length === 0
}

function hasKeys(item: object, keys: readonly string[]): boolean {
  let i = 0
  for (const key in item) if (key !== keys[i++]) return false
  return i === keys.length
}

export class ColumnReader {
  readonly #known = new Array<string>(knownMax).fill('')

  /** The items of a column. */
  list(column: PackedColumn): readonly unknown[] {
    if (column instanceof Float64Array) return numbersIn(column)
    if (Array.isArray(column)) return column
    return 'text' in column ? this.#texts(column) : this.#objects(column as ObjectColumn)
  }

  #texts({ text, ends }: TextColumn): string[] {
    const texts = new Array<string>(ends.length)
    let from = 0
    for (let i = 0; i < ends.length; i++) {
      const end = ends[i]!
      texts[i] = this.#text(text, from, end)
      from = end
    }
    return texts
  }

  #text(bytes: Uint8Array, from: number, end: number): string {
    let hash = 0x811c9dc5
    for (let at = from; at < end; at++) hash = Math.imul(hash ^ bytes[at]!, 0x01000193)
    const place = (hash ^ (hash >>> 15)) & (knownMax - 1)
    const known = this.#known[place]!
    if (isText(known, bytes, from, end)) return known
    const made = String.fromCharCode.apply(null, bytes.subarray(from, end) as unknown as number[])
    this.#known[place] = made
    return made
  }

  #objects({ keys, columns, length }: ObjectColumn): unknown[] {
    const lists = columns.map((column) => this.list(column))
    // A copy of an object with all keys has its layout, which setting the keys one by one would look up each time.
    const template = Object.fromEntries(keys.map((key) => [key, undefined]))
    const objects = new Array<unknown>(length)
    for (let i = 0; i < length; i++) objects[i] = { ...template }
    for (const [k, key] of keys.entries()) {
      const list = lists[k]!
      for (let i = 0; i < length; i++) (objects[i] as Record<string, unknown>)[key] = list[i]
    }
    return objects
  }
}

/** `Array.from` takes ten times as long. */
function numbersIn(column: Float64Array): number[] {
  const items = new Array<number>(column.length)
  for (let i = 0; i < column.length; i++) items[i] = column[i]!
  return items
}

function isText(known: string, bytes: Uint8Array, from: number, end: number): boolean {
  if (known.length !== end - from) return false
  for (let j = 0; j < known.length; j++) if (known.charCodeAt(j) !== bytes[from + j]) return false
  return true
}
