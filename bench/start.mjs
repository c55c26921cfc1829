// The time from `rp.run` in one process to the first step in another, which executes the run: idle, and while that process
// executes runs of its own; beside queues on the same server whose job is executed by another process as well.

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { open } from '../dist/index.js'
import { workflow } from '../dist/layers/workflow/index.js'
import { median } from './measure.mjs'
import { benchPostgres, temporaryFolder } from './support/stores.mjs'
import { queues } from './support/within-peers.mjs'

const scale = Number(process.env.REPRISE_BENCH_SCALE ?? 1)
const times = (count) => Math.max(1, Math.round(count * scale))
const worker = fileURLToPath(new URL('support/start-worker.mjs', import.meta.url))
/** Started here, never executed here: the other process has the same definition. */
const order = workflow('order', async () => undefined)

/** Another process that executes what this one starts. Null: the queue is not installed. */
async function startWorker(...args) {
  const child = fork(worker, args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  const waiting = new Map()
  const ready = new Promise((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`the other process ended with ${code}`)))
    child.on('message', ({ ready: isReady, began, at }) =>
      began === undefined ? resolve(isReady) : waiting.get(began)?.(at),
    )
  })
  const stop = async () => {
    child.send('stop')
    await once(child, 'exit')
  }
  const isReady = await ready
  return { isReady, stop, began: (id) => new Promise((resolve) => waiting.set(id, resolve)) }
}

/** In ms, one start after another. `start(id)` resolves when the start is durable. */
async function latencies(other, start) {
  const waits = []
  let number = 0
  const one = async () => {
    const id = `s${process.pid}-${Date.now()}-${number++}`
    const begun = other.began(id)
    const from = performance.timeOrigin + performance.now()
    await start(id)
    return (await begun) - from
  }
  for (let i = 0; i < times(10); i++) await one()
  for (let i = 0; i < times(100); i++) waits.push(await one())
  waits.sort((a, b) => a - b)
  return { p50: median(waits), p99: waits[Math.floor(waits.length * 0.99)] }
}

/** By Reprise on a store. */
async function ours(url, isLoaded) {
  const other = await startWorker('reprise', url, ...(isLoaded ? ['loaded'] : []))
  const rp = await open(url)
  try {
    return await latencies(other, (id) => rp.run(order, id, { id, here: false }))
  } finally {
    await other.stop()
    await rp.close()
  }
}

/** By another queue on the same server. Null: it is not installed. */
async function theirs(name, url) {
  const queue = await queues[name](url, null)
  if (!queue) return null
  const { default: pg } = await import('pg')
  const client = new pg.Client(url)
  await client.connect()
  const other = await startWorker(name, url)
  try {
    return await latencies(other, (id) => queue.start(client, id))
  } finally {
    await other.stop()
    await client.end()
    await queue.stop()
  }
}

async function onSqlite(isLoaded) {
  const place = temporaryFolder()
  try {
    const { p50, p99 } = await ours(`sqlite:${place.path('ours.db')}`, isLoaded)
    return { value: p50, details: { p99 } }
  } finally {
    place.remove()
  }
}

async function onPostgres(isLoaded, name) {
  const server = await benchPostgres()
  if (!server.url) return { skip: 'there is no PostgreSQL' }
  try {
    const other = name ? await theirs(name, server.url) : undefined
    if (other === null) return { skip: `${name} is not installed` }
    const { p50, p99 } = await ours(server.url, isLoaded)
    if (!other) return { value: p50, details: { p99 } }
    return { value: p50, baseline: other.p50, details: { p99, theirP99: other.p99 } }
  } finally {
    await server.stop()
  }
}

const loaded = 'the executing process executes eight runs of its own at a time'

export default [
  { name: 'start-to-first-step-sqlite', unit: 'ms', note: 'median, idle', run: () => onSqlite(false) },
  { name: 'start-to-first-step-sqlite-loaded', unit: 'ms', note: loaded, run: () => onSqlite(true) },
  { name: 'start-to-first-step-postgres', unit: 'ms', note: 'median, idle', run: () => onPostgres(false) },
  { name: 'start-to-first-step-postgres-loaded', unit: 'ms', note: loaded, run: () => onPostgres(true) },
  ...Object.keys(queues).map((name) => ({
    name: `start-to-first-step-versus-${name}`,
    unit: 'ms',
    note: `idle; the baseline is ${name} on the same server, with its shortest polling`,
    run: () => onPostgres(false, name),
  })),
]
