// The kernel against its limits: the same driver used bare, in the same run. Names and targets are those of the issue that asked
// for them; docs/decisions/tuning.md records the attempts.

import { spawnSync } from 'node:child_process'
import { keyed, open, timeline } from '../dist/index.js'
import { longestStall, median, pair, perSecond, time } from './measure.mjs'
import { captureStall } from './support/capture-stall.mjs'
import { bareSqlite, benchPostgres, sizeOf, temporaryFolder } from './support/stores.mjs'
import { entries, notes, payloadBytes, payloads, text } from './support/workload.mjs'

const scale = Number(process.env.REPRISE_BENCH_SCALE ?? 1)
const times = (count) => Math.max(1, Math.round(count * scale))

/** Two new databases in one folder: the engine's and the bare one. */
function sqlitePair(body) {
  let place
  let ours
  let bare
  const make = async () => {
    place = temporaryFolder()
    ours = await open(`sqlite:${place.path('ours.db')}`)
    bare = await bareSqlite(place.path('bare.db'))
  }
  const drop = async () => {
    await ours.close()
    bare.db.close()
    place.remove()
  }
  return {
    async run({ index }) {
      await make()
      try {
        return await pair(body({ ours, bare, index }))({ index })
      } finally {
        await drop()
      }
    },
  }
}

const appendSequential = sqlitePair(({ ours, bare }) => ({
  async value() {
    const handle = await ours.open(notes, 'a')
    // Long enough for the compiler to have optimised the code: the steady state is measured.
    for (let i = 0; i < 3000; i++) await handle.append(entries[i % 512])
    const count = times(3000)
    return await perSecond(count, async () => {
      for (let i = 0; i < count; i++) await handle.append(entries[i % 512])
    })
  },
  async baseline() {
    for (let i = 0; i < 3000; i++) bare.insert.run(1, i, payloads[i % 512])
    const count = times(3000)
    return await perSecond(count, () => {
      // Without a transaction around it every insert is one: INSERT + COMMIT.
      for (let i = 0; i < count; i++) bare.insert.run(1, i, payloads[i % 512])
    })
  },
}))

/**
 * This many timelines at once, each awaiting its appends one by one; beside it as many one-row inserts per transaction.
 */
function appendConcurrent(timelines, rounds, warmUp) {
  return sqlitePair(({ ours, bare }) => ({
    async value() {
      const handles = []
      for (let i = 0; i < timelines; i++) handles.push(await ours.open(notes, `t${i}`))
      const work = (n) =>
        Promise.all(
          handles.map(async (handle, t) => {
            for (let i = 0; i < n; i++) await handle.append(entries[(t * 7 + i) % 512])
          }),
        )
      await work(warmUp)
      return await perSecond(timelines * rounds, () => work(rounds))
    },
    async baseline() {
      const work = (n) => {
        for (let i = 0; i < n; i++) {
          bare.db.exec('BEGIN IMMEDIATE')
          for (let t = 0; t < timelines; t++) bare.insert.run(t, i, payloads[(t * 7 + i) % 512])
          bare.db.exec('COMMIT')
        }
      }
      work(warmUp)
      return await perSecond(timelines * rounds, () => work(rounds))
    },
  }))
}

const batch = Array.from({ length: 256 }, (_, i) => entries[i])

const appendBatch = sqlitePair(({ ours, bare }) => ({
  async value() {
    const handle = await ours.open(notes, 'a')
    const rounds = times(150)
    for (let i = 0; i < 10; i++) await handle.append(batch)
    return await perSecond(256 * rounds, async () => {
      for (let i = 0; i < rounds; i++) await handle.append(batch)
    })
  },
  async baseline() {
    const rounds = times(150)
    const work = (n) => {
      for (let i = 0; i < n; i++) {
        bare.db.exec('BEGIN IMMEDIATE')
        for (let t = 0; t < 256; t++) bare.insert.run(1, i * 256 + t, payloads[t])
        bare.db.exec('COMMIT')
      }
    }
    work(10)
    return await perSecond(256 * rounds, () => work(rounds))
  },
}))

