// The readable rows of one tree. A damaged page costs only its own rows: the pages below it are found by the back-pointers. The
// caller decides by its checksum whether a row is right: a misplaced page contains rows of another table.

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
  /** Variants of the row with one bit of its cell flipped. */
  readonly variants: () => Generator<Cell>
  /** Variants with one bit flipped in the boundaries of the row. */
  readonly reshaped: () => Generator<Cell>
  /** True: the row is as long as its cell declares, so no part is missing. */
  readonly isFilled: () => boolean
}

const depthMax = 40

/** `bad` collects the numbers of pages of this tree that cannot be read, or only partly. */
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

/** Null: the page is not a node of a tree. */
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
