// A repair that must rewrite the file is refused while another process has it open, with that process: STORE_BUSY, not
// STORE_DAMAGED.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createEngine, openStore } from '../../src/engine/api/open.ts'
import { open } from '../../src/index.ts'
import { loadDriver } from '../../src/stores/sqlite/file/driver.ts'
import { renewStore } from '../../src/tools.ts'
import { newFolder, removeFolder } from '../crash/support.ts'
import { randomFrom } from '../programs/crash-model.mjs'

const folder = newFolder(true)
const file = join(folder, 'store.db')
const pageBytes = 4096
const quiet = { housekeeping: false } as const
let root: number

beforeAll(async () => {
  const rp = await open(`sqlite:${file}`, quiet)
  for (let i = 0; i < 20; i++) await rp.send(`mail/${i}`, 'note', { text: 'x'.repeat(300) })
  await rp.close()
  const database = (await loadDriver()).open(file, { isReadOnly: false })
  database.exec('CREATE TABLE mine (a TEXT); INSERT INTO mine VALUES (1), (2); PRAGMA user_version = 7')
  database.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  const found = database.prepare("SELECT rootpage FROM sqlite_schema WHERE name = 'reprise_inbox_unread'").get()
  root = Number((found as { rootpage: number }).rootpage)
  database.close()
})
afterAll(() => removeFolder(folder))

function damaged(name: string, page: number): string {
  const copy = join(folder, name)
  const bytes = readFileSync(file)
  const random = randomFrom(page)
  for (let i = 0; i < pageBytes; i++) bytes[(page - 1) * pageBytes + i] = random.below(256)
  writeFileSync(copy, bytes)
  copyFileSync(`${file}-ack`, `${copy}-ack`)
  return copy
}

/** Another process that has the file open, and does nothing with it. */
async function whileOpen(path: string, work: (pid: number) => Promise<void>): Promise<void> {
  const driver = (await loadDriver()).name
  const program = `
    const { DatabaseSync } = require(${JSON.stringify(driver)})
    const database = new DatabaseSync(${JSON.stringify(path)})
    database.prepare('SELECT count(*) FROM sqlite_schema').get()
    console.log('open')
    process.stdin.resume()`
  const child = spawn(process.execPath, ['-e', program], { stdio: ['pipe', 'pipe', 'inherit'] })
  try {
    await once(child.stdout, 'data')
    await work(child.pid!)
  } finally {
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
}

describe.skipIf(process.platform !== 'linux')('a repair while another process has the file open', () => {
  it('is refused with STORE_BUSY and who it is, and done once that one is gone', async () => {
    const copy = damaged('busy.db', root)
    const rp = createEngine({ store: await openStore(`sqlite:${copy}`, { busyMs: 100 }) })
    await whileOpen(copy, async (pid) => {
      const refused = rp.verify({ repair: true })
      await expect(refused).rejects.toMatchObject({ code: 'STORE_BUSY', data: { holder: { pid } } })
    })
    expect((await rp.verify({ repair: true })).ok).toBe(true)
    expect((await rp.verify()).ok).toBe(true)
    await rp.close()
  })
})

it('the first page of the file is made again, with the tables of others', async () => {
  const copy = damaged('first.db', 1)
  await expect(open(`sqlite:${copy}`, quiet)).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
  const planned = await renewStore(`sqlite:${copy}`, { dryRun: true })
  expect(planned).toMatchObject({
    lost: [],
    rebuilt: expect.arrayContaining([expect.objectContaining({ where: 'file' })]),
  })
  const renewal = await renewStore(`sqlite:${copy}`)
  expect(renewal!.lost).toEqual([])
  expect(readFileSync(renewal!.kept).subarray(0, 16).toString('latin1')).not.toBe('SQLite format 3\0')
  const rp = await open(`sqlite:${copy}`, quiet)
  expect(await rp.verify()).toMatchObject({ ok: true })
  expect(await rp.sql('SELECT count(*) AS n FROM mine')).toEqual([{ n: 2 }])
  await rp.close()
})

it('a file that is no store is not taken for one whose first page is damaged', async () => {
  const other = join(folder, 'other.db')
  writeFileSync(other, Buffer.alloc(5 * pageBytes, 'not a database '))
  await expect(renewStore(`sqlite:${other}`)).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
  expect(readFileSync(other).subarray(0, 3).toString()).toBe('not')
})

it('fields that users of the file set in its header stay', async () => {
  const copy = damaged('version.db', root)
  await renewStore(`sqlite:${copy}`)
  const database = (await loadDriver()).open(copy, { isReadOnly: true })
  expect(database.prepare('PRAGMA user_version').get()).toEqual({ user_version: 7 })
  database.close()
})
