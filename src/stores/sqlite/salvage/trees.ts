// The rows of one tree, as many as can be read. A damaged page costs its own rows and no others: what lies below it is found by
// the back-pointers. Whether a row is what it should be is for the caller to say, by its checksum: a page in the wrong place
// gives rows of another table.

import {
  type Cell,
  childAt,
  indexInner,
  indexLeaf,
  isFilledCell,
  readCell,
  reshapedOf,
  tableInner,
  tableLeaf,
  unlessUnreadable,
  variantsOf,
} from './cells.ts'
import { withHeaderRight } from './page-bits.ts'
import type { PageFile } from './pages.ts'

export interface RawRow extends Cell {
  /** The row as it would be with one other bit, for each bit of its cell. */
  readonly variants: () => Generator<Cell>
  /** The same for the bits that say where the row begins and ends. */
  readonly reshaped: () => Generator<Cell>
  /** The row is as long as its cell says: no part of it is missing. */
  readonly isFilled: () => boolean
}

const depthMax = 40

/** `bad` learns the numbers of pages of this tree that cannot be read, or not wholly. */
export function* rowsOf(file: PageFile, root: number, bad: Set<number>): Generator<RawRow> {
  yield* below(file, root, bad, new Set(), 0)
}

function* below(file: PageFile, number: number, bad: Set<number>, seen: Set<number>, depth: number): Generator<RawRow> {
  if (seen.has(number) || depth > depthMax) return
  seen.add(number)
  const stored = file.page(number)
  const page = stored && withHeaderRight(file, stored, number)
  const node = page && readNode(file, page, number)
  if (!node || node.isBroken) bad.add(number)
  if (page !== stored) file.mended.add(number)
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
    const at = view.getUint16(pointers + 2 * i)
    if (isInner) node.children.push(childAt(page, at) ?? 0)
    if (kind === tableInner) continue
    const row = unlessUnreadable(() => readCell(file, page, at, kind))
    if (!row) node.isBroken = true
    node.rows.push({
      ...(row ?? { rowid: null, values: [] }),
      variants: () => variantsOf(file, page, at, kind),
      reshaped: () => reshapedOf(file, page, at, kind),
      isFilled: () => isFilledCell(file, page, at, kind),
    })
  }
  return node
}
