// npm run soak -- [--for 1h] [--store sqlite|postgres] [--rate 10]: orders come at a steady rate, one of two workers is
// killed with SIGKILL again and again, connections are cut (PostgreSQL) or the file is locked for a second (SQLite), ended
// runs expire and everything is collected. An audit from outside counts what was booked: once per order, and what was
// acknowledged in a table is there. What lasts must stay flat: memory and file descriptors of the worker that is never
// killed, the bytes of the store, the time an order takes. The last quarter is compared with the second one (in the first the
// store fills). Growth beyond the bound, a lost or a doubled order ends it with 1.

import { fork } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { benchPostgres, loadSqlite } from '../../bench/support/stores.mjs'
import { toMs } from '../../dist/core/duration.js'
import { open } from '../../dist/index.js'
import { ledger, order, prepare } from './model.mjs'

const { values } = parseArgs({
  options: {
    for: { type: 'string', default: '1h' },
    store: { type: 'string', default: 'sqlite' },
    rate: { type: 'string', default: '10' },
  },
})
const forMs = toMs(values.for, '--for')
const sampleMs = Math.max(1000, Math.min(10_000, forMs / 60))
const world = values.store === 'postgres' ? await postgresWorld() : await sqliteWorld()
const rp = await open(world.url, { housekeeping: false })
await (await rp.run(prepare)).result()
let rows = await rp.open(ledger)

/** Growth of the last quarter over the second one that is allowed. */
const bounds = { steadyMb: 1.25, ownMb: 1.25, descriptors: 1.15, storeMb: 1.3, bloatRows: 1.5, orderMs: 1.5 }
const samples = []
const waits = []
const seen = { started: 0, done: 0, booked: 0, doubled: 0, kills: 0, faults: 0, refused: 0, fenced: 0, ledgerLost: 0 }
const open_ = new Set()
const acknowledged = new Map()
const ended = new Set()
// The first failure ends it.
let end = Date.now() + forMs

const steady = startWorker()
let mortal = startWorker()
const failures = []
await Promise.all(
  [orders(), keepLedger(), killing(), faults(), collecting(), sampling()].map((each) => each.catch(fail)),
)
const lastChance = Date.now() + 180_000
while (open_.size > 0 && Date.now() < lastChance) await pause(200)
await audit()
const lost = [...ended]
await rows.close()
const after = await rp.open(ledger)
for (const [key, n] of acknowledged) if ((after.get(key)?.n ?? -1) < n) seen.ledgerLost += 1
await after.close()
const { faults: damage } = await rp.verify()
for (const worker of [steady, mortal]) worker.kill('SIGKILL')
await rp.close()
await world.stop()
report()

function startWorker() {
  const worker = fork(fileURLToPath(new URL('worker.mjs', import.meta.url)), [world.url])
  worker.on('exit', (code) => {
    if (code !== null && code !== 0) failures.push(`a worker ended with ${code}`)
  })
  return worker
}

function fail(error) {
  failures.push(error?.stack ?? String(error))
  end = 0
}

async function orders() {
  const everyMs = 1000 / Number(values.rate)
  for (let n = 0, due = Date.now(); Date.now() < end; n++, due += everyMs) {
    await pause(Math.max(0, due - Date.now()))
    if (open_.size > 2000) continue
    oneOrder(`o${n}`, n % 10 === 0).catch(fail)
  }
}

async function oneOrder(id, isAsked) {
  open_.add(id)
  const started = performance.now()
  const input = { id, isAsked }
  // The store may be away for a moment: an order that has an id can be asked for again.
  const run = await again(() => rp.run(order, input, { id, here: false }))
  seen.started += 1
  if (isAsked) await again(() => run.signal('go', true, { key: 'go' }))
  await again(() => run.result())
  seen.done += 1
  ended.add(id)
  open_.delete(id)
  waits.push(performance.now() - started)
}

async function again(work) {
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (!['OUTCOME_UNKNOWN', 'STORE_UNREACHABLE', 'BUSY', 'TIMEOUT'].includes(error.code)) throw error
      seen.refused += 1
      await pause(200)
    }
  }
}

async function keepLedger() {
  for (let n = 0; Date.now() < end; n++) {
    const key = `k${n % 500}`
    await again(() => setRow(key, { n, text: 'y'.repeat(100) }))
    acknowledged.set(key, n)
    await pause(20)
  }
}

/** A process that got no time for long is declared dead, and has to open what it owned anew. */
async function setRow(key, row) {
  try {
    await rows.set(key, row)
  } catch (error) {
    if (error.code !== 'FENCED') throw error
    seen.fenced += 1
    rows = await rp.open(ledger)
    await rows.set(key, row)
  }
}

async function killing() {
  while (Date.now() < end) {
    await pause(15_000 + Math.random() * 15_000)
    mortal.kill('SIGKILL')
    seen.kills += 1
    mortal = startWorker()
  }
}

async function faults() {
  while (Date.now() < end) {
    await pause(15_000 + Math.random() * 10_000)
    await world.fault()
    seen.faults += 1
  }
}

async function collecting() {
  while (Date.now() < end) {
    await pause(Math.min(60_000, forMs / 10))
    await again(() => rp.collect())
    await audit()
  }
}

