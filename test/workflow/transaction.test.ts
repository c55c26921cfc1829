// ctx.transaction: the user's SQL and the step's entry commit together, or neither does.

import { expect, it } from 'vitest'
import type { Sql } from '../../src/core/store/ports.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { newSchemaName } from '../support/schema.ts'
import { onEveryStore } from '../support/worlds.ts'

onEveryStore(
  'a transaction in a workflow',
  (world) => {
    const create = async (db: Sql) => {
      await db.run('CREATE TABLE IF NOT EXISTS ledger (id TEXT PRIMARY KEY, cents INTEGER)')
    }

    it('commits with its entry, returns the result of the SQL, and happens once', async () => {
      const place = await world()
      const rp = await place.engine()
      const pay = workflow('pay', async (ctx, cents: number) => {
        if (ctx.id === 'one') await ctx.transaction('gone', (db) => db.run('DROP TABLE IF EXISTS ledger'))
        await ctx.transaction('table', create)
        const { changes } = await ctx.transaction('ledger', (db, { key }) => {
          return db.run('INSERT INTO ledger VALUES (?, ?)', key, cents)
        })
        const rows = await ctx.transaction('read', (db) => db.all('SELECT cents FROM ledger ORDER BY cents'))
        await ctx.signal('go')
        const left = await ctx.transaction('left', (db) => db.all('SELECT COUNT(*) AS n FROM workflow_results'))
        return { changes, rows: rows.map((row) => Number(row.cents)), left: left.length }
      })
      const one = await rp.run(pay, 5, { id: 'one' })
      await one.signal('go')
      expect(await one.result()).toEqual({ changes: 1, rows: [5], left: 1 })
      const two = await rp.run(pay, 7, { id: 'two' })
      await rp.close()
      const later = await place.engine()
      const again = await later.run(pay, 7, { id: 'two' })
      await again.signal('go')
      expect(await again.result()).toEqual({ changes: 1, rows: [5, 7], left: 1 })
      expect(two.id).toBe('two')
    })

    it('keeps its result if the SQL changes the search path, and names the first error of SQL that catches it', async () => {
      const place = await world()
      if (place.kind !== 'postgres') return
      const rp = await place.engine()
      const tenant = newSchemaName()
      const paths = [
        `SET LOCAL search_path = ${tenant}`,
        `SELECT set_config('search_path', '${tenant}', true)`,
        `SET LOCAL "search_path" TO ${tenant}`,
      ]
      const pay = workflow('pay', async (ctx) => {
        await ctx.transaction('schema', async (db) => void (await db.run(`CREATE SCHEMA ${tenant}`)))
        await ctx.transaction(
          'table',
          async (db) => void (await db.run(`CREATE TABLE ${tenant}.notes (id int PRIMARY KEY)`)),
        )
        const results: unknown[] = []
        for (const [id, path] of paths.entries())
          results.push(
            await ctx.transaction(
              `tenant ${id}`,
              async (db) => {
                await db.run(path)
                return await db.all('INSERT INTO notes VALUES (?) RETURNING id', id)
              },
              { retry: { attempts: 1 } },
            ),
          )
        const caught = ctx.transaction(
          'caught',
          async (db) => {
            await db.run(`INSERT INTO ${tenant}.notes VALUES (0)`).catch(() => undefined)
            return 'no error'
          },
          { retry: { attempts: 1 } },
        )
        results.push(await caught.catch((error: Error) => error.message))
        await ctx.transaction('drop', async (db) => void (await db.run(`DROP SCHEMA ${tenant} CASCADE`)))
        return results
      })
      const results = await (await rp.run(pay, { id: 'one' })).result()
      expect(results).toEqual([
        [{ id: 0 }],
        [{ id: 1 }],
        [{ id: 2 }],
        expect.stringMatching(/earlier statement .*notes_pkey/),
      ])
      expect(String(results.at(-1))).not.toContain('workflow_results')
    })

    it('leaves no trace of SQL that fails, and is retried and undone like any step', async () => {
      const rp = await (await world()).engine()
      let tries = 0
      const pay = workflow('pay', async (ctx) => {
        await ctx.transaction('gone', (db) => db.run('DROP TABLE IF EXISTS ledger'))
        await ctx.transaction('table', create)
        await ctx.transaction('first', (db) => db.run("INSERT INTO ledger VALUES ('a', 1)"), {
          compensate: () => undefined,
        })
        const outcome = await ctx
          .transaction(
            'second',
            async (db) => {
              tries += 1
              await db.run("INSERT INTO ledger VALUES ('b', 2)")
              await db.run("INSERT INTO ledger VALUES ('a', 3)")
            },
            { retry: { attempts: 2, backoff: 10 } },
          )
          .catch((error: Error) => `failed: ${error.name}`)
        const rows = await ctx.transaction('read', (db) => db.all('SELECT id FROM ledger'))
        return { outcome: typeof outcome, rows }
      })
      expect(await (await rp.run(pay)).result()).toEqual({ outcome: 'string', rows: [{ id: 'a' }] })
      expect(tries).toBe(2)
    })
  },
  ['sqlite', 'postgres'],
)
