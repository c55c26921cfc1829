// Changes of a real PostgreSQL as a source: the existing rows, then every change, each once over restarts.

import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type PostgresChange, postgresCdcSource, slotLag } from '../../src/adapters/postgres-cdc/index.ts'
import { open } from '../../src/index.ts'
import { collectSink, pipeline, type Source } from '../../src/layers/pipeline/index.ts'
import { sourceConformance } from '../../src/testing/index.ts'
import { pause, until } from '../support/fixture.ts'
import { startPostgres, type TestPostgres } from '../support/postgres.ts'

let server: TestPostgres
let client: pg.Client
let made = 0

beforeAll(async () => {
  server = await startPostgres({ wal_level: 'logical' })
  client = new pg.Client({ connectionString: server.url })
  await client.connect()
})
afterAll(async () => {
  await client?.end()
  await server?.stop()
})

async function newTable(columns = 'n int PRIMARY KEY'): Promise<string> {
  const table = `t${++made}`
  await client.query(`CREATE TABLE ${table} (${columns})`)
  return table
}

async function dropSlot(slot: string): Promise<void> {
  const ask = 'SELECT active FROM pg_replication_slots WHERE slot_name = $1'
  for (;;) {
    const { rows } = await client.query(ask, [slot])
    if (rows.length === 0) return
    if (!rows[0].active) await client.query('SELECT pg_drop_replication_slot($1)', [slot]).catch(() => undefined)
    await pause(10)
  }
}

const numbersOf = (source: Source<PostgresChange>): Source<number> => ({
  open: source.open as unknown as Source<number>['open'],
  decode: ({ row }: PostgresChange) => row!.n as number,
})

sourceConformance<number>(
  { describe, it },
  {
    name: 'postgresCdc',
    async create() {
      const table = await newTable()
      const slot = `slot_${table}`
      const all: number[] = []
      const add = async () => {
        await client.query('BEGIN')
        for (let times = 0; times < 3; times++) {
          await client.query(`INSERT INTO ${table} VALUES ($1)`, [all.length])
          all.push(all.length)
        }
        await client.query('COMMIT')
      }
      await add()
      await add()
      return {
        source: () =>
          numbersOf(postgresCdcSource({ url: server.url, slot, publication: `pub_${table}`, tables: [table] })),
        expected: () => new Map([['', all]]),
        ends: false,
        add,
        forget: () => dropSlot(slot),
        destroy: () => dropSlot(slot),
      }
    },
  },
)

