// Resources: the cost of watchers for writers, the delay until a thousand watchers have a change, the time of a large list, the
// rate of a controller, and the memory of an object; beside etcd if it is installed (apt-get install etcd-server).
// REPRISE_BENCH_SCALE=0.01 for a quick run.

import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { open } from '../dist/index.js'
import { controller, informer, resource } from '../dist/resources.js'
import { median, perSecond, time } from './measure.mjs'
import { startEtcd } from './support/etcd.mjs'
import { bareSqlite, benchPostgres, temporaryFolder } from './support/stores.mjs'

const scale = Number(process.env.REPRISE_BENCH_SCALE ?? 1)
const times = (count) => Math.max(1, Math.round(count * scale))
const atOnce = 64

const sites = resource('sites')
const text = 'x'.repeat(150)
let written = 0
const specOf = (n) => ({ n, image: 'registry/site:1', text })

/** Runs `body` with a new place, which is removed afterwards. */
function fresh(body) {
  return async ({ index }) => {
    const place = temporaryFolder()
    const opened = []
    const engine = async (url = `sqlite:${place.path('resources.db')}`) => {
      const made = await open(url)
      opened.push(made)
      return made
    }
    try {
      return await body({ place, engine, index })
    } finally {
      for (const each of opened) await each.close()
      place.remove()
    }
  }
}

/** `atOnce` objects, each changed one write after another. */
async function writeAll(handle, count) {
  await Promise.all(
    Array.from({ length: atOnce }, async (_, i) => {
      // Never the current value: a write without a change is none.
      for (let n = i; n < count; n += atOnce) {
        await handle.update({ name: `o${i}`, revision: 'any', spec: specOf(++written) })
      }
    }),
  )
}

async function prepared(handle) {
  await Promise.all(Array.from({ length: atOnce }, (_, i) => handle.create({ name: `o${i}`, spec: specOf(-1) })))
  await writeAll(handle, times(1000))
}

/** Writes per second, until every watcher has received the last of them. */
async function writesWith(watchers, handle, count) {
  const from = handle.revision
  const seen = Array.from({ length: watchers }, async () => {
    const watch = handle.watch({ from })
    while (watch.revision < from + count) await watch.next()
    watch.close()
  })
  return await perSecond(count, () => Promise.all([writeAll(handle, count), ...seen]))
}

function writesBench(watchers, target) {
  return {
    name: `writes-${watchers}-watcher${watchers === 1 ? '' : 's'}`,
    unit: 'writes/s',
    target,
    note: `SQLite, ${atOnce} writes at once, until all ${watchers} watchers have seen the last; baseline: without watchers`,
    run: fresh(async ({ engine, index }) => {
      const handle = await (await engine()).open(sites)
      await prepared(handle)
      const count = times(6400)
      const turns = index % 2 === 0 ? [watchers, 0] : [0, watchers]
      const rates = new Map()
      for (const each of turns) rates.set(each, await writesWith(each, handle, count))
      return { value: rates.get(watchers), baseline: rates.get(0) }
    }),
  }
}

let postgres
let etcd

