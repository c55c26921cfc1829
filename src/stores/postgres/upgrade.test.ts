// A schema of an older version, dumped with its data, is upgraded when it is opened.

import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { dropSchema, newSchemaName, query } from '../../../test/support/schema.ts'
import { appendOperation, originDigest, packEntries, verifyEntries } from '../../core/history/entry-run.ts'
import type { Store } from '../../core/store/ports.ts'
import { asOperation, asTimeline, asWorker, hash, utf8, wholeFeed } from '../../testing/conformance/kit.ts'
import { openPostgres } from './index.ts'
import { schemaVersion } from './tables.ts'

const shared = inject('postgresUrl')
const schema = newSchemaName()
const a = asTimeline('note/a')
const b = asTimeline('note/b')
const stores: Store[] = []

const open = async () => {
  const store = await openPostgres(shared, { namespace: 'shop', schema, hash })
  stores.push(store)
  return store
}

describe('a schema of version 1', () => {
  beforeAll(async () => {
    const dump = readFileSync(new URL('../../../test/golden/postgres-1.sql', import.meta.url), 'utf8')
    await query(shared, dump.replaceAll('reprise_1', schema))
    // It had been restored into a younger cluster before: positions have a base.
    await query(
      shared,
      `UPDATE "${schema}".namespace SET pos_base = 1000000000; UPDATE "${schema}".run SET pos = pos + 1000000000;
       UPDATE "${schema}".cursor SET position = '000000100' || substr(position, 10)`,
    )
    // A process of the release that created it is still running.
    await query(
      shared,
      `INSERT INTO "${schema}".worker (ns, id, name, host, process, lease_ms, info, progress, started_at, beat_at, progress_at)
       SELECT ns, 'w-old', 'old', 'h', '1', 600000, '{}', 0, 0, date_part('epoch', now()) * 1000, 0 FROM "${schema}".timeline WHERE id = 'note/b';
       UPDATE "${schema}".timeline SET owner = 'w-old' WHERE id = 'note/b'`,
    )
  })
  afterAll(async () => {
    for (const store of stores) await store.close()
    await dropSchema(shared, schema)
  })

  it('G16: is upgraded once, by the first process, and leaves no function of the old version', async () => {
    const opened = await Promise.all([open(), open(), open()])
    for (const store of opened) expect((await store.upkeep.facts()).schemaVersion).toBe(schemaVersion)
    expect(await query(shared, `SELECT version FROM "${schema}".meta`)).toEqual([{ version: schemaVersion }])
    const old = `SELECT proname FROM pg_proc WHERE pronamespace = '"${schema}"'::regnamespace AND proname LIKE '%\\_v1'`
    expect(await query(shared, old)).toEqual([])
    const key = `SELECT pg_get_constraintdef(oid) AS key FROM pg_constraint WHERE conrelid = '"${schema}".run'::regclass AND contype = 'p'`
    expect(await query(shared, key)).toEqual([{ key: 'PRIMARY KEY (tid, first)' }])
  })

  it('G16: is taken from processes of the old version, which can write nothing any more', async () => {
    const store = stores[0]!
    expect((await store.workers()).filter(({ id }) => id === 'w-old')).toMatchObject([{ isRetired: true }])
    expect((await store.head([b]))[0]).toMatchObject({ owner: null })
  })

  it('has no function that rules plans out and leaves the server to compile those that are then dear', async () => {
    const left = `SELECT proname FROM pg_proc WHERE pronamespace = '"${schema}"'::regnamespace
      AND proconfig && '{enable_bitmapscan=off,enable_sort=off}' AND NOT proconfig @> '{jit=off}'`
    expect(await query(shared, left)).toEqual([])
  })

  it('G16: has the indexes and settings of a schema that is made anew', async () => {
    const fresh = newSchemaName()
    await (await openPostgres(shared, { namespace: 'shop', schema: fresh, hash })).close()
    const settings = async (name: string) =>
      await query(
        shared,
        `SELECT c.relname, ARRAY(SELECT unnest(c.reloptions) ORDER BY 1) AS options, replace(pg_get_indexdef(c.oid), '${name}', '') AS index
         FROM pg_class c WHERE c.relnamespace = '"${name}"'::regnamespace AND c.relkind IN ('r', 'i') ORDER BY 1`,
      )
    expect(await settings(schema)).toEqual(await settings(fresh))
    await dropSchema(shared, fresh)
  })

  it('G16: keeps heads, history, feed, cursors and mail as they were', async () => {
    const store = await open()
    const heads = await store.head([a, b])
    expect(heads).toMatchObject([
      { seq: 7, epoch: 1, mail: 1, attributes: { kind: 'note' } },
      { seq: 5, epoch: 1, mail: 0, operation: 'own-name' },
    ])
    expect(heads[0]!.operation).toBe(appendOperation(heads[0]!.digest))
    let before = { seq: 0, digest: originDigest(hash, a) }
    const runs = await store.read(a, 0, 1e6)
    expect(runs.map(({ first, count }) => [first, count])).toEqual([
      [1, 1],
      [2, 3],
      [5, 1],
      [6, 2],
    ])
    for (const run of runs) {
      verifyEntries(hash, a, run, before)
      before = { seq: run.first + run.count - 1, digest: run.digest }
    }
    expect(before).toEqual({ seq: 7, digest: heads[0]!.digest })
    expect((await store.read(a, 3, 1e6)).map(({ first }) => first)).toEqual([2, 5, 6])
    const [cursor] = await store.cursors()
    expect(cursor).toMatchObject({ name: 'reader', owner: b })
    expect(await wholeFeed(store)).toHaveLength(7)
    expect((await store.feed(cursor!.position, {}, 100)).items).toHaveLength(4)
    expect((await store.inbox(a, 10)).messages).toMatchObject([{ id: 'm1', kind: 'hello' }])
    expect(await store.upkeep.inspect()).toEqual([])
  })

  it('continues: appends, takeovers, and repetitions after lost answers', async () => {
    const store = await open()
    const [cursor] = await store.cursors()
    let { digest } = (await store.head([a]))[0]!
    for (let seq = 7; seq < 10; seq++) {
      const draft = { type: 'noted', version: 1, time: 1, data: utf8(`more ${seq}`) }
      const run = packEntries(hash, { before: digest, first: seq + 1, epoch: 1 }, [draft])
      const commit = { operation: appendOperation(run.digest), guard: { timeline: a, epoch: 1, seq, digest }, run }
      expect(await store.commit([commit])).toMatchObject([{ ok: true, seq: seq + 1, isDuplicate: false }])
      expect(await store.commit([commit])).toMatchObject([{ ok: true, seq: seq + 1, isDuplicate: true }])
      digest = run.digest
    }
    const take = { worker: asWorker('x'), from: 'anyone' as const }
    const taken = await store.commit([{ operation: asOperation('t'), guard: { timeline: a, epoch: 1 }, take }])
    expect(taken).toMatchObject([{ ok: true, epoch: 2, seq: 10 }])
    // New runs come after the old ones in the feed, although this server has other transaction numbers.
    await wholeFeed(store)
    const { items } = await store.feed(cursor!.position, {}, 100)
    expect(items.slice(-3).map(({ timeline, run }) => [timeline, run.first])).toEqual([
      [a, 8],
      [a, 9],
      [a, 10],
    ])
    expect(await store.upkeep.inspect()).toEqual([])
  })
})