describe('changes of PostgreSQL', () => {
  it('are inserts, updates, deletes and truncates, with values as pg gives them', async () => {
    const table = await newTable('id int PRIMARY KEY, name text, cents numeric, tags text[], at timestamptz, big text')
    const large = Array.from({ length: 5000 }, (_, n) => (n * 7919).toString(36)).join('')
    await client.query(`INSERT INTO ${table} VALUES (1, 'ann', 1.50, '{a,b}', '2026-01-02T03:04:05Z', $1)`, [large])
    await client.query(`ALTER TABLE ${table} ALTER COLUMN big SET STORAGE EXTERNAL`)
    const rp = await open('memory:')
    const out = collectSink<PostgresChange>()
    const read = pipeline('read', (p) => {
      p.from('in', postgresCdcSource({ url: server.url, tables: [table] })).to('out', out)
    })
    const run = await rp.run(read, { checkpoint: { every: 1 } }).started()
    await until(() => out.values.length === 1)
    await client.query(`INSERT INTO ${table} VALUES (2, NULL, NULL, '{}', NULL, $1)`, [large])
    await client.query(`UPDATE ${table} SET name = 'bob' WHERE id = 2`)
    await client.query(`UPDATE ${table} SET id = 3 WHERE id = 2`)
    await client.query(`ALTER TABLE ${table} ADD COLUMN more int DEFAULT 7`)
    await client.query(`DELETE FROM ${table} WHERE id = 3`)
    await client.query(`ALTER TABLE ${table} REPLICA IDENTITY FULL`)
    await client.query(`UPDATE ${table} SET name = 'eve' WHERE id = 1`)
    await client.query(`TRUNCATE ${table}`)
    await until(() => out.values.length === 7)
    await run.stop()
    await rp.close()
    const [snapshot, insert, update, rekeyed, deleted, full, truncated] = out.values
    const at = new Date('2026-01-02T03:04:05Z')
    const first = { id: 1, name: 'ann', cents: '1.50', tags: ['a', 'b'], at, big: large }
    expect(snapshot).toMatchObject({ kind: 'snapshot', schema: 'public', table, row: first, before: null })
    expect(insert).toMatchObject({
      kind: 'insert',
      row: { id: 2, name: null, cents: null, tags: [], at: null, big: large },
    })
    // The large value did not change, and is not sent.
    expect(update).toMatchObject({ kind: 'update', before: null, row: { id: 2, name: 'bob' } })
    expect('big' in update!.row!).toBe(false)
    expect(rekeyed).toMatchObject({ kind: 'update', before: { id: 2 }, row: { id: 3 } })
    expect(deleted).toMatchObject({ kind: 'delete', row: null, before: { id: 3 } })
    expect(full).toMatchObject({
      kind: 'update',
      before: { ...first, more: 7 },
      row: { ...first, name: 'eve', more: 7 },
    })
    expect(truncated).toMatchObject({ kind: 'truncate', row: null, before: null })
    expect(Math.abs(insert!.time - Date.now())).toBeLessThan(3_600_000)
  })

  it('go on behind any transaction that was not acknowledged, and not before one that was', async () => {
    const table = await newTable()
    const rp = await open('memory:')
    const source = postgresCdcSource({
      url: server.url,
      slot: `slot_${table}`,
      publication: `pub_${table}`,
      tables: [table],
    })
    const context = {
      engine: rp,
      pipeline: 'pipeline/x',
      name: 'in',
      signal: new AbortController().signal,
      partitions: null,
    }
    const reader = await source.open(null, context)
    const positions = [(await reader.read(10))!.position]
    for (const n of [1, 2, 3]) {
      await client.query(`INSERT INTO ${table} SELECT ${n} * 100 + i FROM generate_series(1, 20) i`)
      // A transaction is delivered whole.
      const batch = (await reader.read(10))!
      expect(batch.values.map(({ row }) => row!.n)).toEqual(Array.from({ length: 20 }, (_, i) => n * 100 + i + 1))
      positions.push(batch.position)
    }
    await reader.published!(new Map([['', positions[1]]]))
    await reader.close()
    for (const [place, rest] of [
      [1, [2, 3]],
      [2, [3]],
    ] as const) {
      const again = await source.open(new Map([['', positions[place]]]), context)
      for (const n of rest) expect((await again.read(10))!.values[0]!.row!.n).toBe(n * 100 + 1)
      await again.close()
    }
    await expect(source.open(new Map([['', positions[0]]]), context)).rejects.toMatchObject({ code: 'POSITION_GONE' })
    await dropSlot(`slot_${table}`)
    await expect(source.open(new Map([['', positions[2]]]), context)).rejects.toMatchObject({ code: 'POSITION_GONE' })
    await rp.close()
  })

  it('are read once by a pipeline that is stopped and run again, and the slot follows its checkpoints', async () => {
    const table = await newTable()
    await client.query(`INSERT INTO ${table} VALUES (0)`)
    const rp = await open('memory:')
    const out = collectSink<number>()
    const read = pipeline('copied', (p) => {
      p.from('in', postgresCdcSource({ url: server.url, tables: [table] }))
        .map(({ row }) => row!.n as number)
        .to('out', out)
    })
    for (const last of [3, 6]) {
      const run = await rp.run(read, { checkpoint: { every: 1 } }).started()
      for (let n = last - 2; n <= last; n++) await client.query(`INSERT INTO ${table} VALUES (${n})`)
      await until(() => out.values.length === last + 1)
      await run.stop()
      const { bytes, walStatus } = await slotLag({ url: server.url, slot: 'reprise_pipeline_copied_in' })
      expect([Number.isSafeInteger(bytes) && bytes >= 0, walStatus]).toEqual([true, 'reserved'])
    }
    expect(out.values).toEqual([0, 1, 2, 3, 4, 5, 6])
    await rp.close()
  })

  it('let the slot follow while only other tables are written, and none is lost or doubled by that', async () => {
    const table = await newTable()
    const other = await newTable('n int, filler text')
    const rp = await open('memory:')
    const out = collectSink<number>()
    const silent = pipeline('silent', (p) => {
      p.from('in', postgresCdcSource({ url: server.url, tables: [table] }))
        .map(({ row }) => row!.n as number)
        .to('out', out)
    })
    const lag = async () => (await slotLag({ url: server.url, slot: 'reprise_pipeline_silent_in' })).bytes
    for (let round = 0; round < 2; round++) {
      // A policy that counts records never sees one here.
      const run = await rp.run(silent, { checkpoint: { every: 1000 } }).started()
      const before = await lag()
      await client.query(`INSERT INTO ${other} SELECT n, repeat('x', 400) FROM generate_series(1, 10000) n`)
      await until(async () => (await lag()) <= before + 2_000_000)
      await client.query(`INSERT INTO ${table} VALUES (${round})`)
      await until(() => out.values.length === round + 1)
      // A simulated kill: the records after the last checkpoint are read again, from a silent position.
      if (round === 0) await run.cancel()
      else await run.stop()
    }
    expect(out.values).toEqual([0, 1])
    await rp.close()
  })

  it('that are too many for one batch are refused, and a slot that another holds is taken from it', async () => {
    const table = await newTable()
    await client.query(`INSERT INTO ${table} SELECT i FROM generate_series(1, 11) i`)
    const rp = await open('memory:')
    const names = { slot: `slot_${table}`, publication: `pub_${table}`, tables: [table] }
    const context = {
      engine: rp,
      pipeline: 'pipeline/x',
      name: 'in',
      signal: new AbortController().signal,
      partitions: null,
    }
    const few = postgresCdcSource({ url: server.url, ...names, rowsMax: 10 })
    await expect(few.open(null, context)).rejects.toMatchObject({ code: 'LIMIT_EXCEEDED' })
    const old = await postgresCdcSource({ url: server.url, ...names }).open(null, context)
    const { position } = (await old.read(100))!
    const owner = await postgresCdcSource({ url: server.url, ...names }).open(new Map([['', position]]), context)
    await expect(Promise.resolve(old.read(1))).rejects.toThrow()
    await client.query(`INSERT INTO ${table} VALUES (12)`)
    expect((await owner.read(1))!.values[0]!.row).toEqual({ n: 12 })
    await old.close()
    await owner.close()
    await expect(postgresCdcSource({ url: server.url, publication: 'none' }).open(null, context)).rejects.toMatchObject(
      {
        code: 'NOT_FOUND',
      },
    )
    await rp.close()
  })
})