/** History is written once and read many times. */
function replay() {
  let place
  let bare
  const count = times(200_000)
  return {
    async setup() {
      place = temporaryFolder()
      const ours = await open(`sqlite:${place.path('ours.db')}`)
      const handle = await ours.open(notes, 'a')
      for (let i = 0; i < count; i += 256) await handle.append(batch)
      await ours.close()
      bare = await bareSqlite(place.path('bare.db'))
      bare.db.exec('BEGIN')
      for (let i = 0; i < count; i++) bare.insert.run(1, i, payloads[i % 256])
      bare.db.exec('COMMIT')
    },
    run: pair({
      async value() {
        const ours = await open(`sqlite:${place.path('ours.db')}`)
        const handle = await ours.open(notes, 'a')
        const { entriesReplayed, replayMs } = handle.recovery
        await ours.close()
        return (entriesReplayed * 1000) / replayMs
      },
      async baseline() {
        const select = bare.db.prepare(
          'SELECT seq, data FROM entry WHERE position > ? AND position <= ? ORDER BY position',
        )
        let read = 0
        let length = 0
        return await perSecond(count, () => {
          for (let after = 0; read < count; after += 10_000) {
            for (const row of select.all(after, after + 10_000)) {
              read += 1
              length += row.data.length
            }
          }
          if (length === 0) throw new Error('nothing was read')
        })
      },
    }),
    async teardown() {
      bare.db.close()
      place.remove()
    },
  }
}

const table = timeline('keyed', {
  initial: () => ({ rows: keyed() }),
  apply(state, entry) {
    for (const [key, value] of entry.rows) state.rows.set(key, value)
  },
})

/** A million keys of about 100 bytes; each run changes 1 % of them at random and checkpoints. */
function checkpointIncremental() {
  const count = times(1_000_000)
  let place
  let ours
  let handle
  let round = 0
  const fullTimes = []
  const key = (i) => `key-${String(i).padStart(8, '0')}`
  const setRows = async (indexes) => {
    for (let i = 0; i < indexes.length; i += 2000) {
      await handle.append({
        type: 'set',
        rows: indexes.slice(i, i + 2000).map((n) => [key(n), text(72, n + round * count)]),
      })
    }
  }
  return {
    async setup() {
      place = temporaryFolder()
      ours = await open(`sqlite:${place.path('ours.db')}`)
      handle = await ours.open(table, 'a')
      await setRows(Array.from({ length: count }, (_, i) => i))
    },
    async run() {
      const full = await handle.checkpoint({ full: true })
      fullTimes.push(full.ms)
      round += 1
      const changed = Array.from({ length: count / 100 }, (_, i) =>
        Math.floor((((i * 7919 + round * 104729) % count) * 99991) % count),
      )
      await setRows(changed)
      const changedBytes = new Set(changed).size * 84
      const { result: small, stallMs } = await longestStall(() => handle.checkpoint())
      return {
        value: small.addedBytes,
        baseline: full.addedBytes,
        details: {
          bytesOverLimit: small.addedBytes / Math.max(0.05 * full.addedBytes, 3 * changedBytes),
          timeRatio: small.ms / full.ms,
          reportedStallMs: small.longestStallMs,
          eventLoopStallMs: stallMs,
          ms: small.ms,
          fullMs: full.ms,
        },
      }
    },
    async teardown() {
      await ours.close()
      place.remove()
    },
  }
}

/**
 * A million entries and a checkpoint a thousand entries before the end: opened with the checkpoint, and from all of history.
 */
function recoverFromCheckpoint() {
  const count = times(1_000_000)
  let place
  const withCheckpoint = notes
  const without = timeline('notes', { ...definition(), version: 2 })
  return {
    async setup() {
      place = temporaryFolder()
      const ours = await open(`sqlite:${place.path('ours.db')}`)
      const handle = await ours.open(withCheckpoint, 'a')
      const many = Array.from({ length: 1000 }, (_, i) => entries[i % 512])
      for (let i = 0; i < count - 1000; i += 1000) await handle.append(many)
      await handle.checkpoint()
      await handle.append(many)
      await ours.close()
    },
    run: pair({ value: () => recovery(withCheckpoint, place), baseline: () => recovery(without, place) }),
    teardown: async () => place.remove(),
  }
}

