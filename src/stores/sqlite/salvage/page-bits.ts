// One flipped bit in the header of a page, or in its list of cells, hides rows or leads to bytes that are not rows. SQLite
// accounts for every byte of such a page: header, cells, free blocks and fragments fill it without overlap. A page whose
// account does not balance is therefore tried with each of these bits flipped back.

import { cellBytes, indexInner, indexLeaf, tableInner, tableLeaf } from './cells.ts'
import type { PageFile } from './pages.ts'

const kinds = [indexInner, tableInner, indexLeaf, tableLeaf]
const cellBytesMin = 4

/** The corrected page, if one flipped bit explains the damage; otherwise the page unchanged. */
export function withHeaderRight(file: PageFile, page: Uint8Array, number: number): Uint8Array {
  const start = number === 1 ? 100 : 0
  if (isBalanced(file, page, start)) return page
  const cells = new DataView(page.buffer).getUint16(start + 3)
  // A flipped count may have any size: the list is then searched in the whole page.
  const end = Math.min(file.usableBytes, start + 12 + 2 * Math.min(cells, 512))
  const varied = page.slice()
  for (let i = start; i < end; i++) {
    for (let bit = 0; bit < 8; bit++) {
      varied[i] = page[i]! ^ (1 << bit)
      if (isBalanced(file, varied, start)) return varied
    }
    varied[i] = page[i]!
  }
  return page
}

function isBalanced(file: PageFile, page: Uint8Array, start: number): boolean {
  const kind = page[start]!
  if (!kinds.includes(kind)) return false
  const view = new DataView(page.buffer)
  const usable = file.usableBytes
  const cells = view.getUint16(start + 3)
  const pointers = start + (kind === indexInner || kind === tableInner ? 12 : 8)
  const listEnd = pointers + 2 * cells
  const content = view.getUint16(start + 5) || 65_536
  if (listEnd > content || content > usable) return false
  const used: (readonly [from: number, to: number])[] = []
  for (let i = 0; i < cells; i++) {
    const at = view.getUint16(pointers + 2 * i)
    const bytes = at >= content && at < usable ? cellBytes(file, page, at, kind) : null
    if (bytes === null || at + bytes > usable) return false
    used.push([at, at + Math.max(bytes, cellBytesMin)])
  }
  for (let free = view.getUint16(start + 1), before = 0; free !== 0; ) {
    if (free <= before || free < content || free + 4 > usable) return false
    used.push([free, free + view.getUint16(free + 2)])
    before = free
    free = view.getUint16(free)
  }
  used.sort(([a], [b]) => a - b)
  let fragments = 0
  let reached = content
  for (const [from, to] of used) {
    if (from < reached) return false
    fragments += from - reached
    reached = to
  }
  return reached <= usable && fragments + usable - reached === page[start + 7]
}
