import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { temporaryFolder } from '../../../../test/support/fixture.ts'
import { isReprise } from '../../../core/errors.ts'
import type { Sql, Store } from '../../../core/store/ports.ts'
import { hash, Kit, type Writer } from '../../../testing/conformance/kit.ts'
import { openSqlite } from '../index.ts'
import { checkSqlText } from './sql-text.ts'

let folder: string
let store: Store
let kit: Kit
let writer: Writer

beforeEach(async () => {
  folder = temporaryFolder('rider')
  const open = () => openSqlite(join(folder, 'test.db'), { namespace: 'a', hash })
  store = await open()
  kit = new Kit(store, open, { sql: true })
  writer = await kit.create('a')
  await userSql((sql) => sql.run('CREATE TABLE notes (id INTEGER PRIMARY KEY, note TEXT NOT NULL)'))
  await userSql((sql) => sql.run("INSERT INTO notes VALUES (1, 'first')"))
})
afterEach(async () => {
  await store.close()
})

async function userSql<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
  const outcome = await writer.commit({ userSql: work })
  if (!outcome.ok) throw outcome.cause
  return outcome.sqlResult as T
}

const hostile = [
  'ROLLBACK',
  'COMMIT',
  'END',
  'END TRANSACTION',
  ' ; -- a comment\n /* another */ COMMIT',
  'BEGIN',
  'SAVEPOINT mine',
  'RELEASE reprise',
  'ROLLBACK TO reprise',
  'SELECT 1; COMMIT',
  "INSERT INTO notes (note) VALUES ('one;'); ROLLBACK",
  "ATTACH ':memory:' AS other",
  'DETACH main',
  'PRAGMA synchronous = OFF',
  'EXPLAIN PRAGMA synchronous = OFF',
  'PRAGMA user_version = 7',
  'VACUUM',
  "INSERT OR ROLLBACK INTO notes VALUES (1, 'again')",
  "UPDATE OR ROLLBACK notes SET id = 1 WHERE note <> 'first'",
  'CREATE TABLE other (id INTEGER PRIMARY KEY ON CONFLICT ROLLBACK)',
  "CREATE TRIGGER t BEFORE DELETE ON notes BEGIN SELECT RAISE(ROLLBACK, 'no'); END",
  'CREATE TEMP TABLE notes (id INTEGER)',
  'CREATE TEMPORARY VIEW mine AS SELECT 1',
  'CREATE TABLE temp.mine (id INTEGER)',
  'CREATE TRIGGER temp.mine AFTER INSERT ON main.notes BEGIN DELETE FROM notes; END',
]

