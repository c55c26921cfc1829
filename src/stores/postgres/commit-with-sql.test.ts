// User SQL on PostgreSQL: whatever it sends, it cannot end the commit's transaction, and nothing of it stays in the
// session that is reused next.

import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest'
import { dropSchema, newSchemaName, query } from '../../../test/support/schema.ts'
import { isReprise } from '../../core/errors.ts'
import type { Outcome, Sql, Store } from '../../core/store/ports.ts'
import { hash, Kit } from '../../testing/conformance/kit.ts'
import { openPostgres } from './index.ts'

const shared = inject('postgresUrl')
const schema = newSchemaName()
const notes = `${schema}_notes`
const opened: Store[] = []

async function openKit(namespace: string): Promise<Kit> {
  const open = async () => {
    // One connection: the next call gets the session that the user's SQL had.
    const store = await openPostgres(shared, { namespace, schema, hash, poolSize: 1 })
    opened.push(store)
    return store
  }
  return new Kit(await open(), open, { sql: true })
}

beforeAll(async () => {
  await query(shared, `CREATE TABLE ${notes} (id serial PRIMARY KEY, note text NOT NULL)`)
  await query(
    shared,
    `CREATE FUNCTION ${notes}_sneak(p_text text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE p_text; END $$`,
  )
  await query(shared, `CREATE PROCEDURE ${notes}_ends() LANGUAGE plpgsql AS $$ BEGIN COMMIT; END $$`)
})
afterEach(async () => {
  await Promise.all(opened.splice(0).map((store) => store.close()))
})
afterAll(async () => {
  await query(shared, `DROP TABLE ${notes}`)
  await query(shared, `DROP FUNCTION ${notes}_sneak`)
  await query(shared, `DROP PROCEDURE ${notes}_ends`)
  await dropSchema(shared, schema)
})

const endings = [
  'ROLLBACK',
  'COMMIT',
  'END',
  'ABORT',
  ' /* a comment */ -- another\n ; COMMIT',
  'COMMIT AND CHAIN',
  'BEGIN',
  'START TRANSACTION',
  'SAVEPOINT a',
  "PREPARE TRANSACTION 'x'",
  'SELECT 1; ROLLBACK',
  'SELECT 1; COMMIT; BEGIN',
  'DO $$ BEGIN COMMIT; END $$',
  'DO $$ BEGIN ROLLBACK; END $$',
  `CALL ${notes}_ends()`,
  `SELECT ${notes}_sneak('COMMIT')`,
  `SELECT ${notes}_sneak('ROLLBACK')`,
  `WITH x AS (SELECT 1) SELECT ${notes}_sneak('CALL ${notes}_ends()') FROM x`,
  'EXPLAIN ANALYZE SELECT 1; COMMIT',
]

const leaks = [
  'SET bytea_output = escape',
  "SET synchronous_commit = 'off'",
  'SET search_path = nowhere',
  'SET ROLE pg_read_all_data',
  'SET SESSION AUTHORIZATION DEFAULT',
  'SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY',
  'SET TIME ZONE 12',
  'RESET ALL',
  'DISCARD ALL',
  'DISCARD PLANS',
  'LISTEN somebody',
  'PREPARE mine AS SELECT 1',
  'DEALLOCATE ALL',
  'DECLARE mine CURSOR WITH HOLD FOR SELECT 1',
  'CREATE TEMP TABLE mine (id integer)',
  'CREATE TEMP VIEW mine AS SELECT 1',
  "SELECT set_config('bytea_output', 'escape', false)",
  "SELECT set_config('synchronous_commit', 'off', false)",
  "SELECT set_config('statement_timeout', '1', false)",
  "SELECT set_config('role', 'pg_read_all_data', false)",
  'SELECT pg_advisory_lock(42)',
  `SELECT ${notes}_sneak('SET bytea_output = escape')`,
  `SELECT ${notes}_sneak('LISTEN somebody')`,
  `SELECT ${notes}_sneak('PREPARE mine AS SELECT 1')`,
  `SELECT ${notes}_sneak('DEALLOCATE ALL')`,
  `SELECT ${notes}_sneak('CREATE TEMP TABLE mine (id integer)')`,
  `SELECT ${notes}_sneak('DECLARE mine CURSOR WITH HOLD FOR SELECT 1')`,
  "DO $$ BEGIN SET bytea_output = 'escape'; END $$",
]

