// The user's SQL in every layer that has some: it goes through the user SQL of the store, so it cannot end the transaction of
// its record.

import { expect, it } from 'vitest'
import { feedStart, type Sql } from '../../src/core/store/ports.ts'
import { aggregate, sqlProjection } from '../../src/layers/events/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { migrations } from '../../src/layers/migrate/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { hostOf } from '../support/host.ts'
import { newSchemaName } from '../support/schema.ts'
import { onEveryStore } from '../support/worlds.ts'

const account = aggregate('account', {
  initial: () => ({ total: 0 }),
  evolve: { deposited: (state, e: { amount: number }) => ({ total: state.total + e.amount }) },
  decide: { deposit: (_state, amount: number) => ({ type: 'deposited' as const, amount }) },
})

onEveryStore(
  'SQL of the user',
  (world) => {
    const table = () => `t_${newSchemaName()}`
    const endings = ['COMMIT', 'ROLLBACK', 'SELECT 1; COMMIT']

    it('G2: a workflow whose transaction executes COMMIT or ROLLBACK fails there, and nothing of that step is kept', async () => {
      const rp = await (await world()).engine()
      const name = table()
      const codes: unknown[] = []
      const pay = workflow('pay', async (ctx) => {
        await ctx.transaction('table', (db) => db.run(`CREATE TABLE ${name} (id INTEGER)`))
        for (const [i, text] of endings.entries()) {
          const step = async (db: Sql) => {
            await db.run(`INSERT INTO ${name} VALUES (${i})`)
            await db.run(text).catch((error) => {
              codes.push(error.code)
              throw error
            })
          }
          await ctx.transaction(`step ${i}`, step, { retry: { attempts: 1 } }).catch(() => undefined)
        }
        const rows = await ctx.transaction('left', (db) => db.all(`SELECT id FROM ${name}`))
        await ctx.transaction('drop', (db) => db.run(`DROP TABLE ${name}`))
        return rows
      })
      expect(await (await rp.run(pay, { id: 'one' })).result()).toEqual([])
      // PostgreSQL itself refuses the one with two statements.
      expect(codes.slice(0, 2)).toEqual(['SQL_REFUSED', 'SQL_REFUSED'])
      expect(codes).toHaveLength(3)
      expect(await rp.verify()).toMatchObject({ ok: true })
    })

    it('G2: a migration whose SQL executes COMMIT is not recorded as applied, and did nothing', async () => {
      const rp = await (await world()).engine()
      const name = table()
      const schema = migrations('schema', {
        steps: [{ id: '001-all', sql: `CREATE TABLE ${name} (id INTEGER); COMMIT; INSERT INTO ${name} VALUES (1)` }],
      })
      await expect((await rp.run(schema)).result()).rejects.toMatchObject({
        code: 'RUN_FAILED',
        cause: { code: 'SQL_REFUSED' },
      })
      const fixed = migrations('schema', { steps: [{ id: '001-all', sql: `CREATE TABLE ${name} (id INTEGER)` }] })
      expect(await (await rp.run(fixed)).result()).toMatchObject({ status: 'completed' })
    })

    it('G2: an item of a job whose SQL executes ROLLBACK is not done', async () => {
      const rp = await (await world()).engine()
      const items = job('items', {
        source: ['a'],
        retry: { attempts: 1 },
        each: (_: string, context) => context.commit((sql) => sql.run('ROLLBACK')),
      })
      expect(await (await rp.run(items)).result()).toMatchObject({ done: 0, failed: 1 })
    })

    it('G2: a projection whose SQL executes ROLLBACK does not move its cursor past the event', async () => {
      const rp = await (await world()).engine()
      await (await rp.open(account, 'ann')).do('deposit', 5)
      const seen: unknown[] = []
      const ledger = sqlProjection('ledger', {
        from: [account],
        poison: 'stop',
        on: {
          deposited: async (sql) => {
            await sql.run('ROLLBACK').catch((error) => {
              seen.push(error.code)
              throw error
            })
          },
        },
      })
      const opened = await rp.open(ledger)
      await opened.catchUp().catch(() => undefined)
      expect(seen).toContain('SQL_REFUSED')
      const cursors = await hostOf(rp).kernel.store.cursors()
      expect(cursors.map(({ position }) => position)).toEqual([feedStart])
    })
  },
  ['sqlite', 'postgres'],
)