export default [
  writesBench(1),
  writesBench(10),
  writesBench(100, { ratioMin: 0.3 }),
  {
    name: 'writes-100-watchers-postgres',
    unit: 'writes/s',
    target: { ratioMin: 0.3 },
    note: 'the same on PostgreSQL',
    setup: async () => {
      postgres = await benchPostgres()
    },
    teardown: () => postgres?.stop(),
    run: fresh(async ({ engine, index }) => {
      if (!postgres) return { skip: 'there is no PostgreSQL here' }
      const rp = await engine(postgres.url)
      const handle = await rp.open(sites, `run-${process.pid}-${index}`)
      await prepared(handle)
      const turns = index % 2 === 0 ? [100, 0] : [0, 100]
      const rates = new Map()
      for (const each of turns) rates.set(each, await writesWith(each, handle, times(3200)))
      return { value: rates.get(100), baseline: rates.get(0) }
    }),
  },
  {
    name: 'latency-1000-watchers',
    unit: 'ms',
    note: 'from the call of a write until the last of 1,000 watchers has it, median of 100; baseline: with one watcher',
    run: fresh(async ({ engine }) => {
      const handle = await (await engine()).open(sites)
      await prepared(handle)
      const [many, one] = [await latencies(handle, 1000), await latencies(handle, 1)]
      return { value: median(many), baseline: median(one), details: { p99Ms: at(many, 0.99), p99OneMs: at(one, 0.99) } }
    }),
  },
  {
    name: 'relist-100000',
    unit: 'ms',
    note: '100,000 objects in pages of 1,000; baseline: the same rows from bare SQLite, parsed. coldMs: by a process that starts',
    run: fresh(async ({ engine, place }) => {
      const count = times(100_000)
      const rp = await engine()
      const handle = await rp.open(sites)
      for (let n = 0; n < count; n += 1000) {
        await Promise.all(
          Array.from({ length: Math.min(1000, count - n) }, (_, i) =>
            handle.create({ name: nameOf(n + i), labels: { app: 'web' }, spec: specOf(n + i) }),
          ),
        )
      }
      await handle.checkpoint()
      const { elapsedMs: warmMs } = await time(() => listAll(handle, count))
      const { elapsedMs: wholeMs } = await time(() => handle.list())
      const { elapsedMs: selectedMs } = await time(() => handle.list({ labels: 'app=none' }))
      await rp.close()
      const again = await engine()
      const { elapsedMs: coldMs } = await time(async () => await listAll(await again.open(sites), count))
      const bareMs = await bareList(place.path('bare.db'), count)
      return { value: warmMs, baseline: bareMs, details: { coldMs, wholeMs, selectedMs } }
    }),
  },
  {
    name: 'reconcile-throughput',
    unit: 'objects/s',
    note: 'a controller with 64 at once that reports on each object; baseline: the same reports without a controller',
    run: fresh(async ({ engine }) => {
      const count = times(5000)
      const rp = await engine()
      const handle = await rp.open(sites)
      for (let n = 0; n < count; n += 500) {
        await Promise.all(
          Array.from({ length: Math.min(500, count - n) }, (_, i) =>
            handle.create({ name: nameOf(n + i), spec: specOf(n) }),
          ),
        )
      }
      const report = (name, ready) => handle.report({ name, observedGeneration: 1, status: { ready } })
      const baseline = await perSecond(count, () =>
        Promise.all(
          Array.from({ length: atOnce }, async (_, i) => {
            for (let n = i; n < count; n += atOnce) await report(nameOf(n), 1)
          }),
        ),
      )
      let calls = 0
      const scaler = controller('scaler', {
        watch: [sites],
        concurrency: atOnce,
        async reconcile({ object, report }) {
          calls += 1
          if (object && object.status?.ready !== 2) await report({ status: { ready: 2 } })
        },
      })
      const value = await perSecond(count, async () => await (await rp.open(scaler)).settled())
      return { value, baseline, details: { callsPerObject: calls / count } }
    }),
  },
  {
    name: 'cache-bytes',
    unit: 'bytes/object',
    note: 'heap per object in the cache of an informer; baseline: the same objects, parsed from JSON, in a Map',
    run: fresh(async ({ engine }) => {
      const count = times(50_000)
      const writer = await engine()
      const handle = await writer.open(sites)
      for (let n = 0; n < count; n += 1000) {
        await Promise.all(
          Array.from({ length: Math.min(1000, count - n) }, (_, i) =>
            handle.create({
              name: nameOf(n + i),
              labels: { app: 'web' },
              spec: { ...specOf(n), text: `${text}${n + i}` },
            }),
          ),
        )
      }
      await handle.checkpoint()
      const texts = (await handle.list()).items.map((object) => JSON.stringify(object))
      await writer.close()
      const before = heap()
      const map = new Map(texts.map((each) => JSON.parse(each)).map((object) => [object.name, object]))
      const plain = heap() - before
      const rp = await engine()
      const start = heap()
      const cache = await rp.open(informer('cache', { of: sites }))
      if (cache.list().length !== map.size) throw new Error('the cache has not everything')
      return { value: (heap() - start) / count, baseline: plain / count }
    }),
  },
  etcdBench('etcd-put', 0),
  etcdBench('etcd-watch-100', 100),
]

