// Aggregates, projections, tables and saves: beside the bare driver in the same run, and beside peers if they are installed (npm
// install in bench/versus and bench/versus/emmett-sqlite). REPRISE_BENCH_SCALE=0.01 for a quick run.

import { createReadStream, createWriteStream } from 'node:fs'
import { open } from '../dist/index.js'
import { aggregate, projection } from '../dist/layers/events/index.js'
import { save } from '../dist/layers/save/index.js'
import { pagedTable, table } from '../dist/layers/table/index.js'
import { longestStall, pair, perSecond, time } from './measure.mjs'
import { hotAggregate } from './support/hot.mjs'
import { emmett, level, lmdb } from './support/peers.mjs'
import { bareSqlite, benchPostgres, temporaryFolder } from './support/stores.mjs'

const scale = Number(process.env.REPRISE_BENCH_SCALE ?? 1)
const times = (count) => Math.max(1, Math.round(count * scale))

const account = aggregate('account', {
  initial: () => ({ balance: 0 }),
  evolve: { deposited: (s, e) => ({ balance: s.balance + e.amount }) },
  decide: {
    deposit: (_s, c) => ({ type: 'deposited', amount: c.amount, note: 'as agreed' }),
    many: (_s, c) => Array.from({ length: c.n }, (_, n) => ({ type: 'deposited', amount: n, note: 'as agreed' })),
  },
})
const checkpointed = aggregate('checkpointed', { ...account, initial: () => ({ balance: 0 }), checkpoint: {} })
const rows = table('rows', { checkpoint: {} })
const keyOf = (n) => `key-${String(n).padStart(8, '0')}`
const rowOf = (n) => ({ name: `value of ${n}`, n })

/** Runs `body` with new places, which are removed afterwards. */
function fresh(body) {
  return async ({ index }) => {
    const place = temporaryFolder()
    const opened = []
    const url = (name) => `sqlite:${place.path(name)}`
    const engine = async (where) => {
      const made = await open(where)
      opened.push(made)
      return made
    }
    try {
      return await body({ place, index, url, engine })
    } finally {
      for (const each of opened) await each.close()
      place.remove()
    }
  }
}

/**
 * Both sides are measured warm: the warm-up rounds open connections, prepare statements, create the schema and compile the code.
 */
async function appendEvents(rp, { aggregates, warmup, rounds, command, input }) {
  const handles = await Promise.all(Array.from({ length: aggregates }, (_, n) => rp.open(account, `a${n}`)))
  const append = (count) =>
    Promise.all(
      handles.map(async (handle) => {
        for (let n = 0; n < count; n++) await handle.do(command, input)
      }),
    )
  await append(warmup)
  let batches = 0
  const forget = rp.events.on('committed', () => (batches += 1))
  const cpu = process.cpuUsage()
  const { elapsedMs } = await time(() => append(rounds))
  forget()
  return { elapsedMs, batches, cpu: process.cpuUsage(cpu) }
}

const single = { command: 'deposit', input: { amount: 1 } }
const hundred = { command: 'many', input: { n: 100 } }

function appendBench(name, kind, shape, eventsEach, rounds, target) {
  let server
  const sequence = kind === 'postgres' ? '64 at once' : 'one after another on one connection'
  return {
    name,
    unit: 'events/s',
    target,
    note: `64 aggregates at once; baseline: Emmett on the same database where installed, ${sequence}`,
    setup: async () => {
      if (kind === 'postgres') server = await benchPostgres()
    },
    teardown: async () => await server?.stop(),
    run: fresh(async ({ index, url, engine }) => {
      const peer = await emmett(kind)
      const count = times(rounds)
      const warmup = Math.max(1, Math.round(count / 3))
      const events = 64 * count * eventsEach
      const usOf = ({ user, system }) => (user + system) / events
      const details = {}
      const value = async () => {
        const rp = await engine(kind === 'postgres' ? server.url : url('ours.db'))
        const made = await appendEvents(rp, { aggregates: 64, warmup, rounds: count, ...shape })
        details.cpuUsAnEvent = usOf(made.cpu)
        details.commandsACommit = (64 * count) / made.batches
        await rp.close()
        return (events * 1000) / made.elapsedMs
      }
      if (!peer) return { value: await value(), details }
      const baseline = async () => {
        const made = await peer.append({ url: server?.url, aggregates: 64, warmup, rounds: count, eventsEach })
        details.peerCpuUsAnEvent = usOf(made.cpu)
        details.peerRetries = made.retries
        return (events * 1000) / made.elapsedMs
      }
      return { ...(await pair({ value, baseline })({ index })), details }
    }),
  }
}

