// Queues that start jobs in a transaction of the application, as their documentation shows: npm install in bench/versus. Null if
// not installed.

import { load } from './peers.mjs'

export const queues = { 'pg-boss': pgBoss, 'graphile-worker': graphileWorker }

/** `begun(id)` is called when a job of that id starts; null: only starts jobs. Its shortest polling is half a second. */
async function pgBoss(url, begun) {
  const loaded = await load('pg-boss')
  if (!loaded) return null
  const { PgBoss = loaded.default } = loaded
  const boss = new PgBoss({ connectionString: url })
  boss.on('error', console.error)
  await boss.start()
  await boss.createQueue('order')
  if (begun) await boss.work('order', { pollingIntervalSeconds: 0.5 }, async ([job]) => begun(job.data.id))
  return {
    async start(client, id) {
      const db = { executeSql: (text, values) => client.query(text, values) }
      await boss.send('order', { id }, { db })
    },
    stop: () => boss.stop({ graceful: false }),
  }
}

async function graphileWorker(url, begun) {
  const loaded = await load('graphile-worker')
  if (!loaded) return null
  const { run, Logger } = loaded
  const logger = new Logger(() => () => undefined)
  const taskList = { order: async ({ id }) => begun(id) }
  const runner =
    begun && (await run({ connectionString: url, concurrency: 1, noHandleSignals: true, logger, taskList }))
  return {
    start: (client, id) => client.query(`SELECT graphile_worker.add_job('order', $1::json)`, [JSON.stringify({ id })]),
    stop: async () => await runner?.stop(),
  }
}
