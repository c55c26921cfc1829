// Server settings outside of our control: whatever they are, data is read as it was written, and a user who may only
// read can.

import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest'
import { startPostgres } from '../../../test/support/postgres.ts'
import { dropSchema, newSchemaName, query } from '../../../test/support/schema.ts'
import type { Store } from '../../core/store/ports.ts'
import { asManifest, asTimeline, hash, Kit, utf8, wholeFeed, worker } from '../../testing/conformance/kit.ts'
import { openPostgres } from './index.ts'

const shared = inject('postgresUrl')
const schema = newSchemaName()
const reader = `${schema}_reader`
const opened: Store[] = []

async function open(url: string, options: { readOnly?: boolean } = {}): Promise<Store> {
  const store = await openPostgres(url, { namespace: 'a', schema, hash, poolSize: 2, ...options })
  opened.push(store)
  return store
}

const body = Uint8Array.from({ length: 512 }, (_, i) => i % 256)

beforeAll(async () => {
  const store = await open(shared)
  const kit = new Kit(store, async () => store, {})
  const writer = await kit.create('a')
  await writer.append('one', '\\ \\x41 \u00e9 \u0001')
  await writer.publish('c1', { body, bodyDigest: hash(body) })
  await store.blobs.put([{ digest: hash(body), bytes: body }])
  await kit.send('a', 'm1', '\\x00')
})
afterEach(async () => {
  await Promise.all(opened.splice(0).map((store) => store.close()))
})
afterAll(async () => {
  await dropSchema(shared, schema)
  await query(shared, `DROP ROLE IF EXISTS ${reader}`)
})

describe('settings of the server', () => {
  it('G7: bytes are read alike whatever bytea_output is', async () => {
    const url = new URL(shared)
    url.searchParams.set('options', '-c bytea_output=escape')
    const [plain, escaped] = [await open(shared), await open(url.href)]
    const look = async (store: Store) => ({
      head: await store.head([asTimeline('a')]),
      runs: await store.read(asTimeline('a'), 0, 1e6),
      checkpoints: await store.checkpoints(asTimeline('a')),
      mail: (await store.inbox(asTimeline('a'), 10)).messages,
      feed: await wholeFeed(store),
      chunk: await store.blobs.get([hash(body)]),
      chunks: await store.blobs.list(null, 10),
    })
    expect(await look(escaped)).toEqual(await look(plain))
    expect((await escaped.checkpoints(asTimeline('a')))[0]).toMatchObject({ id: asManifest('c1'), body })
    // A refusal contains the head, too, by another code path.
    const guard = { timeline: asTimeline('a'), epoch: 9 }
    const [refused] = await escaped.commit([{ operation: 'o' as never, guard, status: 'x' }])
    expect(refused).toMatchObject({ ok: false, head: { digest: (await plain.head([asTimeline('a')]))[0]!.digest } })
  })

  it('a user who may only read opens the store with readOnly and sees everything', async () => {
    await query(shared, `CREATE ROLE ${reader} LOGIN`)
    await query(shared, `GRANT USAGE ON SCHEMA "${schema}" TO ${reader}`)
    await query(shared, `GRANT SELECT ON ALL TABLES IN SCHEMA "${schema}" TO ${reader}`)
    const url = new URL(shared)
    url.username = reader
    try {
      const store = await open(url.href, { readOnly: true })
      expect((await store.head([asTimeline('a')]))[0]).toMatchObject({ seq: 2 })
      expect(await store.timelines({ limit: 10 })).toHaveLength(1)
      expect(await wholeFeed(store)).toHaveLength(1)
      expect(await store.workers()).toEqual([])
      expect((await store.upkeep.facts()).isReadOnly).toBe(true)
      await expect(store.blobs.put([{ digest: hash(utf8('n')), bytes: utf8('n') }])).rejects.toMatchObject({
        code: 'STORE_READ_ONLY',
      })
    } finally {
      await Promise.all(opened.splice(0).map((store) => store.close()))
      await query(shared, `DROP OWNED BY ${reader}`)
    }
  })

  it('reading only makes neither a schema nor a namespace', async () => {
    const nowhere = newSchemaName()
    const options = { namespace: 'a', schema: nowhere, hash, readOnly: true }
    await expect(openPostgres(shared, options)).rejects.toMatchObject({ code: 'NOT_FOUND' })
    expect(await query(shared, `SELECT 1 FROM pg_namespace WHERE nspname = '${nowhere}'`)).toEqual([])
    await (await openPostgres(shared, { namespace: 'fresh', schema, hash, readOnly: true })).close()
    expect(await query(shared, `SELECT 1 FROM "${schema}".namespace WHERE name = 'fresh'`)).toEqual([])
  })

  it('G1: settings that durability rests on are looked at again while the store is open', async () => {
    const server = await startPostgres()
    try {
      const store = await openPostgres(server.url, { namespace: 'a', hash })
      opened.push(store)
      const kit = new Kit(store, async () => store, {})
      const writer = await kit.create('a')
      const set = async (text: string) => {
        await query(server.url, text)
        await query(server.url, 'SELECT pg_reload_conf()')
        await query(server.url, 'SELECT pg_sleep(0.2)')
      }
      await set('ALTER SYSTEM SET full_page_writes = off')
      // The next heartbeat detects it, within a third of the lease.
      while ((await store.upkeep.facts()).durability.full_page_writes === 'on')
        await query(server.url, 'SELECT pg_sleep(0.1)')
      await store.beat(worker('w'))
      await expect(writer.append('lost?')).rejects.toMatchObject({ code: 'STORE_DURABILITY' })
      await set('ALTER SYSTEM RESET full_page_writes')
      while ((await store.upkeep.facts()).durability.full_page_writes === 'off')
        await query(server.url, 'SELECT pg_sleep(0.1)')
      await store.beat(worker('w'))
      await writer.append('kept')
      expect((await kit.head('a')).seq).toBe(1)
    } finally {
      await Promise.all(opened.splice(0).map((store) => store.close()))
      await server.stop()
    }
  })
})

describe('absence', () => {
  it('G7: a missing row of a timeline is detected by verify, from its remains', async () => {
    const lost = newSchemaName()
    const store = await openPostgres(shared, { namespace: 'a', schema: lost, hash, poolSize: 2 })
    try {
      const kit = new Kit(store, async () => store, {})
      const writer = await kit.create('a')
      await writer.append('one')
      await writer.publish('c1', { body, bodyDigest: hash(body) })
      await kit.create('b')
      expect(await store.upkeep.inspect()).toEqual([])
      await query(shared, `DELETE FROM ${lost}.timeline WHERE id = 'a'`)
      const places = (await store.upkeep.inspect()).map(({ where, what }) => `${where}: ${what}`)
      expect(places).toHaveLength(2)
      for (const what of ['1 run', '1 checkpoint']) {
        expect(places).toContainEqual(
          expect.stringMatching(new RegExp(`^timeline number \\d+: it is gone, and ${what}`)),
        )
      }
    } finally {
      await store.close()
      await dropSchema(shared, lost)
    }
  })

  it('G7: the facts include whether the server keeps checksums of its pages', async () => {
    const store = await open(shared)
    const [row] = await query(shared, 'SHOW data_checksums')
    expect(row!.data_checksums).toMatch(/^(on|off)$/)
    expect((await store.upkeep.facts()).durability.data_checksums).toBe(row!.data_checksums)
  })
})
