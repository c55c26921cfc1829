// A file of schema version 1, 3 or 6, made by removing the additions of later versions: it is read without a write, and
// migrated when it is opened for writing. Both return the same answers as before, and after the migration absence is checked.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { temporaryFolder } from '../../../../test/support/fixture.ts'
import { feedStart, type Store } from '../../../core/store/ports.ts'
import { asManifest, asTimeline, asWorker, hash, Kit, worker } from '../../../testing/conformance/kit.ts'
import { openSqlite } from '../index.ts'
import { chunkTables } from '../rows/blobs.ts'
import { checksumOf } from '../rows/row-checksum.ts'
import { schemaVersion } from '../schema.ts'
import { Connection } from './connection.ts'
import { loadDriver } from './driver.ts'

let folder: string
let file: string
const clock = () => 1_700_000_000_000
const open = (readOnly = false) => openSqlite(file, { namespace: 'a', hash, clock, readOnly })

beforeEach(async () => {
  folder = temporaryFolder('older')
  file = join(folder, 'store.db')
  const store = await open()
  const kit = new Kit(store, () => open(), {})
  for (let i = 0; i < 12; i++) {
    const writer = await kit.create(`many/${i}`, { worker: i % 2 ? 'w1' : 'w2' })
    await writer.append(`one ${i}`, `two ${i}`)
    await writer.commit({ attributes: { group: i % 3 }, queue: 'q', wakeup: i, status: i % 2 ? 'busy' : 'done' })
    if (i % 4 === 0) await writer.publish(`c${i}`, { verifiedAt: 1 })
    await kit.send(`many/${i}`, `m${i}`)
    if (i === 5) await writer.commit({ cursors: { reader: (await store.feed(feedStart, {}, 3)).next } })
    const base = { timeline: writer.id, seq: writer.seq, digest: writer.digest }
    if (i === 7) await kit.create('fork', { create: { digest: writer.digest, base } })
  }
  await store.beat(worker('w1'))
  await store.close()
})

async function edit(work: (connection: Connection) => void): Promise<void> {
  const connection = new Connection(await loadDriver(), file, false)
  work(connection)
  connection.checkpoint()
  connection.close()
}

/** Turns the file into one of release 0.1. */
function asVersion1(connection: Connection): void {
  connection.exec(`DROP TABLE reprise_witness; DROP TABLE reprise_head_mark; DROP TABLE reprise_tally;
    DROP INDEX reprise_timeline_wake; ${takeBackOrder} CREATE INDEX reprise_timeline_key ON reprise_timeline (key);
    ${takeBackStripes} ${takeBackLives}`)
  setVersion(connection, 1)
}

function asVersion3(connection: Connection): void {
  connection.exec(`${takeBackOrder} DELETE FROM reprise_tally WHERE kind = 'status'; ${takeBackLives}
    ALTER TABLE reprise_head_mark DROP COLUMN state; ALTER TABLE reprise_witness DROP COLUMN crc;`)
  setVersion(connection, 3)
}

/** The lives of forgotten ids were stored once. */
function asVersion6(connection: Connection): void {
  connection.exec(`DROP INDEX reprise_past_copy; ${takeBackRequests}`)
  setVersion(connection, 6)
}

/** Requests were stored once. */
function asVersion8(connection: Connection): void {
  connection.exec('DROP INDEX reprise_request_copy_1; DROP INDEX reprise_request_copy_2;')
  setVersion(connection, 8)
}

function setVersion(connection: Connection, version: number): void {
  connection.run(`UPDATE reprise_meta SET value = ? WHERE key = 'schema_version'`, version)
  connection.run(`DELETE FROM reprise_meta WHERE key = 'schema_copy'`)
  if (version > 5) connection.run(`INSERT INTO reprise_meta (key, value) VALUES ('schema_copy', ?)`, version)
  const sql = `SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE tbl_name LIKE 'reprise\\_%' ESCAPE '\\'
    AND type IN ('table', 'index') ORDER BY type, name`
  const texts = connection.all(sql).flatMap(({ type, name, tbl_name, sql: text }) => [type!, name!, tbl_name!, text!])
  connection.run(`UPDATE reprise_meta SET value = ? WHERE key = 'schema_crc'`, checksumOf(texts))
}

async function tell(store: Store): Promise<string> {
  const heads = await store.timelines({ limit: 100 })
  const lines: unknown[] = [heads, await store.cursors(), await store.workers(), await store.feed(feedStart, {}, 100)]
  for (const { timeline } of heads) {
    lines.push(await store.read(timeline, 0, 1e6), await store.checkpoints(timeline), await store.inbox(timeline, 10))
  }
  const queries = [{ attributes: { group: 1 } }, { owner: asWorker('w1') }, { parent: asTimeline('many/7') }]
  for (const query of [...queries, { status: 'busy' }, { status: 'nobody' }]) {
    lines.push((await store.timelines({ ...query, limit: 100 })).map(({ timeline }) => timeline))
  }
  return JSON.stringify(lines)
}

