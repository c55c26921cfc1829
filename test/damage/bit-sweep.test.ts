// G8, one flipped bit: in every table of a small SQLite file. Verify names the damage; verify with `repair` repairs it, and the
// store opens. Afterwards each timeline is unchanged: one bit loses nothing, in any table. A flipped bit is of one of three
// kinds: of any byte in use; of the start of a row (its size, its row id or the header of its record); of the size of a
// record's header, which hides its last column. CI flips one kind in each table, in turn. More: REPRISE_BIT_SWEEP=1 flips all
// three, 2000 that many bits of each table; REPRISE_BIT_FLIP=table:offset:bit flips one; REPRISE_BIT_TREE=reprise_log names the
// tables; REPRISE_BIT_PART=headers flips bits at the start of rows only, in every table.

import { closeSync, openSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { loadDriver } from '../../src/stores/sqlite/file/driver.ts'
import { PageFile } from '../../src/stores/sqlite/salvage/pages.ts'
import { amount } from '../crash/support.ts'
import { randomFrom } from '../programs/crash-model.mjs'
import { file, judge, makeStore, pageBytes, removeStore } from './sweep-world.ts'

const seed = amount('REPRISE_BIT_SEED', 1)
const flipsEach = amount('REPRISE_BIT_SWEEP', 1)

/** Pages (from 0) of each table and index. */
const pagesOf = new Map<string, readonly number[]>()
let whole: Buffer

beforeAll(async () => {
  whole = await makeStore()
  const database = (await loadDriver()).open(file, { isReadOnly: true })
  const trees = database.prepare('SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 0').all()
  database.close()
  const handle = openSync(file, 'r')
  const pages = new PageFile(handle)
  const below = (page: number): number[] => [page - 1, ...pages.childrenOf(page).flatMap(below)]
  pagesOf.set('sqlite_schema', below(1))
  // User tables have no checksums: damage in them cannot be detected.
  for (const { name, rootpage } of (trees as { name: string; rootpage: number }[]).filter(
    (tree) => !['mine', 'by_name'].includes(tree.name),
  )) {
    pagesOf.set(name, below(rootpage))
  }
  closeSync(handle)
})
afterAll(removeStore)

interface Flip {
  readonly tree: string
  readonly offset: number
  readonly bit: number
}

/** Mostly bits of bytes in use: the cells of a page, and its header. */
function* flips(): Generator<Flip> {
  const given = process.env.REPRISE_BIT_FLIP?.split(':')
  if (given) {
    yield { tree: given[0]!, offset: Number(given[1]), bit: Number(given[2]) }
    return
  }
  const random = randomFrom(seed)
  const isAll = Boolean(process.env.REPRISE_BIT_SWEEP || process.env.REPRISE_BIT_TREE || process.env.REPRISE_BIT_PART)
  for (const [index, [tree, pages]] of [...pagesOf].entries()) {
    if (process.env.REPRISE_BIT_TREE && !new RegExp(process.env.REPRISE_BIT_TREE).test(tree)) continue
    for (let i = 0; i < flipsEach; i++) {
      const page = pages[random.below(pages.length)]!
      const headers = headersIn(page)
      const [size] = headers.flatMap(({ record }) => (whole[page * pageBytes + record]! & 1 ? [record] : []))
      if (size !== undefined && (isAll || index % 3 === 0)) yield { tree, offset: page * pageBytes + size, bit: 0 }
      const starts = headers.flatMap(({ cell, end }) => Array.from({ length: end - cell }, (_, j) => cell + j))
      const parts = process.env.REPRISE_BIT_PART === 'headers' ? [starts] : [usedIn(page), starts]
      for (const used of parts.filter(({ length }) => length > 0)) {
        // Drawn in any case, so that CI flips some of the bits that a whole sweep flips.
        const flip = { tree, offset: page * pageBytes + used[random.below(used.length)]!, bit: random.below(8) }
        if (isAll || index % 3 === (used === starts ? 1 : 2)) yield flip
      }
    }
  }
}

/** Offsets in a page: the start of a cell (sizes and row ids of one to three bytes here), of its record, and of the columns. */
interface CellHeader {
  readonly cell: number
  readonly record: number
  readonly end: number
}

function headersIn(page: number): CellHeader[] {
  const start = page === 0 ? 100 : 0
  const from = page * pageBytes
  const kind = whole[from + start]!
  if (![10, 13].includes(kind)) return []
  const varint = (at: number) => {
    let end = from + at
    while (whole[end]! >= 0x80) end += 1
    return end + 1 - from
  }
  return Array.from({ length: whole.readUInt16BE(from + start + 3) }, (_, i) => {
    const cell = whole.readUInt16BE(from + start + 8 + 2 * i)
    const record = kind === 13 ? varint(varint(cell)) : varint(cell)
    return { cell, record, end: record + whole[from + record]! }
  })
}

/** The header, the pointers, and the cells, which fill the page from its end. */
function usedIn(page: number): number[] {
  const start = page === 0 ? 100 : 0
  const at = page * pageBytes + start
  const cells = whole.readUInt16BE(at + 3)
  const pointersEnd = start + 12 + 2 * cells
  const content = whole.readUInt16BE(at + 5)
  return Array.from({ length: pageBytes }, (_, i) => i).filter((i) => i < pointersEnd || i >= content)
}

describe('one flipped bit of a SQLite file', () => {
  it('is repaired, in any table (G8)', async () => {
    const wrong: string[] = []
    for (const { tree, offset, bit } of flips()) {
      const flip = (bytes: Buffer) => {
        bytes[offset]! ^= 1 << bit
      }
      const found = await judge(flip).catch((error) => ({
        wrong: [(error as Error).stack ?? ''],
        named: new Set<string>(),
      }))
      const lost = [...found.named].map((name) => `${name} is lost`)
      const lines = [...found.wrong, ...lost].map((text) => `REPRISE_BIT_FLIP=${tree}:${offset}:${bit}: ${text}`)
      if (process.env.REPRISE_BIT_SWEEP || process.env.REPRISE_BIT_FLIP) for (const text of lines) console.log(text)
      wrong.push(...lines)
    }
    expect(wrong).toEqual([])
  }, 3_600_000)
})