const settings = ['bytea_output', 'synchronous_commit', 'search_path', 'role', 'session_authorization', 'TimeZone']
const session = `SELECT ${settings.map((name) => `current_setting('${name}') AS "${name}"`).join(', ')},
  current_setting('default_transaction_read_only') AS read_only, current_setting('statement_timeout') AS timeout,
  (SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) AS locks,
  (SELECT count(*)::int FROM pg_listening_channels()) AS channels,
  (SELECT count(*)::int FROM pg_prepared_statements WHERE from_sql AND name <> 'reprise_rider') AS statements,
  (SELECT count(*)::int FROM pg_cursors WHERE is_holdable) AS cursors,
  (SELECT count(*)::int FROM pg_class WHERE relnamespace = pg_my_temp_schema()) AS temporary`

const look = async (kit: Kit, id: string) => {
  const other = await kit.create(id)
  const outcome = await other.commit({ userSql: (sql: Sql) => sql.get(session) })
  return (outcome as Outcome & { ok: true }).sqlResult
}

async function noteCount(note: string): Promise<number> {
  const rows = await query(shared, `SELECT count(*)::int AS count FROM ${notes} WHERE note = '${note}'`)
  return rows[0]!.count as number
}

describe('user SQL in a commit on PostgreSQL', () => {
  it.each([...endings, ...leaks])('G2: cannot break its commit or leave anything behind: %s', async (text) => {
    const kit = await openKit(`n${hash(new TextEncoder().encode(text)).slice(0, 6).join('')}`)
    const clean = await look(kit, 'before')
    const writer = await kit.create('a')
    for (const method of ['run', 'all', 'get'] as const) {
      for (const isCaught of [false, true]) {
        const note = `${method} ${isCaught} ${hash(new TextEncoder().encode(text)).slice(0, 6).join('')}`
        const before = await kit.head('a')
        const outcome = await writer.commit({
          run: writer.run('one'),
          userSql: async (sql) => {
            await sql.run(`INSERT INTO ${notes} (note) VALUES (?)`, note)
            const done = sql[method](text)
            await (isCaught ? done.catch(() => undefined) : done)
          },
        })
        const count = await noteCount(note)
        const head = await kit.head('a')
        // Both or neither, according to the outcome.
        expect([count, head.seq - before.seq]).toEqual(outcome.ok ? [1, 1] : [0, 0])
        if (!outcome.ok) {
          expect(outcome.code).toBe('RIDER_FAILED')
          expect(head).toEqual(before)
        }
        if (endings.includes(text) && !isCaught) expect(outcome.ok).toBe(false)
        expect(await look(kit, `after ${note}`)).toEqual(clean)
        await writer.append('more')
      }
    }
    // Bytes read in the sessions that user SQL had are unchanged.
    const [run] = await kit.store.read(writer.id, 0, 1e6)
    expect(run!.bytes.length).toBeGreaterThan(10)
    expect(await kit.store.upkeep.inspect()).toEqual([])
  })

  it('gets the refused statement before it is sent: the rest can continue', async () => {
    const kit = await openKit('told')
    const writer = await kit.create('a')
    const outcome = await writer.commit({
      userSql: async (sql) => {
        const errors: unknown[] = []
        for (const text of ['COMMIT', 'SET x = 1', 'begin', 'RESET ALL']) {
          await sql.run(text).catch((error) => errors.push(error))
        }
        await sql.run(`INSERT INTO ${notes} (note) VALUES ('told')`)
        return errors.map((error) => isReprise(error, 'SQL_REFUSED'))
      },
    })
    expect(outcome).toMatchObject({ ok: true, sqlResult: [true, true, true, true] })
    expect(await noteCount('told')).toBe(1)
  })

  it('has all of SQL besides: values and their types, rows, counts, definitions', async () => {
    const kit = await openKit('all')
    const writer = await kit.create('a')
    const table = `${notes}_all`
    const outcome = await writer.commit({
      userSql: async (sql) => {
        await sql.run(
          `CREATE TABLE ${table} (id integer PRIMARY KEY, at timestamptz, data jsonb, raw bytea, tags text[])`,
        )
        await sql.run(`CREATE INDEX ON ${table} (at)`)
        const values = [7, new Date(1000), { a: [1] }, new Uint8Array([1, 2, 255]), ['x', 'y']]
        const inserted = await sql.all(`INSERT INTO ${table} VALUES (?, ?, ?, ?, ?) RETURNING *`, ...values)
        const changes = (await sql.run(`UPDATE ${table} SET id = id + $1`, 1)).changes
        await sql.run(`ALTER TABLE ${table} ADD COLUMN note text DEFAULT 'x'`)
        const got = await sql.get(`-- which\n (SELECT id, note FROM ${table} WHERE id = $1)`, 8)
        const counted = await sql.all(`WITH x AS (SELECT count(*) AS n FROM ${table}) SELECT n FROM x`)
        const listed = await sql.all(`VALUES (1), (2)`)
        const none = await sql.get(`SELECT 1 FROM ${table} WHERE id = ?`, 1)
        const shown = await sql.get('SHOW server_version_num')
        const plan = await sql.all(`EXPLAIN SELECT 1`)
        await sql.run("SET LOCAL lock_timeout = '5s'")
        await sql.run(`DROP TABLE ${table}`)
        return { inserted, changes, got, counted, listed, none, isShown: Number(shown!.server_version_num) > 0, plan }
      },
    })
    expect(outcome).toMatchObject({
      ok: true,
      sqlResult: {
        inserted: [{ id: 7, at: new Date(1000), data: { a: [1] }, raw: Buffer.from([1, 2, 255]), tags: ['x', 'y'] }],
        changes: 1,
        got: { id: 8, note: 'x' },
        counted: [{ n: '1' }],
        listed: [{ column1: 1 }, { column1: 2 }],
        none: undefined,
        isShown: true,
      },
    })
  })

  it('locates a faulty statement, as the server counts it in the given text', async () => {
    const kit = await openKit('where')
    const writer = await kit.create('a')
    const refused = await writer.commit({ userSql: (sql) => sql.run('SELECT nothing_here FROM nowhere') })
    expect(refused).toMatchObject({ ok: false, code: 'RIDER_FAILED', cause: { code: '42P01', position: '26' } })
  })

  it('with another number of parameters than its statement has is RIDER_FAILED, and not a lost connection', async () => {
    const kit = await openKit('parameters')
    const writer = await kit.create('a')
    const refused = await writer.commit({
      run: writer.run('one'),
      userSql: (sql: Sql) => sql.run(`INSERT INTO ${notes} (id, note) VALUES (?, ?)`, 1),
    })
    expect(refused).toMatchObject({ ok: false, code: 'RIDER_FAILED', cause: { code: '08P01' } })
    await writer.append('one')
  })

  it('whose deferred constraint fails is RIDER_FAILED, and nothing is kept', async () => {
    const kit = await openKit('deferred')
    const writer = await kit.create('a')
    const table = `${notes}_deferred`
    const definition = `CREATE TABLE ${table} (id integer UNIQUE DEFERRABLE INITIALLY DEFERRED)`
    expect(await writer.commit({ userSql: (sql) => sql.run(definition) })).toMatchObject({ ok: true })
    const run = writer.run('one')
    const refused = await writer.commit({ run, userSql: (sql) => sql.run(`INSERT INTO ${table} VALUES (1), (1)`) })
    expect(refused).toMatchObject({ ok: false, code: 'RIDER_FAILED', cause: { code: '23505' } })
    expect((await kit.head('a')).seq).toBe(0)
    await query(shared, `DROP TABLE ${table}`)
  })
})
