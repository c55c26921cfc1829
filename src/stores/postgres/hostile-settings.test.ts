// Settings of the server that change the meaning of a statement or of its result. Each is set to a hostile value for a role, for
// the database and for the server, before the store is opened and while it is open: results stay equal.

import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { startPostgres, type TestPostgres } from '../../../test/support/postgres.ts'
import { newSchemaName, query } from '../../../test/support/schema.ts'
import type { Sql, Store } from '../../core/store/ports.ts'
import { asTimeline, hash, Kit, worker } from '../../testing/conformance/kit.ts'
import { openPostgres } from './index.ts'

const hostile: Readonly<Record<string, string>> = {
  extra_float_digits: '-15',
  synchronous_commit: 'off',
  bytea_output: 'escape',
  TimeZone: 'Asia/Kathmandu',
  DateStyle: 'SQL, DMY',
  IntervalStyle: 'iso_8601',
  standard_conforming_strings: 'off',
  backslash_quote: 'off',
  array_nulls: 'off',
  transform_null_equals: 'on',
  default_transaction_isolation: 'serializable',
  default_transaction_read_only: 'on',
  default_transaction_deferrable: 'on',
  lock_timeout: '1',
  statement_timeout: '1',
  idle_in_transaction_session_timeout: '1',
  idle_session_timeout: '1',
  client_encoding: 'LATIN1',
}

const values = String.raw`SELECT 0.1::float8 + 0.2::float8 AS float, 1.1::real AS real, '\x00ff'::bytea AS bytes,
  '2026-02-03 04:05:06.789+00'::timestamptz AS at, '2026-02-03 04:05:06.789+00'::timestamptz::text AS at_text,
  DATE '2026-02-03' AS day, '03/02/2026'::date::text AS guessed, interval '1 day 2 hours' AS span, 'a\b' AS backslash,
  '{1,NULL,3}'::text[] AS list, (NULL::int = NULL) IS NULL AS is_unknown, 'é' AS letter,
  current_setting('transaction_isolation') AS isolation, current_setting('synchronous_commit') AS durable`

let server: TestPostgres
let role = ''
let url = ''
const opened: Store[] = []
beforeAll(async () => {
  server = await startPostgres()
  role = 'hostile'
  await query(server.url, `CREATE ROLE ${role} LOGIN SUPERUSER`)
  const own = new URL(server.url)
  own.username = role
  url = own.href
})
afterEach(async () => {
  await Promise.all(opened.splice(0).map((store) => store.close()))
  await query(server.url, `ALTER ROLE ${role} RESET ALL`)
})
afterAll(() => server.stop())

async function open(given = url): Promise<Store> {
  const store = await openPostgres(given, { namespace: 'a', schema: newSchemaName(), hash, poolSize: 2 })
  opened.push(store)
  return store
}

const parts = (text: string) => ({ parts: [text], values: [], rowsMax: 10, timeoutMs: 5000 })

/** Everything a program sees: the store's own rows, its SQL inside a commit, and its queries. */
async function everything(store: Store) {
  const kit = new Kit(store, async () => store, {})
  const id = `t${Math.random().toString(36).slice(2)}`
  const writer = await kit.create(id)
  await writer.append('one', '\\ \\x41 é \u0001')
  const before = Date.now()
  const { now } = await store.beat(worker('w'))
  expect(Math.abs(now - before)).toBeLessThan(60_000)
  const [outcome] = await store.commit([
    {
      operation: `op ${id}` as never,
      guard: { timeline: asTimeline(id), epoch: (await kit.head(id)).epoch },
      attributes: { share: 0.1 + 0.2, text: 'a\\b', nothing: '' },
      userSql: async (sql: Sql) => await sql.get(values),
    },
  ])
  const { attributes, status, seq } = await kit.head(id)
  const runs = await store.read(asTimeline(id), 0, 1e6)
  return {
    outcome: outcome?.ok && outcome.sqlResult,
    query: await store.query(parts(values)),
    ...{ attributes, status, seq },
    bytes: runs.map((run) => Buffer.from(run.bytes).toString('latin1').includes('\\x41')),
  }
}

describe('hostile settings', () => {
  it.each(Object.entries(hostile))('of a role, before the store is opened: %s = %s', async (name, value) => {
    const expected = await everything(await open())
    await query(server.url, `ALTER ROLE ${role} SET ${name} = '${value}'`)
    expect(await everything(await open())).toEqual(expected)
  })

  it('all of them, of the role, the database and the server, while the store is open', async () => {
    const store = await open()
    const expected = await everything(store)
    const database = new URL(server.url).pathname.slice(1)
    try {
      for (const [name, value] of Object.entries(hostile)) {
        await query(server.url, `ALTER ROLE ${role} SET ${name} = '${value}'`)
        // The test's own queries use another role, which these two would block.
        if (/read_only|timeout|session/.test(name)) continue
        await query(server.url, `ALTER DATABASE "${database}" SET ${name} = '${value}'`)
        if (name !== 'client_encoding') await query(server.url, `ALTER SYSTEM SET ${name} = '${value}'`)
      }
      await query(server.url, 'SELECT pg_reload_conf()')
      await query(server.url, 'SELECT pg_sleep(0.3)')
      expect(await everything(store)).toEqual(expected)
      expect(await everything(await open())).toEqual(expected)
    } finally {
      await query(server.url, `ALTER DATABASE "${database}" RESET ALL`)
      await query(server.url, 'ALTER SYSTEM RESET ALL')
      await query(server.url, 'SELECT pg_reload_conf()')
    }
  })

  it('a setting of the URL wins, and is refused if it changes the meaning of stored data', async () => {
    const given = new URL(url)
    given.searchParams.set('options', '-c TimeZone=Asia/Kathmandu')
    const [row] = await (await open(given.href)).query(parts("SELECT current_setting('TimeZone') AS zone"))
    expect(row).toEqual({ zone: 'Asia/Kathmandu' })
    given.searchParams.set('options', '-c array_nulls=off')
    await expect(open(given.href)).rejects.toMatchObject({ code: 'STORE_UNSUPPORTED', data: { array_nulls: 'off' } })
    given.searchParams.set('options', '-c synchronous_commit=off')
    await expect(open(given.href)).rejects.toMatchObject({ code: 'STORE_DURABILITY' })
  })
})
