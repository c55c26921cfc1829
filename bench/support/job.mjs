// Runs one measurement of the job suite in a process of its own, so that memory and caches of one do not affect the next. Its
// arguments name the measurement; it prints one line of JSON.

import { spawnSync } from 'node:child_process'
import { closeSync, fsyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const self = fileURLToPath(import.meta.url)

/** @example measure('items', { count: 1000 }).perSecond */
export function measure(what, options = {}) {
  const run = spawnSync(process.execPath, ['--expose-gc', self, what, JSON.stringify(options)], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    maxBuffer: 1 << 26,
  })
  if (run.status !== 0) throw new Error(`${what} ended with ${run.signal ?? run.status}`)
  return JSON.parse(run.stdout)
}

const keyOf = (i) => `10.1000/item-${i}`

function* keys(count) {
  for (let i = 0; i < count; i++) yield keyOf(i)
}

const works = {
  /** Trivial items through a job, 1,000 in flight, since the bare inserts use transactions of 1,000. */
  async items({ count, folder }) {
    const { rp, trivial } = await openJob(folder)
    const startedAt = performance.now()
    const report = await (await rp.run(trivial(count))).result()
    const elapsedMs = performance.now() - startedAt
    await rp.close()
    if (report.done !== count) throw new Error(`${report.done} of ${count} done`)
    return { perSecond: (count * 1000) / elapsedMs }
  },
  /** The same keys into a plain table, in transactions of 1,000, with the same durability. */
  async inserts({ count, folder }) {
    const db = await bareDatabase(join(folder, 'bare.db'))
    db.exec('CREATE TABLE finished (key TEXT PRIMARY KEY) WITHOUT ROWID')
    const insert = db.prepare('INSERT INTO finished VALUES (?)')
    const startedAt = performance.now()
    for (let i = 0; i < count; ) {
      db.exec('BEGIN')
      for (const end = Math.min(count, i + 1000); i < end; i++) insert.run(keyOf(i))
      db.exec('COMMIT')
    }
    const elapsedMs = performance.now() - startedAt
    db.close()
    return { perSecond: (count * 1000) / elapsedMs }
  },
  /** The usual hand-written way: one JSON line and one fsync per item. */
  async progressFile({ count, folder }) {
    const file = openSync(join(folder, 'progress.jsonl'), 'a')
    const startedAt = performance.now()
    for (let i = 0; i < count; i++) {
      writeSync(file, `${JSON.stringify({ key: keyOf(i) })}\n`)
      fsyncSync(file)
    }
    const elapsedMs = performance.now() - startedAt
    closeSync(file)
    return { perSecond: (count * 1000) / elapsedMs }
  },
  /** A second run over finished items. */
  async skip({ count, folder }) {
    const { rp, trivial } = await openJob(folder)
    await (await rp.run(trivial(count))).result()
    await rp.close()
    const again = await openJob(folder)
    const startedAt = performance.now()
    const report = await (await again.rp.run(again.trivial(count))).result()
    const elapsedMs = performance.now() - startedAt
    await again.rp.close()
    if (report.skipped !== count) throw new Error(`${report.skipped} of ${count} skipped`)
    return { perSecond: (count * 1000) / elapsedMs }
  },
  /** Peak growth of resident memory while this many keys are finished, and while they are skipped after a restart. */
  async memory({ count, folder }) {
    // Fewer in flight than in the measurement of speed: the memory of finished keys is measured, not that of items in flight.
    const { rp, trivial } = await openJob(folder, 200)
    await (await rp.run(trivial(1000))).result()
    globalThis.gc?.()
    const before = process.memoryUsage().rss
    let peak = before
    const timer = setInterval(() => {
      peak = Math.max(peak, process.memoryUsage().rss)
    }, 20)
    await (await rp.run(trivial(count))).result()
    clearInterval(timer)
    await rp.close()
    return { growthBytes: Math.max(peak, process.memoryUsage().rss) - before }
  },
}

async function openJob(folder, concurrency = 1000) {
  const { open } = await import('../../dist/index.js')
  const { job } = await import('../../dist/layers/job/index.js')
  const rp = await open(`sqlite:${join(folder, 'job.db')}`)
  const trivial = (count) =>
    job('trivial', { source: { [Symbol.iterator]: () => keys(count) }, concurrency, each: () => undefined })
  return { rp, trivial }
}

/** The same driver as the store uses, with the same durability. */
async function bareDatabase(path) {
  const driver = 'node:sqlite'
  const { DatabaseSync } = await import(driver).catch(() => import('@photostructure/sqlite'))
  const db = new DatabaseSync(path)
  db.exec('PRAGMA journal_mode = WAL')
  db.exec('PRAGMA synchronous = FULL')
  return db
}

if (process.argv[1] === self) {
  const [what, options] = process.argv.slice(2)
  const folder = mkdtempSync(join(tmpdir(), 'reprise-bench-'))
  try {
    console.log(JSON.stringify(await works[what]({ ...JSON.parse(options), folder })))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