const bareEvents = {
  name: 'append-events-bare',
  unit: 'events/s',
  note: 'one event a command, 64 aggregates; baseline: bare SQLite, INSERT + COMMIT each, one after another',
  run: fresh(async ({ index, url, engine, place }) =>
    pair({
      async value() {
        const rp = await engine(url('ours.db'))
        const { elapsedMs } = await appendEvents(rp, {
          aggregates: 64,
          warmup: times(50),
          rounds: times(150),
          ...single,
        })
        return (64 * times(150) * 1000) / elapsedMs
      },
      async baseline() {
        const bare = await bareSqlite(place.path('bare.db'))
        const data = Buffer.from(JSON.stringify({ type: 'deposited', amount: 1, note: 'as agreed' }))
        const count = times(3000)
        const rate = await perSecond(count, () => {
          for (let n = 0; n < count; n++) bare.insert.run(n % 64, n, data)
        })
        bare.db.close()
        return rate
      },
    })({ index }),
  ),
}

/** Rows as a hand-written event store stores them. */
async function bareRows(path, count) {
  const bare = await bareSqlite(path)
  bare.db.exec('BEGIN')
  for (let n = 0; n < count; n++) {
    bare.insert.run(n % 64, n, Buffer.from(JSON.stringify({ type: 'deposited', amount: n, note: 'as agreed' })))
  }
  bare.db.exec('COMMIT')
  return bare
}

function readBare(bare, visit) {
  for (const row of bare.db.prepare('SELECT data FROM entry ORDER BY position').iterate()) {
    visit(JSON.parse(Buffer.from(row.data).toString()))
  }
}

function loadBench(name, withCheckpoint) {
  return {
    name,
    unit: 'ms',
    note: `10,000 events ${withCheckpoint ? 'with a checkpoint 100 events back' : 'replayed'}; baseline: reading and folding the rows bare`,
    run: fresh(async ({ index, url, engine, place }) => {
      const count = times(10_000)
      const first = await open(url('ours.db'))
      const a = await first.open(checkpointed, 'x')
      for (let n = 0; n < count / 100; n++) {
        if (withCheckpoint && n === count / 100 - 1) await a.checkpoint()
        await a.do('many', { n: 100 })
      }
      await first.close()
      const bare = await bareRows(place.path('bare.db'), count)
      const sample = await pair({
        async value() {
          const rp = await engine(url('ours.db'))
          return (await time(() => rp.open(checkpointed, 'x'))).elapsedMs
        },
        async baseline() {
          let balance = 0
          return (await time(() => readBare(bare, (event) => (balance += event.amount)))).elapsedMs
        },
      })({ index })
      bare.db.close()
      return sample
    }),
  }
}

function projectionBench(name, count, target, isRebuild) {
  return {
    name,
    unit: 'events/s',
    target,
    note: `${count} events of 64 aggregates into a map${isRebuild ? ', rebuilt beside the live one' : ''}; baseline: bare row reads`,
    run: fresh(async ({ index, url, engine, place }) => {
      const rp = await engine(url('ours.db'))
      const handles = await Promise.all(Array.from({ length: 64 }, (_, n) => rp.open(account, `a${n}`)))
      const each = Math.max(1, Math.round(times(count) / 64 / 100))
      await Promise.all(
        handles.map(async (handle) => {
          for (let n = 0; n < each; n++) await handle.do('many', { n: 100 })
        }),
      )
      const made = each * 64 * 100
      const bare = await bareRows(place.path('bare.db'), made)
      const totals = projection('totals', {
        from: [account],
        initial: () => new Map(),
        on: { deposited: (m, e, at) => void m.set(at.id, (m.get(at.id) ?? 0) + e.amount) },
      })
      const sample = await pair({
        async value() {
          const p = await rp.open(totals)
          if (!isRebuild) return await perSecond(made, () => p.catchUp())
          await p.catchUp()
          return await perSecond(made, () => p.rebuild())
        },
        baseline: () =>
          perSecond(made, () => {
            const sums = new Map()
            let n = 0
            readBare(bare, (event) => sums.set(n % 64, (sums.get(n++ % 64) ?? 0) + event.amount))
          }),
      })({ index })
      bare.db.close()
      return sample
    }),
  }
}

/** A table of many keys, created once for all table benches. */
const shared = { place: null, rp: null, t: null, bare: null, peers: {}, count: 0 }

