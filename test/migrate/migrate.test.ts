// Migrations (C4): recorded, checksummed, resumed at the step that failed.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { migrations, type Step } from '../../src/layers/migrate/index.ts'
import { newSchemaName } from '../support/schema.ts'
import { onEveryStore } from '../support/worlds.ts'

onEveryStore(
  'migrations',
  (world) => {
    // Tables of the user lie beside ours: each test has names of its own.
    const table = () => `t_${newSchemaName()}`

    it('C4: apply each step once, and go on with the step that failed', async () => {
      const engine = await (await world()).engine()
      const name = table()
      let isBroken = true
      const ran: string[] = []
      const make = () =>
        migrations('schema', {
          steps: [
            { id: '001-create', sql: `CREATE TABLE ${name} (id INTEGER PRIMARY KEY); INSERT INTO ${name} VALUES (1)` },
            {
              id: '002-code',
              retry: { attempts: 1 },
              run: () => {
                ran.push('002')
                if (isBroken) throw new Error('the service is down')
              },
            },
            { id: '003-more', sql: `INSERT INTO ${name} VALUES (2)` },
          ],
        })
      await expect((await engine.run(make())).result()).rejects.toMatchObject({
        code: 'RUN_FAILED',
        data: { step: '002-code' },
      })
      isBroken = false
      const report = await (await engine.run(make())).result()
      expect(report).toMatchObject({ status: 'completed', before: 1, resumedAt: '002-code' })
      expect(report.applied.map((step) => step.id)).toEqual(['002-code', '003-more'])
      expect((await (await engine.run(make())).result()).applied).toEqual([])
      expect(ran).toEqual(['002', '002'])
    })

    it('apply a failing SQL step not at all: its statements and its record are one transaction', async () => {
      const engine = await (await world()).engine()
      const name = table()
      const make = (last: string) =>
        migrations('atomic', { steps: [{ id: '001', sql: `CREATE TABLE ${name} (id INTEGER); ${last}` }] })
      await expect((await engine.run(make('INSERT INTO nowhere VALUES (1)'))).result()).rejects.toMatchObject({
        code: 'RUN_FAILED',
      })
      // It would fail on the table if the first statement had stayed.
      expect((await (await engine.run(make(`INSERT INTO ${name} VALUES (1)`))).result()).applied).toHaveLength(1)
    })

    it('find drift before anything is done: a changed step, a missing one, one that comes too late', async () => {
      const engine = await (await world()).engine()
      const name = table()
      const one: Step = { id: '001-a', sql: `CREATE TABLE ${name} (id INTEGER)` }
      const three: Step = { id: '003-c', sql: `INSERT INTO ${name} VALUES (1)` }
      const run = async (steps: readonly Step[]) => (await engine.run(migrations('drift', { steps }))).result()
      await run([one, three])
      for (const steps of [
        [{ ...one, sql: `${one.sql} -- changed` }, three],
        [three],
        [one, { id: '002-b', sql: 'SELECT 1' }, three],
      ]) {
        await expect(run(steps)).rejects.toMatchObject({ code: 'MIGRATION_DRIFT' })
      }
      expect((await run([one, three, { id: '004-d', sql: `INSERT INTO ${name} VALUES (2)` }])).applied).toHaveLength(1)
    })

    it('report their work without doing it (dry run)', async () => {
      const engine = await (await world()).engine()
      const name = table()
      const make = () =>
        migrations('dry', { steps: [{ id: '001', sql: `CREATE TABLE ${name} (id INTEGER); SELECT 1` }] })
      const plan = await (await engine.run(make(), { dryRun: true })).result()
      expect(plan).toMatchObject({
        status: 'planned',
        applied: [],
        pending: [{ id: '001', sql: [`CREATE TABLE ${name} (id INTEGER)`, 'SELECT 1'] }],
      })
      expect(await engine.head('migrate/dry')).toBeNull()
      expect((await (await engine.run(make())).result()).applied).toHaveLength(1)
    })

    it('allow a long step to resume from its saved progress', async () => {
      const engine = await (await world()).engine()
      const seen: unknown[] = []
      const make = () =>
        migrations('long', {
          steps: [
            {
              id: '001-backfill',
              retry: { attempts: 1 },
              run: async (step) => {
                seen.push([step.attempt, step.saved])
                await step.save({ row: 500 })
                if (step.attempt === 1) throw new Error('interrupted')
              },
            },
          ],
        })
      await expect((await engine.run(make())).result()).rejects.toMatchObject({ code: 'RUN_FAILED' })
      await (await engine.run(make())).result()
      expect(seen).toEqual([
        [1, undefined],
        [2, { row: 500 }],
      ])
    })

    it('run once though two processes start them together', async () => {
      const at = await world()
      const engines = [await at.engine({ worker: 'a' }), await at.engine({ worker: 'b' })]
      const name = table()
      let calls = 0
      const make = () =>
        migrations('race', {
          steps: [
            { id: '001', sql: `CREATE TABLE ${name} (id INTEGER)` },
            {
              id: '002',
              run: () => {
                calls += 1
              },
            },
          ],
        })
      const reports = await Promise.all(engines.map(async (engine) => (await engine.run(make())).result()))
      expect(reports.map((report) => report.applied.length).sort()).toEqual([0, 2])
      expect(calls).toBe(1)
    })

    it('come from a folder of numbered files', async () => {
      const engine = await (await world()).engine()
      const name = table()
      const folder = mkdtempSync(join(tmpdir(), 'reprise-migrate-'))
      try {
        writeFileSync(join(folder, '001-table.sql'), `CREATE TABLE ${name} (id INTEGER);\n`)
        writeFileSync(
          join(folder, '002-code.mjs'),
          `export default (step) => step.commit((sql) => sql.run('INSERT INTO ${name} VALUES (7)'))\n`,
        )
        writeFileSync(join(folder, 'README.md'), 'not a step')
        const make = () => migrations('files', { folder })
        expect((await (await engine.run(make())).result()).applied.map((step) => step.id)).toEqual([
          '001-table',
          '002-code',
        ])
        writeFileSync(join(folder, '001-table.sql'), `CREATE TABLE ${name} (id BIGINT);\n`)
        await expect((await engine.run(make())).result()).rejects.toMatchObject({ code: 'MIGRATION_DRIFT' })
      } finally {
        rmSync(folder, { recursive: true, force: true })
      }
    })
  },
  ['sqlite', 'postgres'],
)

it('refuse steps without a number, out of order, or with both SQL and code', () => {
  const make = (steps: readonly Step[]) => () => migrations('bad', { steps })
  expect(make([{ id: 'first', sql: 'SELECT 1' }])).toThrow(/INVALID_ARGUMENT/)
  expect(
    make([
      { id: '2', sql: 'SELECT 1' },
      { id: '1', sql: 'SELECT 1' },
    ]),
  ).toThrow(/must come after/)
  // @ts-expect-error one of them
  expect(make([{ id: '1', sql: 'SELECT 1', run: () => 1 }])).toThrow(/either sql or run/)
})