/** Version 4: due timelines were in order of time, and there was no index by status. */
const takeBackRequests = 'DROP TABLE reprise_request;'
const takeBackLives = `DROP TABLE reprise_past; DROP TABLE reprise_identity; ${takeBackRequests}`
const takeBackOrder = `DROP INDEX reprise_timeline_status; DROP INDEX reprise_timeline_due;
  CREATE INDEX reprise_timeline_due ON reprise_timeline (space, queue, due) WHERE due IS NOT NULL;`

/** Version 3: the bytes of chunks were in one table before. */
const takeBackStripes = chunkTables
  .filter((table) => table !== 'reprise_chunk_bytes')
  .map((table) => `INSERT INTO reprise_chunk_bytes SELECT id, bytes FROM ${table}; DROP TABLE ${table};`)
  .join('\n')

describe('a store of an older schema version', () => {
  it.each([asVersion1, asVersion3, asVersion6, asVersion8])(
    'is read as it is, and brought up to date when it is opened to write',
    async (asOlder) => {
      const now = await open()
      const truth = await tell(now)
      await now.close()
      await edit(asOlder)
      const bytes = readFileSync(file)
      const reader = await open(true)
      expect(await tell(reader)).toBe(truth)
      expect(await reader.upkeep.inspect()).toEqual([])
      await reader.close()
      expect(readFileSync(file).equals(bytes)).toBe(true)
      const writer = await open()
      expect(await tell(writer)).toBe(truth)
      expect(await writer.upkeep.inspect()).toEqual([])
      expect((await writer.upkeep.facts()).schemaVersion).toBe(schemaVersion)
      await writer.close()
    },
  )

  it('has its requests, before and after the upgrade', async () => {
    const write = `INSERT INTO reprise_request (namespace, verb, target, id, data) VALUES ('a', 'send', 'mail', 'many/1', '5')`
    await edit((connection) => {
      asVersion8(connection)
      connection.exec(write)
    })
    for (const readOnly of [true, false]) {
      const store = await open(readOnly)
      expect(await store.requests!.list({ limit: 10 })).toMatchObject([{ number: 1, id: 'many/1', data: '5' }])
      await store.close()
    }
  })

  it.each([
    ['the row of a timeline', `DELETE FROM reprise_timeline WHERE name = 'many/3'`],
    ['a value of an attribute', `DELETE FROM reprise_attribute WHERE tid = 5`],
    ['a message', `DELETE FROM reprise_inbox WHERE id = 'm3'`],
    ['a checkpoint', `DELETE FROM reprise_manifest WHERE id = 'c4'`],
    ['a cursor', `DELETE FROM reprise_cursor`],
    ['a worker', `DELETE FROM reprise_worker WHERE id = 'w1'`],
    ['the end of the log', `DELETE FROM reprise_log WHERE position = (SELECT max(position) FROM reprise_log)`],
    ['a tally', `DELETE FROM reprise_tally WHERE kind = 'attribute'`],
  ])('G7: misses %s from then on, and verify finds it', async (_, sql) => {
    await edit(asVersion1)
    await (await open()).close()
    await edit((connection) => connection.exec(sql))
    const reader = await open(true)
    expect(await reader.upkeep.inspect()).not.toEqual([])
    await reader.close()
    await expect(
      (async () => {
        const store = await open()
        try {
          await tell(store)
        } finally {
          await store.close()
        }
      })(),
    ).rejects.toMatchObject({ code: 'STORE_DAMAGED' })
  })

  it.each([
    ['a head', `DELETE FROM reprise_head WHERE tid = (SELECT tid FROM reprise_timeline WHERE name = 'many/3')`],
    ['a witness', `DELETE FROM reprise_witness WHERE name = 'many/3'`],
    ['a mark of a head', `DELETE FROM reprise_head_mark WHERE tid = 4`],
  ])('G8: reads around %s that is missing from then on, and verify finds it', async (_, sql) => {
    const before = await open()
    const truth = await tell(before)
    await before.close()
    await edit(asVersion1)
    await (await open()).close()
    await edit((connection) => connection.exec(sql))
    const store = await open()
    expect(await store.upkeep.inspect()).not.toEqual([])
    expect(await tell(store)).toBe(truth)
    await store.close()
  })

  it('knows the lives of forgotten ids, before and after', async () => {
    const name = asTimeline('deleted')
    const before = await open()
    const writer = await new Kit(before, () => open(), {}).create('deleted')
    expect(await writer.commit({ forget: true })).toMatchObject({ ok: true })
    const [truth] = await before.past([name])
    expect(truth).toMatchObject({ life: 1 })
    await before.close()
    await edit(asVersion6)
    for (const isReader of [true, false]) {
      const store = await open(isReader)
      expect(await store.past([name])).toEqual([truth])
      await store.close()
    }
  })

  it('keeps its checkpoints through the change', async () => {
    await edit(asVersion1)
    const store = await open()
    expect((await store.checkpoints(asTimeline('many/4'))).map(({ id }) => id)).toEqual([asManifest('c4')])
    await store.close()
  })
})
