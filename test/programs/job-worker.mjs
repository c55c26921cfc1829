// A process on a job that is killed from outside. Every start of an item is one line in a file outside the store,
// and one with its key in another.
// node job-worker.mjs URL NAMESPACE JOB ITEMS SHARDS CONCURRENCY LEDGER [POISON]

import { openSync, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { open } from '../../lib/index.js'
import { job } from '../../lib/layers/job/index.js'

const [url, namespace, name, items, shards, concurrency, ledger, poison] = process.argv.slice(2)
const file = openSync(ledger, 'a')
const calls = openSync(`${ledger}.calls`, 'a')

const work = job(name, {
  source: (cursor = 0) => {
    const at = Number(cursor)
    const keys = Array.from({ length: Math.min(250, Number(items) - at) }, (_, i) => `item-${at + i}`)
    return { items: keys, next: at + 250 < Number(items) ? at + 250 : null, total: Number(items) }
  },
  shards: Number(shards),
  concurrency: Number(concurrency),
  retry: { attempts: 3, backoff: 1 },
  crashesMax: poison ? 3 : 1000,
  each: async (key, ctx) => {
    writeSync(file, `${key}\n`)
    writeSync(calls, `${ctx.idempotencyKey} ${key}\n`)
    if (key === poison) process.kill(process.pid, 'SIGKILL')
    await sleep(Math.random() * 2)
  },
})

const rp = await open(url, { namespace, lease: '3s' })
const report = await (await rp.run(work)).result()
await rp.close()
process.stdout.write(JSON.stringify(report))
