// The pages of a SQLite file, read without SQLite, which gives up on a tree at its first bad page. The format is
// sqlite.org/fileformat2.html. Every page of our files has a back-pointer (auto_vacuum) to its parent, so the pages below a
// damaged page are found all the same.

import { fstatSync, readSync } from 'node:fs'
import { damaged } from '../file/failure.ts'

const headerBytes = 100
export const magic = 'SQLite format 3\0'
const backPointerBytes = 5
/** Kinds of back-pointers: sqlite.org/fileformat2.html, section 1.8. */
const rootPage = 1
const childPage = 5
const lockByte = 0x40000000

export class PageFile {
  readonly count: number
  readonly pageBytes: number
  /** The usable bytes of each page; the rest at its end is reserved. */
  readonly usableBytes: number
  /** The user_version in the header, which users of the file may set. */
  readonly userVersion: number
  readonly applicationId: number
  /** Pages in which one bit was corrected (page-bits.ts). */
  readonly mended = new Set<number>()
  readonly #handle: number
  readonly #hasBackPointers: boolean
  #children: Map<number, number[]> | null = null
  #roots: number[] = []

  /** The caller keeps the handle. Throws STORE_DAMAGED if the first page is unreadable. */
  constructor(handle: number) {
    const header = new Uint8Array(headerBytes)
    const read = readSync(handle, header, 0, headerBytes, 0)
    const view = new DataView(header.buffer)
    const stated = view.getUint16(16)
    this.pageBytes = stated === 1 ? 65_536 : stated
    this.usableBytes = this.pageBytes - header[20]!
    if (read < headerBytes || Buffer.from(header).toString('latin1', 0, 16) !== magic || this.pageBytes < 512) {
      throw damaged('the first page of the file, with the addresses of all tables, is damaged: restore a backup')
    }
    this.userVersion = view.getInt32(60)
    this.applicationId = view.getInt32(68)
    this.#handle = handle
    this.#hasBackPointers = view.getUint32(52) !== 0
    this.count = Math.floor(fstatSync(handle).size / this.pageBytes)
  }

  /** Pages are numbered from 1. Null: there is no such page. */
  page(number: number): Uint8Array | null {
    if (!Number.isInteger(number) || number < 1 || number > this.count) return null
    const bytes = new Uint8Array(this.pageBytes)
    const read = readSync(this.#handle, bytes, 0, this.pageBytes, (number - 1) * this.pageBytes)
    return read === this.pageBytes ? bytes : null
  }

  /** The pages whose back-pointers lead to this one. */
  childrenOf(number: number): readonly number[] {
    return this.#backPointers().get(number) ?? []
  }

  /** The roots of trees, by the back-pointers. */
  roots(): readonly number[] {
    this.#backPointers()
    return this.#roots
  }

  #backPointers(): Map<number, number[]> {
    if (this.#children) return this.#children
    this.#children = new Map()
    if (!this.#hasBackPointers) return this.#children
    const perMap = Math.floor(this.usableBytes / backPointerBytes)
    const lockPage = Math.floor(lockByte / this.pageBytes) + 1
    for (let start = 2; start <= this.count; start += perMap + 1) {
      const at = start === lockPage ? start + 1 : start
      const map = this.page(at)
      if (!map) continue
      const view = new DataView(map.buffer)
      for (let i = 0; i < perMap && at + 1 + i <= this.count; i++) {
        const number = at + 1 + i
        const kind = map[i * backPointerBytes]!
        const parent = view.getUint32(i * backPointerBytes + 1)
        if (kind === rootPage && parent === 0) this.#roots.push(number)
        if (kind === childPage) this.#adopt(parent, number)
      }
    }
    return this.#children
  }

  #adopt(parent: number, child: number): void {
    const known = this.#children!.get(parent)
    if (known) known.push(child)
    else this.#children!.set(parent, [child])
  }
}
