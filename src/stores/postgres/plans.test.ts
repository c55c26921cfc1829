// The plans of all frequent statements of a store, on tables of a million rows: with and without statistics, in a
// session that planned while the tables were empty and in a new one. The assertions count the rows and pages that the
// server touched, never the time it took. On other versions of PostgreSQL: npm run test:postgres -- 14 15 16 17

import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { planSettings, showPlan, watchPlans } from '../../../test/support/plans.ts'
import { startPostgres, type TestPostgres } from '../../../test/support/postgres.ts'
import type { Digest } from '../../core/coordinate.ts'
import { originDigest, packEntries } from '../../core/history/entry-run.ts'
import { guardOf } from '../../core/store/commit-guard.ts'
import { type Commit, feedStart, type Head, type Store } from '../../core/store/ports.ts'
import {
  asManifest,
  asOperation,
  asTimeline,
  asWorker,
  hash,
  message,
  utf8,
  worker,
} from '../../testing/conformance/kit.ts'
import { toPosition } from './feed.ts'
import { openPostgres } from './index.ts'

const manyCount = 120_000
const runsOfMany = 5
const runsOfHot = 400_000
/** A lookup of one row reads three or four pages. A page of the feed reads 4,096 runs; nothing else comes near. */
const usual = { rows: 1_200, buffers: 4_000 }
const ofTheFeed = { rows: 4_200, buffers: 18_000 }

let server: TestPostgres
let early: Store
let late: Store
let number = 0

beforeAll(async () => {
  server = await startPostgres(planSettings)
  early = await open('big')
  await (await open('small')).close()
  // Plans are made and cached while the tables are empty.
  for (let i = 0; i < 6; i++) for (const work of Object.values(operations)) await attempt(work)
  await fill(server.url)
  late = await open('big')
}, 300_000)

afterAll(async () => {
  await early?.close()
  await late?.close()
  await server?.stop()
})

/** Most find nothing yet, and fail. */
async function attempt(work: (store: Store) => unknown): Promise<void> {
  try {
    await work(early)
  } catch {}
}

function open(namespace: string): Promise<Store> {
  return openPostgres(`${server.url}?durability=relaxed`, {
    namespace,
    schema: 'plans',
    hash,
    statementTimeoutMs: 20_000,
  })
}