async function fillShared() {
  if (shared.t) return
  shared.place = temporaryFolder()
  shared.count = times(1_000_000)
  shared.rp = await open(`sqlite:${shared.place.path('ours.db')}`)
  shared.t = await shared.rp.open(rows)
  shared.setMs = 0
  for (let from = 0; from < shared.count; from += 1000) {
    const batch = Math.min(1000, shared.count - from)
    const { elapsedMs } = await time(() =>
      Promise.all(Array.from({ length: batch }, (_, i) => shared.t.set(keyOf(scatter(from + i)), rowOf(from + i)))),
    )
    shared.setMs += elapsedMs
  }
  shared.full = await longestStall(() => shared.t.checkpoint())
  const { DatabaseSync } = await import('@photostructure/sqlite')
  const db = new DatabaseSync(shared.place.path('bare.db'))
  db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
  db.exec('CREATE TABLE row (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID')
  const put = db.prepare('INSERT OR REPLACE INTO row VALUES (?, ?)')
  const bareTime = await time(() => {
    for (let from = 0; from < shared.count; from += 1000) {
      db.exec('BEGIN')
      for (let i = 0; i < Math.min(1000, shared.count - from); i++) {
        put.run(keyOf(scatter(from + i)), Buffer.from(JSON.stringify(rowOf(from + i))))
      }
      db.exec('COMMIT')
    }
  })
  shared.bareSetMs = bareTime.elapsedMs
  shared.bare = db
  for (const [name, make] of Object.entries({ level, lmdb })) {
    const peer = await make(shared.place.path(name))
    if (!peer) continue
    const setMs = await peer.fill(shared.count, 1000, (n) => keyOf(scatter(n)), rowOf)
    shared.peers[name] = { ...peer, setMs }
  }
}

async function dropShared() {
  for (const peer of Object.values(shared.peers)) await peer.close()
  await shared.rp?.close()
  shared.bare?.close()
  shared.place?.remove()
  Object.assign(shared, { place: null, rp: null, t: null, bare: null, peers: {} })
}

/** A figure of each peer that is installed. */
async function ofPeers(suffix, measure) {
  const details = {}
  for (const [name, peer] of Object.entries(shared.peers)) details[name + suffix] = await measure(peer)
  return details
}

/** Keys in a scattered order, each once if the count is a power of ten or less. */
function scatter(n) {
  return (n * 7_654_321) % shared.count
}

const tableSet = {
  name: 'table-set',
  unit: 'rows/s',
  note: '1,000,000 keys in no order, 1,000 sets at once; baseline: bare SQLite in transactions of 1,000',
  setup: fillShared,
  run: async () => ({
    value: (shared.count * 1000) / shared.setMs,
    baseline: (shared.count * 1000) / shared.bareSetMs,
    details: await ofPeers('RowsPerSecond', ({ setMs }) => (shared.count * 1000) / setMs),
  }),
}

const tableGet = {
  name: 'table-get',
  unit: 'reads/s',
  note: 'random keys of 1,000,000; baseline: bare SQLite point reads, decoded',
  setup: fillShared,
  run: pairWithDetails(
    {
      value: () => {
        const count = times(500_000)
        return perSecond(count, () => {
          for (let n = 0; n < count; n++) shared.t.get(keyOf((n * 48_271) % shared.count))
        })
      },
      baseline: () => {
        const count = times(100_000)
        const get = shared.bare.prepare('SELECT value FROM row WHERE key = ?')
        return perSecond(count, () => {
          for (let n = 0; n < count; n++) JSON.parse(Buffer.from(get.get(keyOf((n * 48_271) % shared.count)).value))
        })
      },
    },
    () => ofPeers('ReadsPerSecond', (peer) => peer.reads(times(20_000), (n) => keyOf((n * 48_271) % shared.count))),
  ),
}

const tableRange = {
  name: 'table-range',
  unit: 'rows/s',
  note: 'ranges of 1,000 rows; baseline: bare SQLite ranges, decoded',
  setup: fillShared,
  run: pair({
    value: () => {
      const ranges = times(200)
      return perSecond(ranges * 1000, () => {
        for (let n = 0; n < ranges; n++) {
          for (const _ of shared.t.entries({ from: keyOf((n * 4801) % shared.count), limit: 1000 }));
        }
      })
    },
    baseline: () => {
      const ranges = times(200)
      const walk = shared.bare.prepare('SELECT key, value FROM row WHERE key >= ? ORDER BY key LIMIT 1000')
      return perSecond(ranges * 1000, () => {
        for (let n = 0; n < ranges; n++) {
          for (const row of walk.iterate(keyOf((n * 4801) % shared.count))) JSON.parse(Buffer.from(row.value))
        }
      })
    },
  }),
}

