// G8: a fork loses its head. One copy of it is enough: the fork continues, base included. If both are lost, nothing is
// acknowledged a second time: the fork is refused and named, and its entries stay. A failed open leaves no lock behind.

import { execFile } from 'node:child_process'
import { copyFileSync, linkSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { open, type Reprise, timeline } from '../../src/index.ts'
import { loadDriver } from '../../src/stores/sqlite/file/driver.ts'
import { renewStore } from '../../src/tools.ts'
import { bin } from '../cli/support.ts'
import { newFolder, removeFolder } from '../crash/support.ts'

let folder: string
let file: string

const counter = timeline('counter', {
  initial: () => 0,
  apply: (sum: number, { by }: { readonly type: 'add'; readonly by: number }) => sum + by,
})

beforeEach(async () => {
  folder = newFolder(true)
  file = join(folder, 'store.db')
  const rp = await at()
  const a = await rp.open(counter, 'a')
  for (let n = 0; n < 15; n++) await a.append({ type: 'add', by: 1 })
  await a.checkpoint()
  await rp.fork({ timeline: 'counter/a', seq: 12 }, 'counter/fork')
  const fork = await rp.open(counter, 'fork')
  for (let n = 0; n < 11; n++) await fork.append({ type: 'add', by: 100 })
  await rp.close()
})
afterEach(() => removeFolder(folder))

async function at(path = file): Promise<Reprise> {
  return await open(`sqlite:${path}`, { housekeeping: false, redundancy: false })
}

async function edit(sql: string): Promise<void> {
  const database = (await loadDriver()).open(file, { isReadOnly: false })
  database.exec(`${sql}; PRAGMA wal_checkpoint(TRUNCATE)`)
  database.close()
}

const ofFork = `tid = (SELECT tid FROM reprise_timeline WHERE name = 'counter/fork')`
const ruin = (table: string) => `UPDATE ${table} SET state = x'0102030405' WHERE ${ofFork};`

it.each(['reprise_head', 'reprise_head_mark'])(
  '%s of a fork is damaged: it goes on from the other copy',
  async (table) => {
    await edit(ruin(table))
    const before = await at()
    expect((await before.open(counter, 'fork')).state).toBe(1112)
    await before.close()
    await edit(ruin(table))
    const rp = await at()
    const { ok } = await rp.verify({ repair: true })
    expect({ ok, after: (await rp.verify()).ok }).toEqual({ ok: true, after: true })
    const fork = await rp.open(counter, 'fork')
    expect(fork.state).toBe(1112)
    expect((await fork.append({ type: 'add', by: 100 })).seq).toBe(24)
    expect((await rp.head('counter/fork'))?.base).toMatchObject({ timeline: 'counter/a', seq: 12 })
    await rp.close()
  },
)

it('both copies are lost: the fork is refused and named, and no sequence is used twice', async () => {
  await edit(ruin('reprise_head') + ruin('reprise_head_mark'))
  const rp = await at()
  const { faults } = await rp.verify({ repair: true })
  expect(faults.map(({ timeline: id }) => id)).toContain('counter/fork')
  const again = (await rp.verify()).faults.filter(({ timeline: id }) => id === 'counter/fork')
  expect(again.map(({ code }) => code)).toContain('HEAD_LOST')
  expect((await rp.head('counter/fork'))?.seq).toBe(23)
  await expect(rp.open(counter, 'fork')).rejects.toMatchObject({ code: 'HISTORY_DAMAGED' })
  expect((await rp.open(counter, 'a')).state).toBe(15)
  await rp.close()
})

it('a tool that cannot open the store leaves no lock behind: the repair that it advises works', async () => {
  // From 0 to 1, which is one bit in the file.
  await edit(`UPDATE reprise_timeline SET priority = 1 WHERE name = 'reprise/store'`)
  // A driver of its own: this process may still have the other file open.
  const copy = join(folder, 'copy.db')
  for (const end of ['', '-ack']) copyFileSync(`${file}${end}`, `${copy}${end}`)
  const run = (...args: string[]) =>
    promisify(execFile)(process.execPath, [bin, ...args, '--url', `sqlite:${copy}`]).then(
      () => 0,
      (error: { code: number }) => error.code,
    )
  expect(await run('ls')).toBe(8)
  expect(await run('verify', '--repair')).toBe(0)
  expect(await run('verify')).toBe(0)
  const rp = await at(copy)
  expect((await rp.open(counter, 'fork')).state).toBe(1112)
  await rp.close()
})

it('an open that fails leaves no lock behind', async () => {
  await edit(`UPDATE reprise_timeline SET priority = 1 WHERE name = 'reprise/store'`)
  await expect(at()).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
  expect(await renewStore(`sqlite:${file}`)).toMatchObject({ lost: [] })
  await (await at()).close()
})

it('a second name by a hard link is refused, one by a symbolic link is the same file', async () => {
  symlinkSync(file, join(folder, 'symbolic.db'))
  const rp = await open(`sqlite:${join(folder, 'symbolic.db')}`, { housekeeping: false })
  expect((await rp.open(counter, 'fork')).state).toBe(1112)
  await rp.close()
  linkSync(file, join(folder, 'hard.db'))
  for (const name of ['store.db', 'hard.db']) {
    const opening = open(`sqlite:${join(folder, name)}`, { housekeeping: false })
    await expect(opening).rejects.toMatchObject({ code: 'STORE_UNSUPPORTED', data: { links: 2 } })
  }
})