/** One namespace with almost everything: a timeline with 400,000 runs, 120,000 with five each, their mail and checkpoints. */
async function fill(url: string): Promise<void> {
  const client = new pg.Client(url)
  await client.connect()
  const run = (text: string) => client.query(text)
  const digest = (text: string) => `decode(md5(${text}) || md5(${text}), 'hex')`
  await run(
    "SET auto_explain.log_min_duration = -1; SET search_path = plans; SET work_mem = '256MB'; SET maintenance_work_mem = '256MB'",
  )
  await run('TRUNCATE timeline, run, message, manifest, cursor, worker')
  // Transaction numbers of this cluster are small: the positions are below the base.
  await run('UPDATE namespace SET pos_base = 3000000')
  const ns = "(SELECT id FROM namespace WHERE name = 'big')"
  await run('BEGIN')
  await run('DROP INDEX run_feed')
  const columns = `(tid, ns, id, pos_base, epoch, digest, floor_digest, owner, queue, wakeup, mail, status, attributes, base_tid, base_id, base_seq, base_digest, floor, created_at, updated_at)`
  await run(`INSERT INTO timeline ${columns} OVERRIDING SYSTEM VALUE
    SELECT 1000 + i, ${ns}, 'many/' || lpad(i::text, 7, '0'), 3000000, 1, ${digest("'o' || i")}, ${digest("'o' || i")},
      CASE WHEN i % 3 = 0 THEN 'w-alive' WHEN i % 1000 = 1 THEN 'w-dead' END, CASE WHEN i % 2 = 0 THEN 'q' WHEN i % 7 = 0 THEN 'other' WHEN i % 5 = 0 THEN 'crowd' END,
      CASE WHEN i % 4 = 0 THEN 1e13 WHEN i % 5000 = 3 OR (i % 2 = 1 AND i % 5 = 0) THEN 1 END, 0, CASE WHEN i % 10 = 0 THEN 'done' ELSE 'open' END,
      jsonb_build_object('n', i, 'kind', i % 3), CASE WHEN i % 10000 = 9 THEN 999 END, CASE WHEN i % 10000 = 9 THEN 'one/hot' END,
      CASE WHEN i % 10000 = 9 THEN 0 END, CASE WHEN i % 10000 = 9 THEN ${digest("'o' || i")} END, 0, 1, 1
    FROM generate_series(1, ${manyCount}) i`)
  await run(`INSERT INTO timeline ${columns} OVERRIDING SYSTEM VALUE
    SELECT 999, ${ns}, 'one/hot', 3000000, 1, ${digest("'hot'")}, ${digest("'hot'")}, 'w-alive', 'q', NULL, 20000, 'open', '{}', NULL, NULL, NULL, NULL, 0, 1, 1`)
  await run("SELECT setval(pg_get_serial_sequence('plans.timeline', 'tid'), 2000000)")
  await run(`INSERT INTO run (tid, last, first, pos, written_at, ns, digest, bytes)
    SELECT CASE WHEN i <= ${runsOfHot} THEN 999 ELSE 1000 + 1 + (i - ${runsOfHot} - 1) / ${runsOfMany} END,
      x.seq, x.seq, i, 1, ${ns}, ${digest('i::text')}, decode(repeat('ab', 60), 'hex')
    FROM generate_series(1, ${runsOfHot + manyCount * runsOfMany}) i,
    LATERAL (SELECT CASE WHEN i <= ${runsOfHot} THEN i ELSE 1 + (i - ${runsOfHot} - 1) % ${runsOfMany} END AS seq) x`)
  await run('CREATE INDEX run_feed ON run (ns, pos, id)')
  await run(`INSERT INTO message (tid, sent_at, consumed_at, id, kind, data)
    SELECT CASE WHEN i <= 150000 THEN 999 ELSE 1000 + i - 150000 END, 1, CASE WHEN i <= 130000 OR i > 150000 THEN 1 END, 'm' || i, 'signal', ''
    FROM generate_series(1, 250000) i`)
  await run(`INSERT INTO manifest (tid, seq, epoch, created_at, total_bytes, added_bytes, verified_at, ns, is_pinned, digest, body_digest, id, trigger, fold_version, body)
    SELECT CASE WHEN i <= 60 THEN 999 ELSE 1000 + i END, CASE WHEN i <= 60 THEN i * 1000 ELSE 1 END, 1, 1, 1, 1, 1, ${ns}, false, ${digest('i::text')}, '', 'c' || i, 'count', '1', ''
    FROM generate_series(1, 100000) i`)
  await run(
    `INSERT INTO chunk (ns, digest, touched_at, bytes) SELECT ${ns}, ${digest("'c' || i")}, 1, 'x' FROM generate_series(1, 100000) i`,
  )
  await run(`INSERT INTO worker (ns, id, lease_ms, progress, started_at, beat_at, progress_at, name, host, process, info)
    VALUES (${ns}, 'w-alive', 1e15, 0, 1, 1, 1, 'w', 'h', 'p', '{}'), (${ns}, 'w-dead', 1, 0, 1, 1, 1, 'w', 'h', 'p', '{}')`)
  await run(
    `INSERT INTO cursor (ns, name, tid, moved_at, position) SELECT ${ns}, 'k' || i, 1000 + i, 1, lpad('900000', 16, '0') || '-' || lpad('0', 16, '0') FROM generate_series(1, 50) i`,
  )
  await run('COMMIT')
  await client.end()
}

async function append(store: Store, ids: readonly string[], more: Partial<Commit> = {}, count = 1): Promise<void> {
  const heads = await store.head(ids.map(asTimeline))
  const commits = heads.map((head) => ({ ...appending(head!, count), ...more }))
  for (const outcome of await store.commit(commits)) expect(outcome).toMatchObject({ ok: true })
}

