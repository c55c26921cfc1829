// The rows of one tree, as many as can be read. A damaged page costs its own rows and no others: what lies below it is found by
// the back-pointers. Whether a row is what it should be is for the caller to say, by its checksum: a page in the wrong place
// gives rows of another table.

import type { SqlValue } from '../driver.ts'
import type { PageFile } from './pages.ts'

export interface RawRow {
  /** Null in a tree without row ids. */
  readonly rowid: number | null
  readonly values: readonly SqlValue[]
}

const indexInner = 2
const tableInner = 5
const indexLeaf = 10
const tableLeaf = 13
const depthMax = 40

/** `bad` learns the numbers of pages of this tree that cannot be read, or not wholly. */
export function* rowsOf(file: PageFile, root: number, bad: Set<number>): Generator<RawRow> {
  yield* below(file, root, bad, new Set(), 0)
}

function* below(file: PageFile, number: number, bad: Set<number>, seen: Set<number>, depth: number): Generator<RawRow> {
  if (seen.has(number) || depth > depthMax) return
  seen.add(number)
  const page = file.page(number)
  const node = page && readNode(file, page, number)
  if (!node || node.isBroken) bad.add(number)
  if (node) yield* node.rows
  const children = new Set([...(node?.children ?? []), ...file.childrenOf(number)])
  for (const child of children) yield* below(file, child, bad, seen, depth + 1)
}

interface Node {
  readonly rows: RawRow[]
  readonly children: number[]
  readonly isBroken: boolean
}

/** Null: it is no node of a tree. */
function readNode(file: PageFile, page: Uint8Array, number: number): Node | null {
  const start = number === 1 ? 100 : 0
  const kind = page[start]!
  if (![indexInner, tableInner, indexLeaf, tableLeaf].includes(kind)) return null
  const view = new DataView(page.buffer)
  const isInner = kind === indexInner || kind === tableInner
  const cells = view.getUint16(start + 3)
  const pointers = start + (isInner ? 12 : 8)
  const node = { rows: [] as RawRow[], children: [] as number[], isBroken: pointers + 2 * cells > file.usableBytes }
  if (isInner) node.children.push(view.getUint32(start + 8))
  for (let i = 0; i < cells && pointers + 2 * i + 2 <= file.usableBytes; i++) {
    try {
      readCell(file, page, view.getUint16(pointers + 2 * i), kind, node)
    } catch (error) {
      if (!(error instanceof Unreadable) && !(error instanceof RangeError)) throw error
      node.isBroken = true
    }
  }
  return node
}

function readCell(file: PageFile, page: Uint8Array, at: number, kind: number, node: Node): void {
  const cursor = new Cursor(page, at)
  if (kind === tableInner || kind === indexInner) node.children.push(cursor.word())
  if (kind === tableInner) return
  const size = cursor.varint()
  const rowid = kind === tableLeaf ? cursor.varint() : null
  const payload = payloadAt(file, page, cursor.at, size, kind === tableLeaf)
  node.rows.push({ rowid, values: valuesIn(payload) })
}

/** Whatever does not fit into the page goes on in pages of its own. */
function payloadAt(file: PageFile, page: Uint8Array, at: number, size: number, isTable: boolean): Uint8Array {
  const usable = file.usableBytes
  const localMax = isTable ? usable - 35 : Math.floor(((usable - 12) * 64) / 255) - 23
  if (size <= localMax) return sliceOf(page, at, size)
  if (size > file.count * file.pageBytes) throw new Unreadable()
  const localMin = Math.floor(((usable - 12) * 32) / 255) - 23
  const wanted = localMin + ((size - localMin) % (usable - 4))
  const local = wanted <= localMax ? wanted : localMin
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

  /** By its serial type. */
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