const tableRecover = {
  name: 'table-recover',
  unit: 'ms',
  note: 'open 1,000,000 keys from checkpoint and 1,000 entries; baseline: reading and decoding all rows bare',
  setup: fillShared,
  run: async ({ index }) => {
    for (let n = 0; n < 1000; n++) void shared.t.set(keyOf(n % shared.count), rowOf(n))
    await shared.t.set('last', rowOf(0))
    return await pair({
      value: async () => {
        const second = await open(`sqlite:${shared.place.path('ours.db')}`)
        const { elapsedMs, result } = await time(() => rows.standby(second))
        result.close()
        await second.close()
        return elapsedMs
      },
      baseline: async () => {
        const all = new Map()
        return (
          await time(() => {
            for (const row of shared.bare.prepare('SELECT key, value FROM row ORDER BY key').iterate()) {
              all.set(row.key, JSON.parse(Buffer.from(row.value)))
            }
          })
        ).elapsedMs
      },
    })({ index })
  },
}

function amplification(name, pick) {
  return {
    name: `checkpoint-amplification-${name}`,
    unit: 'bytes written a byte changed',
    note: `1 % of 1,000,000 rows changed (${name}), then an incremental checkpoint; baseline: a full one`,
    setup: fillShared,
    run: async ({ index }) => {
      const changed = Math.max(1, Math.round(shared.count / 100))
      let bytes = 0
      for (let n = 0; n < changed; n++) {
        const key = keyOf(pick(n, changed, index) % shared.count)
        const value = rowOf(n + index * 1000 + 1)
        bytes += key.length + JSON.stringify(value).length
        void shared.t.set(key, value)
      }
      await shared.t.set('last', rowOf(index))
      const { result, stallMs } = await longestStall(() => shared.t.checkpoint())
      const [record] = await shared.rp.checkpoints('table/rows')
      return {
        value: (result.addedBytes + record.body.length) / bytes,
        baseline: shared.full.result.totalBytes / bytes,
        details: { stallMs, reportedStallMs: result.longestStallMs, ms: result.ms, fullMs: shared.full.result.ms },
      }
    },
  }
}

const standby = {
  name: 'standby-takeover',
  unit: 'ms',
  note: 'a standby that follows 1,000,000 keys takes over; baseline: opening the table cold',
  setup: fillShared,
  teardown: dropShared,
  run: async ({ index }) => {
    const url = `sqlite:${shared.place.path('ours.db')}`
    return await pair({
      value: async () => {
        const second = await open(url)
        const follower = await rows.standby(second)
        const { elapsedMs } = await time(() => follower.takeOver())
        await second.close()
        return elapsedMs
      },
      baseline: async () => {
        const second = await open(url)
        const { elapsedMs } = await time(() => second.open(rows, undefined, { takeover: true }))
        await second.close()
        return elapsedMs
      },
    })({ index })
  },
}

/** A gigabyte that does not compress and does not repeat, generated while it is read. */
async function* gigabyte(bytes, changed) {
  let word = 12345
  const size = 1024 * 1024
  for (let at = 0; at < bytes; at += size) {
    const piece = Buffer.allocUnsafe(Math.min(size, bytes - at))
    for (let i = 0; i + 4 <= piece.length; i += 4) {
      word = (Math.imul(word, 1664525) + 1013904223) | 0
      piece.writeInt32LE(word ^ (word >>> 13), i)
    }
    if (changed(at / size)) piece.fill(7, 1000, 1000 + 10_000)
    yield piece
  }
}

const models = save('models', { keep: 2 })

const saveBig = {
  name: 'save-1gib',
  unit: 'MB/s',
  note: '1 GiB streamed in; baseline: the same stream into a plain file',
  run: fresh(async ({ index, url, engine, place }) => {
    const bytes = times(1024 * 1024 * 1024)
    let peak = 0
    const sample = await pair({
      async value() {
        const rp = await engine(url('ours.db'))
        const s = await rp.open(models)
        const before = process.memoryUsage().rss
        const watch = setInterval(() => (peak = Math.max(peak, process.memoryUsage().rss - before)), 50)
        const { elapsedMs } = await time(() => s.putStream(gigabyte(bytes, () => false)))
        clearInterval(watch)
        return bytes / 1e3 / elapsedMs
      },
      async baseline() {
        const { pipeline } = await import('node:stream/promises')
        const { elapsedMs } = await time(() =>
          pipeline(
            gigabyte(bytes, () => false),
            createWriteStream(place.path('bare.bin')),
          ),
        )
        for await (const _ of createReadStream(place.path('bare.bin'))) break
        return bytes / 1e3 / elapsedMs
      },
    })({ index })
    return { ...sample, details: { peakMb: peak / 1e6 } }
  }),
}

