// Rewrites a file with user tables: whichever page of such a table is damaged, the rest is copied, losses are named, and the
// store keeps writing. If the file cannot be rewritten, it stays unchanged and the store keeps writing too.

import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, expect, it } from 'vitest'
import { temporaryFolder } from '../../../../test/support/fixture.ts'
import type { Digest } from '../../../core/coordinate.ts'
import type { Store } from '../../../core/store/ports.ts'
import { sha256 } from '../../../engine/base/platform.ts'
import { type Driver, loadDriver } from '../file/driver.ts'
import { openSqlite } from '../index.ts'

const pageBytes = 4096
let folder: string
let file: string

beforeEach(() => {
  folder = temporaryFolder('own-tables')
  file = join(folder, 'store.db')
})

async function openHere(given?: Driver): Promise<Store> {
  const driver = given ?? (await loadDriver())
  return await openSqlite(file, { namespace: 'default', hash: sha256, busyMs: 100, driver })
}

async function make(...statements: string[]): Promise<void> {
  await (await openHere()).close()
  const database = (await loadDriver()).open(file, { isReadOnly: false })
  for (const sql of statements) database.exec(sql)
  database.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  database.close()
}

const rowsOf = (table: string, value: string) =>
  `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) INSERT INTO ${table} SELECT ${value} FROM n`

/** Every page with a row of the table. */
function pagesWith(text: string): number[] {
  const bytes = readFileSync(file)
  const pages = Array.from({ length: bytes.length / pageBytes }, (_, page) => page)
  return pages.filter((page) => bytes.subarray(page * pageBytes, (page + 1) * pageBytes).includes(text))
}

function overwrite(page: number): void {
  const bytes = readFileSync(file)
  for (let i = 0; i < pageBytes; i++) bytes[page * pageBytes + i] = (i * 73 + page) % 251
  writeFileSync(file, bytes)
}

const ask = (store: Store, sql: string) => store.query({ parts: [sql], values: [], rowsMax: 1000, timeoutMs: 5000 })

async function expectWritable(store: Store): Promise<void> {
  const digest = sha256(new Uint8Array(3)) as Digest
  await store.blobs.put([{ digest, bytes: new Uint8Array(3) }])
  expect((await store.blobs.list(null, 10)).length).toBe(1)
}

it('keeps the rows of the other pages, whichever page of a table is damaged', async () => {
  await make('CREATE TABLE mine (a INTEGER, b TEXT)', rowsOf('mine', `i, 'mine ' || i`))
  const pages = pagesWith('mine 1')
  expect(pages.length).toBeGreaterThan(1)
  const whole = readFileSync(file)
  for (const page of pages.slice(1)) {
    writeFileSync(file, whole)
    overwrite(page)
    const store = await openHere()
    const { lost } = await store.upkeep.salvage!.renew!()
    expect(lost.map(({ where }) => where)).toEqual(['mine'])
    await expectWritable(store)
    const rows = await ask(store, 'SELECT a, b FROM mine ORDER BY a')
    expect(rows.length).toBeGreaterThan(0)
    expect(rows.length).toBeLessThan(300)
    for (const { a, b } of rows) expect(b).toBe(`mine ${a}`)
    expect(await store.upkeep.inspect()).toEqual([])
    await store.close()
  }
})

it('copies tables that refer to one another, whichever was made first', async () => {
  await make(
    'CREATE TABLE child (a INTEGER REFERENCES parent (id), b TEXT)',
    'CREATE TABLE parent (id INTEGER PRIMARY KEY, b TEXT)',
    rowsOf('parent', `i, 'parent ' || i`),
    rowsOf('child', `i, 'child ' || i`),
  )
  const store = await openHere()
  expect((await store.upkeep.salvage!.renew!()).lost).toEqual([])
  expect(await ask(store, 'SELECT count(*) AS n FROM child JOIN parent ON a = id')).toEqual([{ n: 300 }])
  await store.close()
})

it('leaves the file as it is where the new one cannot be written, and the store writes on', async () => {
  await make('CREATE TABLE mine (a INTEGER, b TEXT)', rowsOf('mine', `i, 'mine ' || i`))
  const store = await openHere(fullAt(await loadDriver(), 'CREATE TABLE mine'))
  await expect(store.upkeep.salvage!.renew!()).rejects.toMatchObject({ code: 'STORE_FULL' })
  await expectWritable(store)
  expect(await ask(store, 'SELECT count(*) AS n FROM mine')).toEqual([{ n: 300 }])
  await store.close()
  expect(readdirSync(folder).filter((name) => /renew|damaged/.test(name))).toEqual([])
})

/** Simulates a full disk when the new file reaches this statement. */
function fullAt(driver: Driver, statement: string): Driver {
  const open: Driver['open'] = (path, options) => {
    const database = driver.open(path, options)
    if (!path.endsWith('-renewed')) return database
    return {
      exec(sql) {
        if (sql.startsWith(statement)) throw Object.assign(new Error('database or disk is full'), { errcode: 13 })
        database.exec(sql)
      },
      prepare: (sql) => database.prepare(sql),
      close: () => database.close(),
    }
  }
  return { name: driver.name, open }
}