function etcdBench(name, watchers) {
  return {
    name,
    unit: 'writes/s',
    note: `${atOnce} writes at once${watchers ? `, until ${watchers} watchers have seen the last` : ''}: ours in this process on SQLite; baseline: etcd over its JSON gateway`,
    setup: async () => {
      etcd = await startEtcd()
    },
    teardown: async () => {
      await etcd?.stop()
      etcd = null
    },
    run: fresh(async ({ engine, index }) => {
      if (!etcd) return { skip: 'there is no etcd here: apt-get install etcd-server' }
      const handle = await (await engine()).open(sites)
      await prepared(handle)
      // etcd's gateway is slow with a hundred streams.
      const count = times(watchers > 0 ? 640 : 3200)
      if (index % 2 === 0) {
        const value = await writesWith(watchers, handle, count)
        return { value, baseline: await etcdWrites(watchers, count) }
      }
      const baseline = await etcdWrites(watchers, count)
      return { value: await writesWith(watchers, handle, count), baseline }
    }),
  }
}

async function etcdWrites(watchers, count) {
  let left = watchers * count
  let done = () => {}
  const seen = new Promise((resolve) => {
    done = resolve
  })
  if (left === 0) done()
  const told = (events) => {
    left -= events
    if (left <= 0) done()
  }
  const streams = await Promise.all(Array.from({ length: watchers }, () => etcd.watch('o', told)))
  const value = JSON.stringify({ name: 'o', labels: {}, spec: specOf(0) })
  const rate = await perSecond(count, async () => {
    await Promise.all(
      Array.from({ length: atOnce }, async (_, i) => {
        for (let n = i; n < count; n += atOnce) await etcd.put(`o${i}`, value)
      }),
    )
    await seen
  })
  for (const stream of streams) stream.close()
  return rate
}

async function latencies(handle, watchers) {
  const all = []
  const watches = Array.from({ length: watchers }, () => handle.watch({ from: handle.revision }))
  for (let n = 0; n < times(110); n++) {
    const { elapsedMs } = await time(async () => {
      const seen = watches.map((watch) => watch.next())
      await handle.update({ name: 'o0', revision: 'any', spec: specOf(++written) })
      await Promise.all(seen)
    })
    if (n >= times(10)) all.push(elapsedMs)
  }
  for (const watch of watches) watch.close()
  return all.length > 0 ? all : [0]
}

function at(values, share) {
  return [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))]
}

async function listAll(handle, count) {
  let items = 0
  for (let next; next !== null; ) {
    const page = await handle.list({ limit: 1000, ...(next !== undefined && { continue: next }) })
    items += page.items.length
    next = page.continue
  }
  if (items !== count) throw new Error(`${items} of ${count}`)
}

async function bareList(path, count) {
  const { db } = await bareSqlite(path)
  db.exec('CREATE TABLE object (name TEXT PRIMARY KEY, data TEXT) WITHOUT ROWID')
  const insert = db.prepare('INSERT INTO object VALUES (?, ?)')
  db.exec('BEGIN')
  for (let n = 0; n < count; n++) {
    insert.run(nameOf(n), JSON.stringify({ name: nameOf(n), labels: { app: 'web' }, spec: specOf(n) }))
  }
  db.exec('COMMIT')
  const { elapsedMs } = await time(async () =>
    db
      .prepare('SELECT data FROM object ORDER BY name')
      .all()
      .map((row) => JSON.parse(row.data)),
  )
  db.close()
  return elapsedMs
}

function nameOf(n) {
  return `site-${String(n).padStart(7, '0')}`
}

/** After a full collection. */
function heap() {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc')
  collect()
  collect()
  return process.memoryUsage().heapUsed
}
