// The cells of a page: rows in SQLite's encoding (sqlite.org/fileformat2.html, sections 1.6 and 2.1), unchanged and with one
// bit flipped back.

import type { SqlValue } from '../file/driver.ts'
import type { PageFile } from './pages.ts'

export interface Cell {
  /** Null in a tree without row ids. */
  readonly rowid: number | null
  /** Empty: the cell cannot be read unchanged. */
  readonly values: readonly SqlValue[]
}

export const indexInner = 2
export const tableInner = 5
export const indexLeaf = 10
export const tableLeaf = 13

/** The size of a cell in its page; null: it is not a cell. */
export function cellBytes(file: PageFile, page: Uint8Array, at: number, kind: number): number | null {
  return unlessUnreadable(() => {
    if (kind === tableInner) {
      const cursor = new Cursor(page, at + 4)
      cursor.varint()
      return cursor.at - at
    }
    const { size, start } = readCellStart(page, at, kind)
    const local = localBytes(file, size, kind === tableLeaf)
    return start - at + (local === size ? size : local + 4)
  })
}

export function unlessUnreadable<Result>(work: () => Result): Result | null {
  try {
    return work()
  } catch (error) {
    if (error instanceof Unreadable || error instanceof RangeError) return null
    throw error
  }
}

export function readCell(file: PageFile, page: Uint8Array, at: number, kind: number): Cell {
  const { size, rowid, start } = readCellStart(page, at, kind)
  return { rowid, values: valuesIn(payloadAt(file, page, start, size, kind === tableLeaf)) }
}

function readCellStart(page: Uint8Array, at: number, kind: number) {
  const cursor = new Cursor(page, kind === indexInner ? at + 4 : at)
  const size = cursor.varint()
  const rowid = kind === tableLeaf ? cursor.varint() : null
  return { size, rowid, start: cursor.at }
}

/** Two varints, and the part of a row that continues in other pages: longer rows are not tried bit by bit. */
const cellStartBytes = 18
const variedBytesMax = 16 * 1024

/** Variants of the row with one bit flipped: bits in the page first, then bits of the payload in other pages. */
export function* variantsOf(file: PageFile, page: Uint8Array, at: number, kind: number): Generator<Cell> {
  const size = unlessUnreadable(() => readCellStart(page, at, kind).size)
  const bytes = size !== null && size > 0 && size <= variedBytesMax ? size : 1024
  const end = Math.min(page.length, at + cellStartBytes + bytes)
  const varied = page.slice()
  for (let i = at; i < end; i++) {
    for (let bit = 0; bit < 8; bit++) {
      varied[i] = page[i]! ^ (1 << bit)
      const row = unlessUnreadable(() => readCell(file, varied, at, kind))
      if (row) yield row
    }
    varied[i] = page[i]!
  }
  const whole = unlessUnreadable(() => {
    const { size: all, rowid, start } = readCellStart(page, at, kind)
    return { rowid, payload: payloadAt(file, page, start, all, kind === tableLeaf) }
  })
  if (!whole || whole.payload.length <= page.length - at || whole.payload.length > variedBytesMax) return
  const { rowid, payload } = whole
  for (let i = 0; i < payload.length; i++) {
    for (let bit = 0; bit < 8; bit++) {
      payload[i]! ^= 1 << bit
      const values = unlessUnreadable(() => valuesIn(payload))
      if (values) yield { rowid, values }
      payload[i]! ^= 1 << bit
    }
  }
}

/** The start of a cell, and the header of its record as far as tables with two columns need it. */
const shapeBytes = cellStartBytes + 12

/**
 * Variants of the row with one bit flipped in its boundaries: its size, its row id, and the header of its record. Only rows
 * that fill their payload exactly, as SQLite writes them, are returned: nothing else distinguishes a part of a row from the
 * row.
 */
export function* reshapedOf(file: PageFile, page: Uint8Array, at: number, kind: number): Generator<Cell> {
  const varied = page.slice()
  for (let i = at; i < Math.min(page.length, at + shapeBytes); i++) {
    for (let bit = 0; bit < 8; bit++) {
      varied[i] = page[i]! ^ (1 << bit)
      const row = unlessUnreadable(() => {
        const { size, rowid, start } = readCellStart(varied, at, kind)
        const payload = payloadAt(file, varied, start, size, kind === tableLeaf)
        return isFilled(payload) ? { rowid, values: valuesIn(payload) } : null
      })
      if (row) yield row
    }
    varied[i] = page[i]!
  }
}