function appending({ timeline, epoch, seq, digest }: Head, count: number): Commit {
  const drafts = Array.from({ length: count }, () => ({
    type: 'noted',
    version: 1,
    time: 1,
    data: utf8(`${++number}`),
  }))
  const run = packEntries(hash, { before: digest, first: seq + 1, epoch }, drafts)
  return { operation: asOperation(`o${++number}`), guard: { timeline, epoch, seq, digest }, run }
}

async function change(store: Store, id: string, more: Partial<Commit>): Promise<void> {
  const [head] = await store.head([asTimeline(id)])
  const guard = more.forget ? guardOf(head!) : { timeline: asTimeline(id), epoch: head!.epoch }
  expect(await store.commit([{ operation: asOperation(`o${++number}`), guard, ...more }])).toMatchObject([{ ok: true }])
}

function making(id: string): Commit {
  const digest = originDigest(hash, asTimeline(id))
  const run = packEntries(hash, { before: digest, first: 1, epoch: 1 }, [
    { type: 'noted', version: 1, time: 1, data: utf8('x') },
  ])
  const take = { worker: asWorker('w-alive'), from: 'free' as const, create: { digest } }
  const guard = { timeline: asTimeline(id), epoch: 0, seq: 0, digest }
  return { operation: asOperation(`o${++number}`), guard, take, run, queue: 'q', status: 'open' }
}

const some = ['many/0000010', 'many/0000013', 'many/0060000', 'many/0119999', 'one/hot', 'nobody']
const bytes = (text: string): Digest => hash(utf8(text))
const half = toPosition({ pos: 500_000, id: 0 })
const end = toPosition({ pos: 999_990, id: 0 })

