// Examples of `reprise/migrate`.

import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { GiveUp, migrateFold, migrateKind, migrations, RetryLater, splitSql, stepsFrom } from 'reprise/migrate'
import { example } from './example.ts'

export default [
  example(
    [
      'migrations',
      'MigrateRun.started',
      'MigrateRun.result',
      'MigrateRun.watch',
      'StepContext.save',
      'StepContext.commit',
    ],
    async (rp) => {
      const schema = migrations('schema', {
        steps: [
          { id: '001-users', sql: 'CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT)' },
          {
            id: '002-backfill',
            run: async (step) => {
              await step.save({ next: 100 })
              step.commit((sql) => sql.run('INSERT INTO users VALUES (?, ?)', 1, 'Ann'))
            },
          },
        ],
      })
      const run = await rp.run(schema).started()
      const stop = run.watch(({ step, state }) => console.assert(step !== '' && state !== 'failed'))
      assert.equal((await run.result()).applied.length, 2)
      stop()
    },
    'sqlite',
  ),
  example(
    ['stepsFrom', 'splitSql', 'MigrateRun.status', 'MigrateRun.stop'],
    async (rp, folder) => {
      mkdirSync(join(folder, 'steps'))
      writeFileSync(
        join(folder, 'steps/001-users.sql'),
        "CREATE TABLE users (name TEXT); INSERT INTO users VALUES (';')",
      )
      const [step] = stepsFrom(join(folder, 'steps'))
      assert.equal(splitSql(step!.sql!).length, 2)
      const run = await rp.run(migrations('schema', { folder: join(folder, 'steps') }))
      await run.result()
      assert.equal((await run.stop()).pending.length, 0)
      assert.equal(run.status().status, 'completed')
    },
    'sqlite',
  ),
  example(
    ['RetryLater', 'GiveUp'],
    async (rp) => {
      const steps = [
        {
          id: '001-index',
          run: ({ attempt }: { attempt: number }) => {
            if (attempt === 1) throw new RetryLater('1ms', 'another index is being built')
            if (attempt > 5) throw new GiveUp('it is still locked')
          },
        },
      ]
      assert.equal((await rp.run(migrations('indexes', { steps })).result()).status, 'completed')
    },
    'sqlite',
  ),
  example(['migrateKind', 'migrateFold'], async (rp) => {
    // Lets tools read migrations whose definition is not loaded.
    rp.declare(migrateKind)
    console.assert(migrateFold.version !== '')
  }),
]