/** True: the row is as long as its cell declares. */
export function isFilledCell(file: PageFile, page: Uint8Array, at: number, kind: number): boolean {
  const filled = unlessUnreadable(() => {
    const { size, start } = readCellStart(page, at, kind)
    return isFilled(payloadAt(file, page, start, size, kind === tableLeaf))
  })
  return filled ?? false
}

function isFilled(payload: Uint8Array): boolean {
  const head = new Cursor(payload, 0)
  const headBytes = head.varint()
  let bytes = headBytes
  while (head.at < headBytes) bytes += bytesOf(head.varint())
  return head.at === headBytes && bytes === payload.length
}

/** The size of a value, by its serial type. */
function bytesOf(type: number): number {
  if (type >= 12) return Math.floor((type - 12) / 2)
  return type === 7 ? 8 : (integerBytes[type] ?? 0)
}

/** The part that does not fit into the page continues in pages of its own. */
function payloadAt(file: PageFile, page: Uint8Array, at: number, size: number, isTable: boolean): Uint8Array {
  const usable = file.usableBytes
  const local = localBytes(file, size, isTable)
  if (local === size) return sliceOf(page, at, size)
  const payload = new Uint8Array(size)
  payload.set(sliceOf(page, at, local))
  let next = new Cursor(page, at + local).word()
  for (let done = local; done < size; ) {
    const more = file.page(next)
    if (!more) throw new Unreadable()
    const part = sliceOf(more, 4, Math.min(usable - 4, size - done))
    payload.set(part, done)
    done += part.length
    next = new Cursor(more, 0).word()
  }
  return payload
}

/** The number of payload bytes in the page of the cell. */
function localBytes(file: PageFile, size: number, isTable: boolean): number {
  const usable = file.usableBytes
  const localMax = isTable ? usable - 35 : Math.floor(((usable - 12) * 64) / 255) - 23
  if (size <= localMax) return size
  if (size > file.count * file.pageBytes) throw new Unreadable()
  const localMin = Math.floor(((usable - 12) * 32) / 255) - 23
  const wanted = localMin + ((size - localMin) % (usable - 4))
  return wanted <= localMax ? wanted : localMin
}

function valuesIn(payload: Uint8Array): SqlValue[] {
  const head = new Cursor(payload, 0)
  const headBytes = head.varint()
  const body = new Cursor(payload, headBytes)
  const values: SqlValue[] = []
  while (head.at < headBytes) values.push(body.value(head.varint()))
  return values
}

class Unreadable extends Error {}

function sliceOf(bytes: Uint8Array, at: number, size: number): Uint8Array {
  if (at < 0 || size < 0 || at + size > bytes.length) throw new Unreadable()
  return bytes.slice(at, at + size)
}

const text = new TextDecoder('utf-8', { ignoreBOM: true })
const integerBytes = [0, 1, 2, 3, 4, 6, 8]

class Cursor {
  readonly #bytes: Uint8Array
  at: number

  constructor(bytes: Uint8Array, at: number) {
    this.#bytes = bytes
    this.at = at
  }

  word(): number {
    const bytes = this.#take(4)
    return new DataView(bytes.buffer).getUint32(0)
  }

  /** Up to nine bytes, seven bits each, the last eight. */
  varint(): number {
    let value = 0n
    for (let i = 0; i < 9; i++) {
      const byte = this.#take(1)[0]!
      value = i === 8 ? (value << 8n) | BigInt(byte) : (value << 7n) | BigInt(byte & 0x7f)
      if (i === 8 || byte < 0x80) break
    }
    return Number(BigInt.asIntN(64, value))
  }

  /** Decodes a value by its serial type. */
  value(type: number): SqlValue {
    if (type === 0) return null
    if (type >= 1 && type <= 6) return this.#integer(integerBytes[type]!)
    if (type === 7) return new DataView(this.#take(8).buffer).getFloat64(0)
    if (type === 8 || type === 9) return type - 8
    if (type < 12) throw new Unreadable()
    const bytes = this.#take(Math.floor((type - 12) / 2))
    return type % 2 === 0 ? bytes : text.decode(bytes)
  }

  #integer(size: number): number | bigint {
    let value = 0n
    for (const byte of this.#take(size)) value = (value << 8n) | BigInt(byte)
    const signed = BigInt.asIntN(8 * size, value)
    const number = Number(signed)
    return Number.isSafeInteger(number) ? number : signed
  }

  #take(size: number): Uint8Array {
    const bytes = sliceOf(this.#bytes, this.at, size)
    this.at += size
    return bytes
  }
}

/** The child page of a cell in an inner page. */
export function childAt(page: Uint8Array, at: number): number | null {
  return unlessUnreadable(() => new Cursor(page, at).word())
}
