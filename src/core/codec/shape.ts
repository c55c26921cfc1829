// A shape is the sorted list of an object's keys. A value writes a shape once and then refers to it by number, and both
// sides remember shapes between values: most objects have a shape that was seen before.
// Remembered shapes affect only the speed, never the bytes.

import { needsDefine, shapeBytesMax, shapeKeysMax } from './format.ts'
import { malformed, ValueReader } from './reader.ts'
import { ValueWriter } from './writer.ts'

export const slots = 256
const rememberedMax = 4096

export interface WriteShape {
  readonly keys: readonly string[]
  /** The encoded keys. */
  readonly block: Uint8Array
  /** At least one key must be defined, not assigned. */
  readonly hasOddKey: boolean
  /** The value (by its running number) that last wrote this shape, and the number of the shape there. */
  message: number
  index: number
}

export interface Layout {
  /** Keys in the order of an object that had them. */
  readonly keys: readonly string[]
  readonly shape: WriteShape
}

export class WriteShapes {
  readonly #layouts: (Layout | undefined)[] = new Array(slots).fill(undefined)
  readonly #shapes = new Map<string, WriteShape>()
  readonly #writer = new ValueWriter(64 * shapeBytesMax)

  /** Called only between values: within a value, each shape has one identity. */
  tidy(): void {
    if (this.#shapes.size <= rememberedMax) return
    this.#shapes.clear()
    this.#layouts.fill(undefined)
  }

  /** Null: the keys are too large for a shape, or the shape is new and may not be added. */
  find(keys: readonly string[], mayAdd: boolean): WriteShape | null {
    const slot = layoutSlot(keys)
    const layout = this.#layouts[slot]
    if (layout !== undefined && sameKeys(layout.keys, keys)) return layout.shape
    if (keys.length > shapeKeysMax) return null
    const shape = this.#intern([...keys].sort(), mayAdd)
    if (shape !== null) this.#layouts[slot] = { keys, shape }
    return shape
  }

  #intern(keys: readonly string[], mayAdd: boolean): WriteShape | null {
    let name = ''
    for (const key of keys) name += `${key.length}:${key}`
    const known = this.#shapes.get(name)
    if (known !== undefined) return known
    if (!mayAdd || name.length > 4 * shapeBytesMax) return null
    this.#writer.begin()
    for (const key of keys) this.#writer.text(key)
    const block = this.#writer.finish()
    if (block.length > shapeBytesMax) return null
    const shape: WriteShape = { keys, block, hasOddKey: keys.some(needsDefine), message: 0, index: 0 }
    this.#shapes.set(name, shape)
    return shape
  }
}

export function layoutSlot(keys: readonly string[]): number {
  const count = keys.length
  if (count === 0) return 0
  const first = keys[0]!
  const last = keys[count - 1]!
  return (
    (count * 7 + first.length * 13 + last.length * 29 + first.charCodeAt(0) * 3 + last.charCodeAt(last.length >> 1)) &
    (slots - 1)
  )
}

export function sameKeys(a: readonly string[], b: readonly string[]): boolean {
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false
  return true
}

export interface ReadShape {
  readonly keys: readonly string[]
  readonly block: Uint8Array
  readonly hash: number
  /** At least one key must be defined, not assigned. */
  readonly hasOddKey: boolean
}

export class ReadShapes {
  readonly #shapes: (ReadShape | undefined)[] = new Array(slots).fill(undefined)

  /** Reads or recognises the block of keys at the reader's offset, `size` bytes long. */
  read(reader: ValueReader, size: number): ReadShape {
    if (size > shapeBytesMax || size > reader.remaining) throw malformed('a shape is too long')
    const { bytes, offset } = reader
    let hash = size
    for (let i = offset; i < offset + size; i++) hash = (Math.imul(hash, 31) + bytes[i]!) | 0
    const slot = (hash ^ (hash >>> 8)) & (slots - 1)
    const known = this.#shapes[slot]
    if (known !== undefined && known.hash === hash && isBlockAt(known.block, bytes, offset, size)) {
      reader.offset = offset + size
      return known
    }
    const shape = parseShape(reader.raw(size).slice(), hash)
    this.#shapes[slot] = shape
    return shape
  }
}

/** A value may define the same shape only once. */
export function isListed(shapes: readonly ReadShape[], shape: ReadShape): boolean {
  for (const other of shapes) {
    if (other === shape) return true
    if (other.hash === shape.hash && isBlockAt(other.block, shape.block, 0, shape.block.length)) return true
  }
  return false
}

function parseShape(block: Uint8Array, hash: number): ReadShape {
  const reader = new ValueReader(block)
  const keys: string[] = []
  let hasOddKey = false
  while (reader.remaining > 0) {
    const key = reader.text()
    if (keys.length > 0 && keys[keys.length - 1]! >= key) throw malformed('keys are not sorted')
    if (keys.length === shapeKeysMax) throw malformed('a shape has too many keys')
    hasOddKey ||= needsDefine(key)
    keys.push(key)
  }
  return { keys, block, hash, hasOddKey }
}

function isBlockAt(block: Uint8Array, bytes: Uint8Array, offset: number, size: number): boolean {
  if (block.length !== size) return false
  for (let i = 0; i < size; i++) if (block[i] !== bytes[offset + i]) return false
  return true
}