const saveChanged = {
  name: 'save-after-1-percent-change',
  unit: 'bytes added / bytes saved',
  note: 'the same stream with 10 KB changed in 1 of 100 megabytes; baseline 1: a whole new save',
  run: fresh(async ({ url, engine }) => {
    const rp = await engine(url('ours.db'))
    const s = await rp.open(models)
    const bytes = times(256 * 1024 * 1024)
    const first = await time(() => s.putStream(gigabyte(bytes, () => false)))
    const second = await time(() => s.putStream(gigabyte(bytes, (n) => n % 100 === 50)))
    return {
      value: second.result.addedBytes / second.result.totalBytes,
      baseline: 1,
      details: { firstMs: first.elapsedMs, secondMs: second.elapsedMs, addedBytes: second.result.addedBytes },
    }
  }),
}

const pagedGet = {
  name: 'table-get-paged',
  unit: 'reads/s',
  note: '200,000 rows (about 8 MB of pages) through a cache of 4 MB, random keys; baseline: the same with all pages cached',
  run: fresh(async ({ url, engine }) => {
    const count = times(200_000)
    const fill = await engine(url('ours.db'))
    const t = await fill.open(pagedTable('paged', { changedRows: 20_000 }))
    for (let from = 0; from < count; from += 1000) {
      await Promise.all(Array.from({ length: 1000 }, (_, i) => t.set(keyOf(from + i), rowOf(from + i))))
    }
    await t.checkpoint()
    await fill.close()
    const reads = async (cacheBytes) => {
      const rp = await engine(url('ours.db'))
      const paged = await rp.open(pagedTable('paged', { cacheBytes }), undefined, { takeover: true })
      if (cacheBytes > 1e9) for await (const _ of paged.entries());
      const wanted = times(20_000)
      const rate = await perSecond(wanted, async () => {
        for (let n = 0; n < wanted; n++) await paged.get(keyOf((n * 48_271) % count))
      })
      return { rate, stats: paged.stats }
    }
    const small = await reads(4e6)
    const large = await reads(1e12)
    return {
      value: small.rate,
      baseline: large.rate,
      details: { cachedMb: small.stats.cachedBytes / 1e6, misses: small.stats.misses, hits: small.stats.hits },
    }
  }),
}

function hotBench(kind) {
  let server
  return {
    name: `hot-aggregate-8-processes-${kind}`,
    unit: 'commands/s',
    target: { ratioMin: 0.3 },
    note: '8 processes command one aggregate, each one command after another; baseline: one process, the same way',
    setup: async () => {
      if (kind === 'postgres') server = await benchPostgres()
    },
    teardown: async () => await server?.stop(),
    run: fresh(async ({ index, url }) => {
      const count = times(500)
      const place = (name) => (server ? `${server.url}?schema=hot_${name}_${index}_${Date.now()}` : url(`${name}.db`))
      return await pair({
        value: () => hotAggregate(place('eight'), 8, count),
        baseline: () => hotAggregate(place('one'), 1, 4 * count),
      })({ index })
    }),
  }
}

function pairWithDetails(sides, details) {
  const run = pair(sides)
  return async (context) => ({ ...(await run(context)), details: await details() })
}

export default [
  bareEvents,
  appendBench('append-events-sqlite', 'sqlite', single, 1, 60, { ratioMin: 20 }),
  appendBench('append-100-events-sqlite', 'sqlite', hundred, 100, 15, { ratioMin: 5 }),
  appendBench('append-events-postgres', 'postgres', single, 1, 120, { ratioMin: 20 }),
  appendBench('append-100-events-postgres', 'postgres', hundred, 100, 8, { ratioMin: 5 }),
  hotBench('sqlite'),
  hotBench('postgres'),
  loadBench('load-10k-events', true),
  loadBench('load-10k-events-without-checkpoint', false),
  projectionBench('projection-catch-up', 200_000, { ratioMin: 0.4 }, false),
  projectionBench('rebuild', 1_000_000, {}, true),
  tableSet,
  tableGet,
  tableRange,
  tableRecover,
  pagedGet,
  amplification('uniform', (n, _changed, index) => n * 7919 + index * 13),
  amplification('skewed', (n, changed) => Math.floor(((n % 97) / 97) ** 4 * changed) * 3),
  amplification('sequential', (n, _changed, index) => n + index * 100_000),
  standby,
  saveBig,
  saveChanged,
]
