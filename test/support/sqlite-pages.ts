// Which page of a SQLite file belongs to which table or index, read from the file itself: tests must know what they damage. The
// file has no write-ahead log beside it.

import { readFileSync } from 'node:fs'
import { loadDriver } from '../../src/stores/sqlite/file/driver.ts'

export const pageBytes = 4096

/** Page number, from 1, to the name of its table or index; other pages are omitted. */
export async function pagesOf(file: string): Promise<Map<number, string>> {
  const database = (await loadDriver()).open(file, { isReadOnly: true })
  const roots = database.prepare('SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 0').all()
  database.close()
  const bytes = readFileSync(file)
  const pages = new Map<number, string>([[1, 'sqlite_schema']])
  for (const { name, rootpage } of roots) walk(bytes, rootpage as number, name as string, pages)
  return pages
}

function walk(bytes: Buffer, page: number, name: string, pages: Map<number, string>): void {
  pages.set(page, name)
  const start = (page - 1) * pageBytes
  const kind = bytes[start]!
  const isInterior = kind === 2 || kind === 5
  const cells = bytes.readUInt16BE(start + 3)
  for (let i = 0; i < cells; i++) {
    let at = start + bytes.readUInt16BE(start + (isInterior ? 12 : 8) + 2 * i)
    if (isInterior) {
      walk(bytes, bytes.readUInt32BE(at), name, pages)
      at += 4
    }
    if (kind === 5) continue
    const [payload, after] = varint(bytes, at)
    at = kind === 13 ? varint(bytes, after)[1] : after
    const local = localBytes(payload, kind === 13)
    if (local < payload) overflow(bytes, bytes.readUInt32BE(at + local), name, pages)
  }
  if (isInterior) walk(bytes, bytes.readUInt32BE(start + 8), name, pages)
}

function overflow(bytes: Buffer, first: number, name: string, pages: Map<number, string>): void {
  for (let page = first; page !== 0; page = bytes.readUInt32BE((page - 1) * pageBytes)) pages.set(page, name)
}

/** The part of a payload in the page itself, according to the file format. */
function localBytes(payload: number, isTable: boolean): number {
  const usable = pageBytes
  const most = isTable ? usable - 35 : Math.floor(((usable - 12) * 64) / 255) - 23
  if (payload <= most) return payload
  const least = Math.floor(((usable - 12) * 32) / 255) - 23
  const local = least + ((payload - least) % (usable - 4))
  return local <= most ? local : least
}

function varint(bytes: Buffer, at: number): [number, number] {
  let value = 0
  for (let i = 0; i < 8; i++) {
    const byte = bytes[at + i]!
    value = value * 128 + (byte & 127)
    if (byte < 128) return [value, at + i + 1]
  }
  return [value * 256 + bytes[at + 8]!, at + 9]
}
