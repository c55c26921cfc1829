// The rows that a claim on SQLite reads: as many as it requests, whatever else is due, sleeping or owned; and missing rows in
// its index are noticed.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { temporaryFolder } from '../../../../test/support/fixture.ts'
import { asWorker, hash, Kit, worker } from '../../../testing/conformance/kit.ts'
import { Connection } from '../file/connection.ts'
import { loadDriver } from '../file/driver.ts'
import { openSqlite } from '../index.ts'

let folder: string
let file: string
let now = 1_000
const open = () => openSqlite(file, { namespace: 'a', hash, clock: () => now })

beforeEach(() => {
  folder = temporaryFolder('due')
  file = join(folder, 'store.db')
  now = 1_000
})

async function kitWith(count: number, parts: (i: number) => object): Promise<Kit> {
  const store = await open()
  const kit = new Kit(store, open, {})
  for (let i = 0; i < count; i++) {
    const writer = await kit.create(`t/${String(i).padStart(3, '0')}`, { worker: 'gone' })
    await writer.commit({ queue: 'q', release: true, ...parts(i) })
  }
  return kit
}

/** Removes a cell from the last leaf of an index. */
function loseLastCell(root: number): void {
  const bytes = readFileSync(file)
  let start = (root - 1) * 4096
  while (bytes[start] === 2) start = (bytes.readUInt32BE(start + 8) - 1) * 4096
  bytes.writeUInt16BE(bytes.readUInt16BE(start + 3) - 1, start + 3)
  writeFileSync(file, bytes)
}

describe('a claim on SQLite', () => {
  it('reads as many rows as it wants: neither the others that are due, nor those that sleep, nor those at work', async () => {
    // Each priority has timelines that are due, asleep, and owned by a live worker.
    const kit = await kitWith(90, (i) => ({
      wakeup: i % 3 === 1 ? 5_000 : i,
      priority: i % 2,
      ...(i % 3 === 2 && { release: false }),
    }))
    await kit.store.beat(worker('gone'))
    const rows: number[] = []
    const all = Connection.prototype.all
    const spy = vi.spyOn(Connection.prototype, 'all').mockImplementation(function (this: Connection, sql, ...values) {
      const found = all.call(this, sql, ...values)
      if (sql.includes('reprise_timeline_due') || sql.includes('reprise_timeline_owner')) rows.push(found.length)
      return found
    })
    try {
      const heads = await kit.store.claim({ worker: asWorker('w'), queues: ['q'], limit: 3 })
      expect(heads.map(({ timeline }) => timeline)).toEqual(['t/003', 't/009', 't/015'])
    } finally {
      spy.mockRestore()
    }
    // One row in the check before, then the three.
    expect(rows).toEqual([1, 3])
    await kit.store.close()
  })

  it('finds due timelines of a dead worker among the others, in order', async () => {
    const kit = await kitWith(8, (i) => ({ wakeup: i, ...(i % 2 === 0 && { release: false }) }))
    await kit.store.beat({ ...worker('gone'), leaseMs: 10 })
    now += 100
    const heads = await kit.store.claim({ worker: asWorker('w'), queues: ['q'], limit: 4 })
    expect(heads.map(({ timeline }) => timeline)).toEqual(['t/000', 't/001', 't/002', 't/003'])
    await kit.store.close()
  })

  it.each([5, 250])('G7: notices a timeline that is missing from the index of due ones, among %i', async (count) => {
    const kit = await kitWith(count, (i) => ({ wakeup: i + 1 }))
    await kit.store.close()
    const connection = new Connection(await loadDriver(), file, false)
    connection.checkpoint()
    const sql = `SELECT rootpage FROM sqlite_schema WHERE name = 'reprise_timeline_due'`
    const { rootpage } = connection.get(sql) as { rootpage: number }
    connection.close()
    loseLastCell(rootpage)
    const store = await open()
    const claims = async () => {
      for (let i = 0; i < 3; i++) await store.claim({ worker: asWorker('w'), queues: ['q'], limit: 1 })
    }
    await expect(claims()).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
    expect((await store.upkeep.inspect()).map(({ where }) => where)).toContain('due timelines')
    await store.close()
  })
})
