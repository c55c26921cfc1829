// rp.sql: the user's own tables, read through the store. Values are bound, names come from definitions, nothing is written.

import { expect, expectTypeOf, it } from 'vitest'
import type { Sql } from '../../src/core/store/ports.ts'
import { refuseWrites } from '../../src/core/store/read-only.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { timeline } from '../../src/index.ts'
import { aggregate, sqlProjection } from '../../src/layers/events/index.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })

const account = aggregate('account', {
  initial: () => 0,
  evolve: { deposited: (s, e: { amount: number }) => s + e.amount },
  decide: { deposit: (_s, c: { amount: number }) => ({ type: 'deposited', amount: c.amount }) },
})
let turn = 0
/** PostgreSQL's worlds share one database. */
const nameOf = () => `ledger_${process.pid}_${turn++}`

const ledgerInto = (name: string, version = 1) =>
  sqlProjection('ledger', {
    version,
    from: [account],
    setup: (sql, generation) => sql.run(`CREATE TABLE ${name}_${generation} (id TEXT, amount INTEGER)`),
    teardown: (sql, generation) => sql.run(`DROP TABLE ${name}_${generation}`),
    on: { deposited: (sql, e, at) => sql.run(`INSERT INTO ${name}_${at.generation} VALUES (?, ?)`, at.id, e.amount) },
  })

async function withRows(rp: Reprise) {
  const name = nameOf()
  const ledger = ledgerInto(name)
  for (const [id, amount] of [
    ['x', 1],
    ["y'; DROP TABLE a; --", 2],
    ['z', 3],
  ] as const) {
    await (await rp.open(account, id.replace(/\W/g, '-'))).do('deposit', { amount })
  }
  const p = await rp.open(ledger)
  await p.catchUp()
  return { name, ledger, p }
}