describe('user SQL in a commit on SQLite', () => {
  for (const method of ['run', 'all', 'get'] as const) {
    it.each(hostile)(`G2: cannot break its commit or leave anything behind, by ${method}: %s`, async (text) => {
      for (const isCaught of [false, true]) {
        const before = await kit.head('a')
        const note = `${method} ${isCaught}`
        const outcome = await writer.commit({
          run: writer.run('one'),
          userSql: async (sql) => {
            await sql.run('INSERT INTO notes (note) VALUES (?)', note)
            const done = sql[method](text)
            await (isCaught ? done.catch(() => undefined) : done)
            await sql.run('INSERT INTO notes (note) VALUES (?)', `${note} after`).catch(() => undefined)
          },
        })
        const notes = await userSql((sql) => sql.all("SELECT note FROM main.notes WHERE note <> 'first' ORDER BY id"))
        const head = await kit.head('a')
        expect(notes).toEqual(outcome.ok ? [{ note }, { note: `${note} after` }] : [])
        expect(head.seq - before.seq).toBe(outcome.ok ? 1 : 0)
        if (!isCaught) expect(outcome).toMatchObject({ ok: false, code: 'RIDER_FAILED' })
        if (!outcome.ok) expect(isReprise(outcome.cause, 'SQL_REFUSED'), String(outcome.cause)).toBe(true)
        await userSql((sql) => sql.run("DELETE FROM notes WHERE note <> 'first'"))
        await writer.append('more')
      }
      expect(await userSql((sql) => sql.all('SELECT name FROM sqlite_temp_master'))).toEqual([])
      expect((await store.upkeep.facts()).durability).toEqual({ journal_mode: 'wal', synchronous: 'full' })
      expect(await store.upkeep.inspect()).toEqual([])
    })
  }

  it('G2: whose statement makes SQLite roll back by a rule of the schema is RIDER_FAILED; nothing is kept outside', async () => {
    // Another program created the table: the rule is already in the schema.
    const { loadDriver } = await import('../file/driver.ts')
    const other = (await loadDriver()).open(join(folder, 'test.db'), { isReadOnly: false })
    other.exec('CREATE TABLE strict (id INTEGER PRIMARY KEY ON CONFLICT ROLLBACK)')
    other.close()
    const beside = await kit.create('beside')
    const before = await kit.head('a')
    let calls = 0
    const outcomes = await store.commit([
      beside.plan({ run: beside.run('before') }),
      writer.plan({
        run: writer.run('one'),
        userSql: async (sql) => {
          calls += 1
          await sql.run('INSERT INTO strict VALUES (1)')
          await sql.run('INSERT INTO strict VALUES (1)').catch(() => undefined)
          await sql.run("INSERT INTO notes (note) VALUES ('outside')").catch(() => undefined)
        },
      }),
    ])
    expect(outcomes).toMatchObject([
      { ok: true, seq: 1 },
      { ok: false, code: 'RIDER_FAILED' },
    ])
    expect(calls).toBe(1)
    const failed = outcomes[1] as { cause: unknown }
    expect(isReprise(failed.cause, 'SQL_REFUSED')).toBe(true)
    expect(await kit.head('a')).toEqual(before)
    expect((await kit.head('beside')).seq).toBe(1)
    expect(await userSql((sql) => sql.all("SELECT note FROM notes WHERE note = 'outside'"))).toEqual([])
    await writer.append('more')
    expect(await store.upkeep.inspect()).toEqual([])
  })

  it('whose deferred constraint fails is RIDER_FAILED with the cause, and takes nothing with it', async () => {
    await userSql((sql) => sql.run('CREATE TABLE parts (whole REFERENCES notes (id) DEFERRABLE INITIALLY DEFERRED)'))
    const breaks = (sql: Sql) => sql.run('INSERT INTO parts VALUES (99)')
    const alone = await writer.commit({ run: writer.run('one'), userSql: breaks })
    expect(alone).toMatchObject({ ok: false, code: 'RIDER_FAILED', cause: expect.any(Error) })
    const others = await Promise.all([kit.create('b'), kit.create('c'), kit.create('d')])
    const rides = [(sql: Sql) => sql.run("INSERT INTO notes VALUES (2, 'kept')"), breaks, undefined]
    const outcomes = await store.commit(
      others.map((each, i) => ({
        operation: kit.operation(),
        guard: each.guard,
        run: each.run('two'),
        ...(rides[i] && { userSql: rides[i] }),
      })),
    )
    expect(outcomes.map((outcome) => outcome.ok)).toEqual([true, false, true])
    expect(outcomes[1]).toMatchObject({ code: 'RIDER_FAILED' })
    expect((await store.head(others.map(({ id }) => id))).map((head) => head!.seq)).toEqual([1, 0, 1])
    expect((await kit.head('a')).seq).toBe(0)
    expect(await userSql((sql) => sql.all('SELECT note FROM notes ORDER BY id'))).toEqual([
      { note: 'first' },
      { note: 'kept' },
    ])
    expect(await userSql((sql) => sql.all('SELECT * FROM parts'))).toEqual([])
  })

  it('accepts one statement per call, and refuses two', async () => {
    const two = "INSERT INTO notes (note) VALUES ('one'); INSERT INTO notes (note) VALUES ('two')"
    await expect(userSql((sql) => sql.run(two))).rejects.toMatchObject({ code: 'SQL_REFUSED' })
    expect(await userSql((sql) => sql.get('SELECT count(*) AS n FROM notes'))).toEqual({ n: 1 })
  })
})

describe('the text of user SQL', () => {
  it.each([
    'SELECT 1',
    'SELECT 1;',
    'SELECT 1 ; -- done',
    'SELECT \';\' || ";" || [a;b] || `c;d` /* ; */',
    'WITH x AS (SELECT 1) SELECT * FROM x',
    "INSERT INTO notes VALUES (1, 'ROLLBACK; COMMIT')",
    'CREATE TRIGGER t AFTER INSERT ON a BEGIN UPDATE a SET b = CASE WHEN 1 THEN 2 END; DELETE FROM c; END',
    'CREATE TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM c; END;',
    'EXPLAIN QUERY PLAN SELECT 1',
    'REPLACE INTO a VALUES (1)',
    'ANALYZE notes',
    'ALTER TABLE a RENAME TO b',
    'SELECT "rollback" FROM a',
  ])('may be %s', (text) => {
    expect(() => checkSqlText(text)).not.toThrow()
  })

  it.each([
    'SELECT 1; SELECT 2',
    'SELECT 1;;SELECT 2',
    'CREATE TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM c; END; DELETE FROM a',
    ';;commit',
    'explain query plan commit',
    'EXPLAIN EXPLAIN SELECT 1',
    'ANALYZE',
    'ANALYZE;',
    'anything else',
    '',
    '-- only a comment',
  ])('may not be %s', (text) => {
    expect(() => checkSqlText(text)).toThrow(expect.objectContaining({ code: 'SQL_REFUSED' }))
  })
})