function definition() {
  return {
    initial: () => ({ count: 0, length: 0 }),
    apply: (state, entry) => ({ count: state.count + 1, length: state.length + entry.text.length }),
  }
}

async function recovery(which, place) {
  const ours = await open(`sqlite:${place.path('ours.db')}`)
  const { elapsedMs } = await time(() => ours.open(which, 'a'))
  await ours.close()
  return elapsedMs
}

async function bytesPerEntry() {
  const place = temporaryFolder()
  const count = times(50_000)
  try {
    const ours = await open(`sqlite:${place.path('ours.db')}`)
    const handle = await ours.open(notes, 'a')
    for (let i = 0; i < count; i++) await handle.append(entries[i % 512])
    await ours.close()
    const bytes = sizeOf(place.path('ours.db')) + sizeOf(place.path('ours.db-wal'))
    const bare = await bareSqlite(place.path('bare.db'))
    bare.db.exec('BEGIN')
    for (let i = 0; i < count; i++) bare.insert.run(1, i, payloads[i % 512])
    bare.db.exec('COMMIT')
    bare.db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
    bare.db.close()
    const bareBytes = sizeOf(place.path('bare.db'))
    return { value: bytes / count - payloadBytes, baseline: bareBytes / count - payloadBytes }
  } finally {
    place.remove()
  }
}

function importCost() {
  let place
  const programs = (path) => ({
    ours: `import { open } from ${JSON.stringify(new URL('../lib/index.js', import.meta.url).href)}; const rp = await open('sqlite:' + ${JSON.stringify(path)}); await rp.head('notes/a'); await rp.close()`,
    bare: '0',
  })
  const run = (program) => {
    const started = performance.now()
    const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' })
    if (status !== 0) throw new Error(stderr)
    return performance.now() - started
  }
  return {
    async setup() {
      place = temporaryFolder()
      const ours = await open(`sqlite:${place.path('ours.db')}`)
      await (await ours.open(notes, 'a')).append(entries[0])
      await ours.close()
    },
    run: pair({
      value: async () => median([0, 1, 2].map(() => run(programs(place.path('ours.db')).ours))),
      baseline: async () => median([0, 1, 2].map(() => run(programs('').bare))),
    }),
    teardown: async () => place.remove(),
  }
}

/** One server for both benches, started by the first of them. */
const server = { started: null }
let schemas = 0

function postgresPair(body) {
  return async ({ index }) => {
    server.started ??= benchPostgres().catch((error) => ({ error }))
    const started = await server.started
    if (started.error) return { skip: `no PostgreSQL: ${started.error.message}` }
    process.once('beforeExit', () => started.stop())
    const { default: pg } = await import('pg')
    const schema = `bench_${process.pid}_${++schemas}`
    const ours = await open(`${started.url}?schema=${schema}`)
    const client = new pg.Client(started.url)
    await client.connect()
    await client.query(
      `CREATE TABLE ${schema}.bare (position bigserial PRIMARY KEY, timeline int, seq bigint, data bytea)`,
    )
    try {
      return await pair(body({ ours, client, schema }))({ index })
    } finally {
      await ours.close()
      await client.query(`DROP SCHEMA ${schema} CASCADE`)
      await client.end()
    }
  }
}

const sequentialPostgres = postgresPair(({ ours, client, schema }) => ({
  async value() {
    const handle = await ours.open(notes, 'a')
    for (let i = 0; i < 1500; i++) await handle.append(entries[i % 512])
    const count = times(1500)
    return await perSecond(count, async () => {
      for (let i = 0; i < count; i++) await handle.append(entries[i % 512])
    })
  },
  async baseline() {
    const insert = (i) =>
      client.query(`INSERT INTO ${schema}.bare (timeline, seq, data) VALUES ($1, $2, $3)`, [1, i, payloads[i % 512]])
    for (let i = 0; i < 1500; i++) await insert(i)
    const count = times(1500)
    return await perSecond(count, async () => {
      for (let i = 0; i < count; i++) await insert(i)
    })
  },
}))