onEveryStore(
  'rp.sql',
  (world) => {
    it('reads the table of the live generation, with values bound, whatever is rebuilt meanwhile', async () => {
      const w = await world()
      const rp = await w.engine()
      const { name, ledger, p } = await withRows(rp)
      const table = ledger.table(name)
      const rows = await rp.sql<{
        id: string
        amount: number
      }>`SELECT id, amount FROM ${table} WHERE amount > ${1} ORDER BY amount`
      expectTypeOf(rows).toEqualTypeOf<{ id: string; amount: number }[]>()
      expect(rows.map(({ amount }) => Number(amount))).toEqual([2, 3])
      // Data stays data, whatever it contains.
      const evil = "x' OR '1' = '1"
      expect(await rp.sql`SELECT id FROM ${table} WHERE id = ${evil}`).toEqual([])
      expect(await rp.sql(`SELECT id FROM ${name}_1 WHERE id = ?`, ['x'])).toEqual([{ id: 'x' }])
      await p.rebuild()
      expect(await ledger.generation(rp)).toBe(2)
      expect(await rp.sql`SELECT count(*) AS n FROM ${table}`.then(([row]) => Number(row!.n))).toBe(3)
      await expect(rp.sql(`SELECT * FROM ${name}_1`)).rejects.toEqual(code('SQL_REFUSED'))
      // A process that does not hear of the rebuild, and may not write at all.
      const { store } = hostOf(await w.engine()).kernel
      const reader = await w.engine({ ports: { store: refuseWrites(store) } })
      expect(await reader.sql`SELECT id FROM ${table} WHERE amount = ${3}`).toEqual([{ id: 'z' }])
      for (const bad of ['a b', 'a"; DROP', '1a', '', 'a;b']) expect(() => ledger.table(bad)).toThrow(/name of a table/)
    })

    it('looks again where a generation was replaced between the look and the query', async () => {
      const w = await world()
      const rp = await w.engine()
      const { name, ledger, p } = await withRows(rp)
      const { store } = hostOf(rp).kernel
      const query = store.query!.bind(store)
      let isFirst = true
      store.query = async (asked) => {
        if (isFirst) {
          isFirst = false
          await p.rebuild()
        }
        return await query(asked)
      }
      expect(await rp.sql`SELECT id FROM ${ledger.table(name)} ORDER BY id`).toHaveLength(3)
    })

    it('writes nothing, names none of our tables, and takes one statement', async () => {
      const w = await world()
      const rp = await w.engine()
      const { name } = await withRows(rp)
      const table = `${name}_1`
      const refused = [
        `INSERT INTO ${table} VALUES ('a', 1)`,
        `DELETE FROM ${table}`,
        `WITH gone AS (SELECT 1) DELETE FROM ${table}`,
        `SELECT 1; DELETE FROM ${table}`,
        `SELECT 1; COMMIT; DELETE FROM ${table}`,
        'SELECT 1; SELECT 2',
        `SELECT 1; ROLLBACK; BEGIN; DELETE FROM ${table}; COMMIT`,
        'DROP TABLE x',
        'COMMIT',
        'PRAGMA query_only = 0',
        'SET transaction_read_only = off',
        `CREATE TABLE ${name}_more (a INTEGER)`,
        'SELECT * FROM no_such_table',
        'SELEC 1',
        '',
        ...(w.kind === 'sqlite' ? ['SELECT * FROM reprise_runs', 'SELECT * FROM "reprise_runs"'] : []),
        w.kind === 'sqlite'
          ? `ATTACH 'x.db' AS x`
          : `WITH gone AS (DELETE FROM ${table} RETURNING 1) SELECT * FROM gone`,
        ...(w.kind === 'postgres' ? [`SELECT set_config('transaction_read_only', 'off', false)`] : []),
      ]
      for (const text of refused) await expect(rp.sql(text), text).rejects.toEqual(code('SQL_REFUSED'))
      expect(await rp.sql(`SELECT count(*) AS n FROM ${table}`).then(([row]) => Number(row!.n))).toBe(3)
      if (w.kind === 'postgres') expect((await saidOfOurs(rp)).join()).toContain('belong to the store')
      // The engine continues as before.
      const counter = await rp.open(timeline('counter', { initial: () => 0, apply: (s: number) => s + 1 }), 'x')
      await counter.append({ type: 'added' })
      expect(counter.state).toBe(1)
      await expect(rp.sql('SELECT 1', 'x' as never)).rejects.toEqual(code('INVALID_ARGUMENT'))
    })

    it('returns up to the limit, never silently fewer, and does not wait forever', async () => {
      const w = await world()
      const rp = await w.engine({ limits: { sqlRows: 3, sqlMs: 200 } })
      const { ledger, name } = await withRows(rp)
      expect(await rp.sql`SELECT id FROM ${ledger.table(name)}`).toHaveLength(3)
      const four = 'SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4'
      await expect(rp.sql(four)).rejects.toEqual(code('LIMIT_EXCEEDED'))
      const endless = 'WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT n FROM t'
      const long = await w.engine({ limits: { sqlRows: 1e9, sqlMs: 200 } })
      await expect(long.sql(endless)).rejects.toEqual(code('TIMEOUT'))
    })

    it('sees a transaction of the projection whole or not at all', async () => {
      const w = await world()
      const rp = await w.engine()
      const { name, ledger } = await withRows(rp)
      let look: Promise<unknown[]> | null = null
      const userSql = async (sql: Sql) => {
        await sql.run(`INSERT INTO ${name}_1 VALUES ('half', 9)`)
        look = rp.sql`SELECT id FROM ${ledger.table(name)} WHERE id = 'half'`
        if (w.kind === 'postgres') await look
        await sql.run(`INSERT INTO ${name}_1 VALUES ('whole', 9)`)
      }
      const counter = timeline('counter', { initial: () => 0, apply: (s: number) => s })
      const open = await hostOf(rp).openTimeline('counter/y' as never, counter.fold)
      await open.write([{ type: 'a', data: {} }], { userSql })
      expect([0, 1]).toContain((await look!).length)
      expect(await rp.sql`SELECT id FROM ${ledger.table(name)} WHERE amount = ${9}`).toHaveLength(2)
    })
  },
  ['sqlite', 'postgres'],
)

onEveryStore(
  'rp.sql without SQL',
  (world) => {
    it('is refused', async () => {
      await expect((await (await world()).engine()).sql`SELECT 1`).rejects.toEqual(code('STORE_UNSUPPORTED'))
    })
  },
  ['memory'],
)

/** The answers to queries of tables named like ours, in every schema of the database. */
async function saidOfOurs(rp: Reprise): Promise<string[]> {
  const tables = await rp.sql<{ schema: string; name: string }>`
    SELECT table_schema AS schema, table_name AS name FROM information_schema.tables WHERE table_name LIKE '%timeline%'`
  const asked = tables.map(({ schema, name }) => rp.sql(`SELECT * FROM "${schema}"."${name}"`))
  const answers = await Promise.allSettled(asked)
  return answers.map((answer) => (answer.status === 'rejected' ? String(answer.reason.message) : 'given'))
}