/** What was booked by orders that have ended: once each. Then it goes, as an application would do it. */
async function audit() {
  const due = [...ended]
  for (let from = 0; from < due.length; from += 500) {
    const ids = due.slice(from, from + 500)
    const counts = await world.booked(ids)
    for (const id of ids) {
      const count = counts.get(id) ?? 0
      if (count > 1) seen.doubled += 1
      if (count >= 1) {
        seen.booked += 1
        ended.delete(id)
      }
    }
    await world.forget(ids)
  }
}

async function sampling() {
  while (Date.now() < end) {
    await pause(sampleMs)
    const store = await world.size()
    const orderMs = median(waits.splice(0))
    samples.push({
      steadyMb: residentMb(steady.pid),
      ownMb: residentMb(process.pid),
      descriptors: readdirSync(`/proc/${steady.pid}/fd`).length,
      ...store,
      orderMs,
    })
    if (samples.length % 6 === 0) console.log(JSON.stringify({ ...samples.at(-1), ...seen, open: open_.size }))
  }
}

function residentMb(pid) {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) / 1024
}

function median(numbers) {
  return numbers.length === 0 ? null : [...numbers].sort((a, b) => a - b)[numbers.length >> 1]
}

function report() {
  const quarter = Math.floor(samples.length / 4)
  let isFlat = true
  console.log(`\n${values.store}, ${values.for}, ${values.rate} orders/s\n`)
  console.log('| what | second quarter | last quarter | growth | bound |\n|---|---|---|---|---|')
  for (const [what, bound] of Object.entries(bounds)) {
    const of = (from, to) => median(samples.slice(from, to).flatMap((each) => each[what] ?? []))
    const [before, now] = [of(quarter, 2 * quarter), of(3 * quarter)]
    if (before === null || now === null) continue
    // A handful is no trend.
    const growth = now / Math.max(before, 1)
    if (growth > bound && now - before > 5) isFlat = false
    console.log(`| ${what} | ${before.toFixed(1)} | ${now.toFixed(1)} | ${growth.toFixed(2)} | ${bound} |`)
  }
  const isSound = seen.doubled + lost.length + seen.ledgerLost + damage.length + open_.size + failures.length === 0
  console.log(`\n${JSON.stringify({ ...seen, lost: lost.length, unfinished: open_.size, damage: damage.length })}`)
  for (const each of failures.slice(0, 10)) console.log(each)
  console.log(
    isSound && isFlat
      ? 'nothing lost, nothing doubled, flat'
      : `${isSound ? 'sound' : 'NOT SOUND'}, ${isFlat ? 'flat' : 'NOT FLAT'}`,
  )
  process.exit(isSound && isFlat ? 0 : 1)
}

async function sqliteWorld() {
  const { DatabaseSync } = await loadSqlite()
  const folder = mkdtempSync(join(tmpdir(), 'reprise-soak-'))
  const path = join(folder, 'soak.db')
  const bytes = (name) => statSync(name, { throwIfNoEntry: false })?.size ?? 0
  let bare = null
  const db = () => {
    bare ??= new DatabaseSync(path)
    bare.exec('PRAGMA busy_timeout = 20000')
    return bare
  }
  return {
    url: `sqlite:${path}`,
    size: async () => {
      const { page_count: pages } = db().prepare('PRAGMA page_count').get()
      const { freelist_count: free } = db().prepare('PRAGMA freelist_count').get()
      const { page_size: size } = db().prepare('PRAGMA page_size').get()
      return { storeMb: (pages * size + bytes(`${path}-wal`)) / 2 ** 20, usedMb: ((pages - free) * size) / 2 ** 20 }
    },
    booked: async (ids) => {
      const marks = ids.map(() => '?').join(', ')
      const found = db()
        .prepare(`SELECT id, count(*) AS n FROM soak_booked WHERE id IN (${marks}) GROUP BY id`)
        .all(...ids)
      return new Map(found.map(({ id, n }) => [id, n]))
    },
    forget: async (ids) => {
      db()
        .prepare(`DELETE FROM soak_booked WHERE id IN (${ids.map(() => '?').join(', ')})`)
        .run(...ids)
    },
    fault: async () => {
      db().exec('BEGIN IMMEDIATE')
      await pause(1000)
      db().exec('COMMIT')
    },
    stop: async () => {
      bare?.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

async function postgresWorld() {
  const server = await benchPostgres()
  const { default: pg } = await import('pg')
  const url = new URL(server.url)
  url.searchParams.set('schema', 'soak')
  const client = new pg.Pool({ connectionString: server.url, max: 1 })
  client.on('error', () => {})
  const ask = async (text, values_) => (await client.query(text, values_)).rows
  return {
    url: url.href,
    size: async () => {
      const [{ bytes, dead }] = await ask(
        `SELECT sum(pg_total_relation_size(relid))::float8 AS bytes, sum(n_dead_tup)::float8 AS dead
           FROM pg_stat_user_tables WHERE schemaname = 'soak'`,
      )
      return { storeMb: bytes / 2 ** 20, bloatRows: dead }
    },
    booked: async (ids) => {
      const found = await ask('SELECT id, count(*)::int AS n FROM soak_booked WHERE id = ANY($1) GROUP BY id', [ids])
      return new Map(found.map(({ id, n }) => [id, n]))
    },
    forget: async (ids) => {
      await ask('DELETE FROM soak_booked WHERE id = ANY($1)', [ids])
    },
    fault: async () => {
      await ask(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                  WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' AND random() < 0.5`)
    },
    stop: async () => {
      await client.end()
      await server.stop()
    },
  }
}
