// OpenWorkflow on SQLite: its own store with its own settings. On a Node without node:sqlite it uses the driver that Reprise
// uses there, which has the same interface.

import { createRequire } from 'node:module'
import { join } from 'node:path'
import { OpenWorkflow } from 'openworkflow'
import { BackendSqlite } from 'openworkflow/sqlite'

export async function openPeer(folder) {
  const backend = await openBackend(join(folder, 'openworkflow.db'))
  const ow = new OpenWorkflow({ backend })
  const three = ow.defineWorkflow({ name: 'three' }, async ({ input, step }) => {
    const a = await step.run({ name: 'a' }, () => input + 1)
    const b = await step.run({ name: 'b' }, () => a + 1)
    return await step.run({ name: 'c' }, () => b + 1)
  })
  const steps = ow.defineWorkflow({ name: 'steps' }, async ({ input, step }) => {
    for (let i = 0; i < input; i++) await step.run({ name: `s${i}` }, () => i)
    return input
  })
  const worker = ow.newWorker({ concurrency: 100 })
  await worker.start()
  return {
    async runsThreeSteps(count) {
      await Promise.all(
        Array.from({ length: count }, async (_, i) => {
          const result = await (await three.run(i)).result()
          if (result !== i + 3) throw new Error(`run ${i} gave ${result}`)
        }),
      )
    },
    async stepsSequential(count) {
      await (await steps.run(count)).result()
    },
    async close() {
      await worker.stop()
      await backend.stop()
    },
  }
}

async function openBackend(path) {
  const [major, minor] = process.versions.node.split('.').map(Number)
  if (major > 22 || (major === 22 && minor >= 13)) return BackendSqlite.connect(path)
  const require = createRequire(import.meta.url)
  const { migrate } = await import(join(require.resolve('openworkflow'), '../sqlite/sqlite.js'))
  const { DatabaseSync } = await import('@photostructure/sqlite')
  const db = new DatabaseSync(path)
  db.exec('PRAGMA journal_mode = WAL; PRAGMA foreign_keys = ON;')
  migrate(db)
  return new BackendSqlite(db, 'default')
}