/** By name: every frequent operation of a store, without those that scan everything on purpose: inspect, tidy, facts. */
const operations: Readonly<Record<string, (store: Store) => unknown>> = {
  'feed from the start': (store) => store.feed(feedStart, {}, 1000),
  'feed from the middle': (store) => store.feed(half, {}, 1000),
  'feed at its end': (store) => store.feed(end, {}, 1000),
  'feed of a prefix that everything has': (store) => store.feed(half, { prefixes: ['one/', 'many/'] }, 1000),
  'feed of a prefix that nothing has': (store) => store.feed(feedStart, { prefixes: ['zebra/', 'none'] }, 1000),
  'feed of a prefix that one has': (store) => store.feed(half, { prefixes: ['many/0020000'] }, 100),
  'read one': (store) => store.read(asTimeline('many/0000010'), 0, 1e6),
  'read the large one from its start': (store) => store.read(asTimeline('one/hot'), 0, 20_000),
  'read the large one from its middle': (store) => store.read(asTimeline('one/hot'), 200_000, 20_000),
  'read the large one at its end': (store) => store.read(asTimeline('one/hot'), runsOfHot - 2, 20_000),
  heads: (store) => store.head(some.map(asTimeline)),
  'many heads': (store) =>
    store.head(Array.from({ length: 300 }, (_, i) => asTimeline(`many/${String(i * 300).padStart(7, '0')}`))),
  'inbox of the large one': (store) => store.inbox(asTimeline('one/hot'), 100),
  'inbox of a small one': (store) => store.inbox(asTimeline('many/0000010'), 100),
  'inbox of none': (store) => store.inbox(asTimeline('nobody'), 100),
  checkpoints: (store) => store.checkpoints(asTimeline('one/hot')),
  'checkpoints of a small one': (store) => store.checkpoints(asTimeline('many/0000100')),
  cursors: (store) => store.cursors(),
  workers: (store) => store.workers(),
  beat: (store) => store.beat(worker('w-alive', { leaseMs: 1e15 })),
  'pass over a feed that nothing matches': (store) => store.feed(feedStart, { prefixes: ['nothing/', 'none'] }, 100),
  'is there any checkpoint': (store) => store.upkeep.hasCheckpoints(),
  'list all': (store) => store.timelines({ limit: 100 }),
  'list after one': (store) => store.timelines({ after: asTimeline('many/0060000'), limit: 100 }),
  'list a prefix': (store) => store.timelines({ prefix: 'many/0060000', limit: 100 }),
  'list a prefix that nothing has': (store) => store.timelines({ prefix: 'a/', limit: 100 }),
  'list the archives of one': (store) => store.timelines({ prefix: 'many/0000010', limit: 1000 }),
  'list by a status that nothing has': (store) => store.timelines({ status: 'none', limit: 100 }),
  'list by status and prefix': (store) => store.timelines({ status: 'done', prefix: 'many/0060010', limit: 100 }),
  'list by owner and queue': (store) => store.timelines({ owner: asWorker('w-dead'), queue: 'q', limit: 1000 }),
  'list by an owner that has none': (store) => store.timelines({ owner: asWorker('w-none'), limit: 1000 }),
  'list forks': (store) => store.timelines({ parent: asTimeline('one/hot'), limit: 500 }),
  'list forks of one that has none': (store) => store.timelines({ parent: asTimeline('many/0000010'), limit: 500 }),
  'list forks of one that is not there': (store) => store.timelines({ parent: asTimeline('nobody'), limit: 500 }),
  'list by a rare attribute': (store) => store.timelines({ attributes: { n: 77_777 }, limit: 100 }),
  'append one': (store) => append(store, ['many/0000010']),
  'append one of many entries': (store) => append(store, ['many/0000013'], {}, 5),
  'append to the large one': (store) => append(store, ['one/hot']),
  'append to eight': (store) =>
    append(
      store,
      [10, 13, 22, 25, 28, 31, 34, 37].map((i) => `many/${String(i).padStart(7, '0')}`),
    ),
  'append with a status': (store) => append(store, ['many/0000040'], { status: 'open', wakeup: 1e13 }),
  'append in the general way': (store) => append(store, ['many/0000043'], { attributes: { x: 1 } }),
  make: (store) => store.commit([making(`new/${++number}`), making(`new/${++number}`)]),
  send: (store) =>
    store.commit([
      {
        operation: asOperation(`o${++number}`),
        guard: null,
        send: [message('many/0000046', `m-${++number}`), message('one/hot', `m-${++number}`), message('one/hot', 'm7')],
      },
    ]),
  consume: async (store) => {
    const { messages: mail } = await store.inbox(asTimeline('one/hot'), 3)
    await change(store, 'one/hot', { consume: mail.map(({ id }) => id) })
  },
  publish: (store) =>
    change(store, 'one/hot', {
      publish: [{ ...manifest(`p${++number}`), seq: 5 }],
      marks: [{ id: asManifest('c7'), verifiedAt: 9 }],
    }),
  drop: (store) => change(store, 'many/0000100', { drop: [asManifest(`c${++number}`)] }),
  trim: async (store) => {
    const [run] = await store.read(asTimeline('many/0000049'), 0, 1)
    if (run) await change(store, 'many/0000049', { trim: { seq: run.first, digest: run.digest, restsOn: [] } })
  },
  'move a cursor': (store) => change(store, 'many/0000052', { cursors: { [`mine${++number}`]: end } }),
  'take and release': async (store) => {
    const take = { worker: asWorker('w-alive'), from: 'dead' as const }
    await change(store, 'many/0000055', { take })
    await change(store, 'many/0000055', { release: true })
  },
  fork: async (store) => {
    const [head] = await store.head([asTimeline('many/0000058')])
    const base = { timeline: head!.timeline, seq: 1, digest: bytes('x') }
    const take = { worker: asWorker('w-alive'), from: 'free' as const, create: { digest: bytes('x'), base } }
    const guard = { timeline: asTimeline(`fork/${++number}`), epoch: 0 }
    expect(await store.commit([{ operation: asOperation(`o${++number}`), guard, take }])).toMatchObject([{ ok: true }])
  },
  'roll back': async (store) => {
    const [head] = await store.head([asTimeline('many/0000061')])
    const floor = { seq: head!.floor, digest: head!.floorDigest }
    const branch = { archive: asTimeline(`many/0000061~${++number}`), seq: 1, digest: bytes('y'), floor }
    await change(store, 'many/0000061', { branch })
  },
  forget: async (store) => {
    const id = `gone/${++number}`
    await store.commit([making(id)])
    await change(store, id, { forget: true })
  },
  claim: (store) => store.claim({ worker: asWorker('w-claims'), queues: ['q', 'other'], limit: 10 }),
  'claim where thousands are due': (store) =>
    store.claim({ worker: asWorker('w-claims'), queues: ['crowd'], limit: 10 }),
  'claim where nothing is due': (store) =>
    store.claim({ worker: asWorker('w-claims'), queues: ['nothing'], limit: 10 }),
  'the next due time': (store) => store.nextDue({ queues: ['q', 'other', 'crowd', 'nothing'] }),
  'retire one that has little': (store) => store.retire([asWorker('w-claims')]),
  'put and get chunks': async (store) => {
    await store.blobs.put([1, 2, 3].map((n) => ({ digest: bytes(`new ${n}`), bytes: utf8('x') })))
    await store.blobs.get([bytes('new 1'), bytes('new 9')])
    await store.blobs.list(bytes('new 1'), 100)
    await store.blobs.delete([bytes('new 1')], 1)
  },
  'a commit with a rider': (store) =>
    change(store, 'many/0000064', { userSql: (sql) => (sql.dialect === 'postgres' ? sql.run('SELECT 1') : null) }),
}

