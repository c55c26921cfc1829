// For a damaged first page: SQLite then does not recognise the file as a database. The content of the page can be derived: our
// files have a known layout, the page size follows from the back-pointers in the second page, and the root of the list of
// tables leads to the pages whose back-pointers lead to it. A copy of the file gets such a page and is read in its place; the
// file itself stays unchanged.

import { closeSync, copyFileSync, existsSync, fstatSync, openSync, readSync, writeSync } from 'node:fs'
import { damaged } from '../file/failure.ts'
import { magic, PageFile } from './pages.ts'
import { rowsOf } from './trees.ts'

const headerBytes = 100
const sizes = [4096, 512, 1024, 2048, 8192, 16_384, 32_768, 65_536]
const backPointerBytes = 5
const kindMax = 5

export function isFirstPageSound(file: string): boolean {
  const handle = openSync(file, 'r')
  try {
    const head = new Uint8Array(16)
    readSync(handle, head, 0, 16, 0)
    return Buffer.from(head).toString('latin1') === magic
  } finally {
    closeSync(handle)
  }
}

/** Throws STORE_DAMAGED if it is not a Reprise file. */
export function copyWithFirstPage(file: string, copy: string): void {
  for (const end of ['', '-wal']) if (existsSync(`${file}${end}`)) copyFileSync(`${file}${end}`, `${copy}${end}`)
  const handle = openSync(copy, 'r+')
  try {
    const pageBytes = sizeOfPages(handle)
    const page = new Uint8Array(pageBytes)
    const count = fstatSync(handle).size / pageBytes
    // First without a tree, so that the pages below it can be found.
    writeHeader(page, count, 1)
    writeSync(handle, page, 0, pageBytes, 0)
    const pages = new PageFile(handle)
    writeHeader(page, count, Math.max(1, ...pages.roots()))
    writeRoot(page, pages)
    writeSync(handle, page, 0, pageBytes, 0)
    const names = [...rowsOf(new PageFile(handle), 1, new Set())].map(({ values }) => values[1])
    if (!names.some((name) => typeof name === 'string' && name.startsWith('reprise_'))) throw noStore(file)
  } finally {
    closeSync(handle)
  }
}

function noStore(file: string): Error {
  return damaged(`${file}: its first page is damaged, and no part of a store was found after it: restore a backup`)
}

/** The second page of our files holds back-pointers: with the right page size, all of them are plausible. */
function sizeOfPages(handle: number): number {
  const { size } = fstatSync(handle)
  const found = sizes.find(
    (pageBytes) => size % pageBytes === 0 && hasBackPointers(handle, pageBytes, size / pageBytes),
  )
  if (found === undefined) throw noStore('the file')
  return found
}

function hasBackPointers(handle: number, pageBytes: number, count: number): boolean {
  const map = new Uint8Array(pageBytes)
  if (count < 3 || readSync(handle, map, 0, pageBytes, pageBytes) < pageBytes) return false
  const view = new DataView(map.buffer)
  const entries = Math.min(Math.floor(pageBytes / backPointerBytes), count - 2)
  for (let i = 0; i < entries; i++) {
    const kind = map[i * backPointerBytes]!
    if (kind < 1 || kind > kindMax || view.getUint32(i * backPointerBytes + 1) > count) return false
  }
  return true
}

/** sqlite.org/fileformat2.html, section 1.3. */
function writeHeader(page: Uint8Array, count: number, largestRoot: number): void {
  const view = new DataView(page.buffer)
  page.set(Buffer.from(magic, 'latin1'))
  view.setUint16(16, page.length === 65_536 ? 1 : page.length)
  // WAL mode; no reserved bytes; the fractions that SQLite requires.
  page.set([2, 2, 0, 64, 32, 32], 18)
  view.setUint32(24, 1)
  view.setUint32(28, count)
  view.setUint32(40, 1)
  view.setUint32(44, 4)
  view.setUint32(52, largestRoot)
  view.setUint32(56, 1)
  view.setUint32(64, 1)
  view.setUint32(92, 1)
  view.setUint32(96, 3_046_000)
}

/** An inner page over the pages of the list of tables; with none of them, an empty leaf. */
function writeRoot(page: Uint8Array, pages: PageFile): void {
  const view = new DataView(page.buffer)
  const children = pages
    .childrenOf(1)
    .map((child) => ({
      child,
      last: Math.max(0, ...[...rowsOf(pages, child, new Set())].map(({ rowid }) => rowid ?? 0)),
    }))
    .sort((a, b) => a.last - b.last)
  const right = children.pop()
  page[headerBytes] = right ? 5 : 13
  view.setUint16(headerBytes + 3, children.length)
  if (right) view.setUint32(headerBytes + 8, right.child)
  let end = page.length
  for (const [i, { child, last }] of children.entries()) {
    const key = varint(last)
    end -= 4 + key.length
    view.setUint32(end, child)
    page.set(key, end + 4)
    view.setUint16(headerBytes + 12 + 2 * i, end)
  }
  view.setUint16(headerBytes + 5, end === 65_536 ? 0 : end)
}

function varint(value: number): number[] {
  const bytes = [value % 128]
  for (let rest = Math.floor(value / 128); rest > 0; rest = Math.floor(rest / 128)) bytes.unshift((rest % 128) | 0x80)
  return bytes
}