const concurrentPostgres = postgresPair(({ ours, client, schema }) => ({
  async value() {
    const handles = []
    for (let i = 0; i < 64; i++) handles.push(await ours.open(notes, `t${i}`))
    const rounds = times(100)
    const work = (n) =>
      Promise.all(
        handles.map(async (handle, t) => {
          for (let i = 0; i < n; i++) await handle.append(entries[(t * 7 + i) % 512])
        }),
      )
    await work(60)
    return await perSecond(64 * rounds, () => work(rounds))
  },
  async baseline() {
    const rounds = times(100)
    const rows = Array.from({ length: 64 }, (_, t) => `($${3 * t + 1}, $${3 * t + 2}, $${3 * t + 3})`).join(', ')
    const insert = (i) =>
      client.query(
        `INSERT INTO ${schema}.bare (timeline, seq, data) VALUES ${rows}`,
        Array.from({ length: 64 }, (_, t) => [t, i, payloads[(t * 7 + i) % 512]]).flat(),
      )
    for (let i = 0; i < 60; i++) await insert(i)
    return await perSecond(64 * rounds, async () => {
      for (let i = 0; i < rounds; i++) await insert(i)
    })
  },
}))

export default [
  {
    name: 'append-sequential-sqlite',
    unit: 'entries/s',
    target: { ratioMin: 0.85 },
    note: 'one writer awaiting each append; beside it bare INSERT + COMMIT',
    ...appendSequential,
  },
  {
    name: 'append-concurrent-sqlite',
    unit: 'entries/s',
    target: { ratioMin: 0.7 },
    note: '64 timelines; beside it transactions of 64 one-row inserts',
    ...appendConcurrent(64, times(300), 60),
  },
  {
    name: 'append-many-sqlite',
    unit: 'entries/s',
    note: '1,024 timelines; beside it transactions of 1,024 one-row inserts',
    ...appendConcurrent(1024, times(40), 8),
  },
  {
    name: 'append-batch-sqlite',
    unit: 'entries/s',
    target: { ratioMin: 1.5 },
    note: '256 entries an append; beside it transactions of 256 one-row inserts',
    ...appendBatch,
  },
  {
    name: 'append-sequential-postgres',
    unit: 'entries/s',
    target: { ratioMin: 0.75 },
    note: 'one writer; beside it a bare INSERT on one connection',
    run: sequentialPostgres,
  },
  {
    name: 'append-concurrent-postgres',
    unit: 'entries/s',
    target: { ratioMin: 0.6 },
    note: '64 timelines; beside it multi-row inserts of 64',
    run: concurrentPostgres,
  },
  {
    name: 'replay-sqlite',
    unit: 'entries/s',
    target: { ratioMin: 1 },
    note: 'read, verified, decoded and folded; beside it one-row-an-entry reads',
    ...replay(),
  },
  {
    name: 'checkpoint-incremental',
    unit: 'bytes',
    target: { details: { bytesOverLimit: { max: 1 }, timeRatio: { max: 0.1 }, reportedStallMs: { max: 25 } } },
    note: '1,000,000 keys, 1 % changed at random; beside it a full checkpoint',
    ...checkpointIncremental(),
  },
  {
    name: 'capture-stall-40mb',
    unit: 'ms',
    target: { valueMax: 50 },
    note: 'the longest stall of a checkpoint of 40 MB of plain state, appends beside it; beside it one that is not declared immutable',
    ...captureStall(times(40)),
  },
  {
    name: 'recover-from-checkpoint',
    unit: 'ms',
    target: { ratioMax: 0.02 },
    note: 'a checkpoint 1,000 entries back; beside it full replay of 1,000,000',
    ...recoverFromCheckpoint(),
  },
  {
    name: 'bytes-per-entry',
    unit: 'bytes',
    target: { valueMax: 80 },
    note: 'store bytes beyond a 200-byte payload, appended one by one; beside it the bare table',
    run: bytesPerEntry,
  },
  {
    name: 'import-cost',
    unit: 'ms',
    note: 'a process that imports reprise and opens an existing file; beside it bare node',
    ...importCost(),
  },
]