function manifest(id: string) {
  const fields = { baseId: null, createdAt: 1, trigger: 'count', label: null, isPinned: false, foldVersion: '1' }
  const notes = { totalBytes: 1, addedBytes: 1, verifiedAt: 1, invalid: null, drilledAt: null, drill: null }
  return {
    id: asManifest(id),
    epoch: 1,
    digest: bytes('x'),
    body: utf8('x'),
    bodyDigest: bytes('x'),
    ...fields,
    ...notes,
  }
}

async function check(store: Store, name: string, work: (store: Store) => unknown): Promise<void> {
  const done = await watchPlans(server, async () => await work(store))
  expect(done.length).toBeGreaterThan(0)
  const max = name.startsWith('feed') ? ofTheFeed : usual
  for (const { text, rows, buffers, scanned, plan } of done) {
    const large = scanned.filter((table) => ['timeline', 'run', 'message', 'manifest', 'chunk'].includes(table))
    const story = `${text.slice(0, 1500)}\n${showPlan(plan)}\nrows ${rows}, buffers ${buffers}`
    expect(large, story).toEqual([])
    expect(rows, story).toBeLessThan(max.rows)
    expect(buffers, story).toBeLessThan(max.buffers)
  }
}

const order = Object.entries(operations)
/** Without statistics the index of the ids is read beside that of the attributes. */
const withoutStatistics = order.filter(([name]) => name !== 'list by a rare attribute')

describe('tables of a million rows, without statistics', () => {
  it.each(withoutStatistics)(
    '%s touches what it needs, planned while they were empty',
    async (name, work) => check(early, name, work),
    120_000,
  )
  it.each(withoutStatistics)(
    '%s touches what it needs, planned now',
    async (name, work) => check(late, name, work),
    120_000,
  )
})

describe('tables of a million rows, with statistics', () => {
  let fresh: Store
  beforeAll(async () => {
    const client = new pg.Client(server.url)
    await client.connect()
    await client.query('SET auto_explain.log_min_duration = -1')
    await client.query('ANALYZE')
    await client.end()
    fresh = await open('big')
  })
  afterAll(() => fresh?.close())

  it.each(order)(
    '%s touches only the needed rows, planned before',
    async (name, work) => check(early, name, work),
    120_000,
  )
  it.each(order)(
    '%s touches only the needed rows, planned now',
    async (name, work) => check(fresh, name, work),
    120_000,
  )
})
