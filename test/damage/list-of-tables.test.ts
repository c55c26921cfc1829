// Any page of SQLite's list of tables is damaged: SQLite then answers each statement with "malformed". The roots of our trees
// are known without the list, so the file is rewritten and none of our data is lost. Other tables keep their rows: under their
// own name, or under one that names the place if the page had their name.

import { closeSync, copyFileSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { sha256 } from '../../src/engine/base/platform.ts'
import { open, timeline } from '../../src/index.ts'
import type { StoreLoss } from '../../src/store.ts'
import { type Driver, loadDriver } from '../../src/stores/sqlite/file/driver.ts'
import { renewSqlite } from '../../src/stores/sqlite/index.ts'
import { PageFile } from '../../src/stores/sqlite/salvage/pages.ts'
import { rowsOf } from '../../src/stores/sqlite/salvage/trees.ts'
import { newFolder, removeFolder } from '../crash/support.ts'
import { randomFrom } from '../programs/crash-model.mjs'

const folder = newFolder(true)
const file = join(folder, 'store.db')
const pageBytes = 4096

/** The content of each table, by its own query and by the rows in the file. */
const own = {
  mine: {
    rows: Array.from({ length: 200 }, (_, i) => ({ id: 3 * i, name: `row ${i}`, size: i % 3 ? i / 2 : null })),
    // A column that is the row id has no value of its own.
    found: Array.from({ length: 200 }, (_, i) => ({ row: 3 * i, c1: null, c2: `row ${i}`, c3: i % 3 ? i / 2 : null })),
  },
  // The key comes first in a row.
  pairs: { rows: [{ note: 'n', a: 'x', b: 'y' }], found: [{ row: null, c1: 'x', c2: 'y', c3: 'n' }] },
  wide: { rows: [{ a: 1, twice: 2, b: 'b' }], found: [{ row: 1, c1: 1, c2: 2, c3: 'b' }] },
}
const notes = timeline('notes', {
  initial: () => ({ texts: [] as string[] }),
  apply: ({ texts }, { text }: { type: 'note'; text: string }) => ({ texts: [...texts, text] }),
})
type Own = keyof typeof own
let driver: Driver

beforeAll(async () => {
  driver = await loadDriver()
  const rp = await open(`sqlite:${file}`, { housekeeping: false })
  for (let i = 0; i < 5; i++) await (await rp.open(notes, `${i}`)).append({ type: 'note', text: `note ${i}` })
  await rp.close()
  const database = driver.open(file, { isReadOnly: false })
  database.exec('CREATE TABLE mine (id INTEGER PRIMARY KEY, name TEXT, size REAL); CREATE INDEX by_name ON mine (name)')
  database.exec('CREATE TABLE pairs (note TEXT, a TEXT, b TEXT, PRIMARY KEY (a, b)) WITHOUT ROWID')
  // So long that the index after it is in another page of the list.
  const words = `/* ${'long '.repeat(600)} */`
  database.exec(`CREATE TABLE wide (a INTEGER, twice INTEGER AS (2 * a) STORED, b TEXT ${words})`)
  database.exec(`CREATE UNIQUE INDEX by_b ON wide (b) ${'-- long '.repeat(200)}`)
  const insert = database.prepare('INSERT INTO mine VALUES (?, ?, ?)')
  database.exec('BEGIN')
  for (const { id, name, size } of own.mine.rows) insert.run(id, name, size)
  database.exec("COMMIT; INSERT INTO pairs VALUES ('n', 'x', 'y'); INSERT INTO wide (a, b) VALUES (1, 'b')")
  database.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  database.close()
})
afterAll(() => removeFolder(folder))

function inFile<Result>(work: (pages: PageFile) => Result): Result {
  const handle = openSync(file, 'r')
  try {
    return work(new PageFile(handle))
  } finally {
    closeSync(handle)
  }
}

/** From 1: every page that has lines of the list of tables, with the names in it. */
function pagesOfTheList(): ReadonlyMap<number, readonly string[]> {
  return inFile((pages) => {
    const namesIn = (page: number) => [...rowsOf(pages, page, new Set())].map(({ values }) => String(values[1]))
    return new Map(pages.childrenOf(1).map((page) => [page, namesIn(page)]))
  })
}

function damaged(page: number): string {
  const copy = join(folder, `page-${page}.db`)
  const bytes = readFileSync(file)
  const random = randomFrom(page)
  for (let i = 0; i < pageBytes; i++) bytes[(page - 1) * pageBytes + i] = random.below(256)
  writeFileSync(copy, bytes)
  copyFileSync(`${file}-ack`, `${copy}-ack`)
  return copy
}

function ask(path: string, sql: string): unknown[] {
  const database = driver.open(path, { isReadOnly: true })
  try {
    return database
      .prepare(sql)
      .all()
      .map((row) => ({ ...row }))
  } finally {
    database.close()
  }
}

function vacuum(): void {
  const places = () => ask(file, "SELECT name, rootpage FROM sqlite_schema WHERE name LIKE 'reprise%'")
  const before = places()
  const database = driver.open(file, { isReadOnly: false })
  database.exec('VACUUM; PRAGMA wal_checkpoint(TRUNCATE)')
  database.close()
  expect(places()).not.toEqual(before)
}

const isOwn = (name: string) => ['mine', 'pairs', 'wide', 'by_name', 'by_b'].includes(name)
const options = { namespace: 'default', hash: sha256, busyMs: 100 }

async function expectOurs(path: string, lost: readonly StoreLoss[]): Promise<void> {
  const rp = await open(`sqlite:${path}`, { housekeeping: false })
  const { ok, faults, losses } = await rp.verify()
  // Losses of other tables are listed until they are given up.
  expect({ ok, faults, lost: losses.flatMap((loss) => loss.lost) }).toEqual({ ok: lost.length === 0, faults: [], lost })
  for (let i = 0; i < 5; i++) {
    const note = await rp.open(notes, `${i}`)
    expect(note.state).toEqual({ texts: [`note ${i}`] })
    await note.append({ type: 'note', text: 'another' })
  }
  await rp.close()
}

// VACUUM puts tables before indexes, in the list and in the file.
it.each(['as it was made', 'after VACUUM'])(
  '%s, damaged in any page: nothing of ours is lost, of others no row',
  async (how) => {
    const isVacuumed = how === 'after VACUUM'
    if (isVacuumed) vacuum()
    const pages = pagesOfTheList()
    const roots = ask(file, 'SELECT name, rootpage FROM sqlite_schema') as { name: string; rootpage: number }[]
    const lists = [...pages.values()]
    // Some with our tables only, some with those of others, and an index apart from its table.
    expect(lists.some((names) => !names.some(isOwn))).toBe(true)
    expect(lists.some((names) => names.includes('wide') && !names.includes('by_b'))).toBe(true)
    for (const [page, gone] of pages) {
      const copy = damaged(page)
      await expect(open(`sqlite:${copy}`, { housekeeping: false })).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
      const { rebuilt, lost } = await renewSqlite(copy, options)
      expect(rebuilt.map(({ where }) => where)).toContain('schema')
      await expectOurs(copy, lost)
      expect(ask(copy, 'PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }])
      for (const table of Object.keys(own) as Own[]) {
        const { rows, found } = own[table]
        const place = `found_at_page_${roots.find(({ name }) => name === table)!.rootpage}`
        const isTold = lost.some(({ what }) => what.includes(`${rows.length} readable rows are in ${place}`))
        expect({ page, table, isTold }).toEqual({ page, table, isTold: gone.includes(table) })
        const [name, expected] = isTold ? [place, found] : [table, rows]
        expect(ask(copy, `SELECT * FROM ${name}`)).toEqual(expected)
      }
      const isIndexTold = lost.some(({ where }) => where === 'by_b')
      expect(isIndexTold).toBe(gone.includes('wide') && !gone.includes('by_b'))
      if (gone.every((name) => !isOwn(name))) expect(lost).toEqual([])
    }
  },
)
