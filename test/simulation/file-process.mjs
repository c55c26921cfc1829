// One process of the file simulation, on a thread of its own: a real SQLite store over the shared file, through a driver that
// waits for permission before every statement. The main thread permits one process at a time, so its seed decides the
// interleaving of statements. A process without permission is paused.

import { parentPort, workerData } from 'node:worker_threads'
import { originDigest, packEntries } from '../../dist/core/history/entry-run.js'
import { isReprise } from '../../dist/index.js'
import { loadDriver } from '../../dist/stores/sqlite/file/driver.js'
import { openSqlite } from '../../dist/stores/sqlite/index.js'
import { insertAtEnd } from '../../dist/stores/sqlite/log/log-end.js'
import { sha256 } from './sha256.mjs'
import { stackOf } from './violation.mjs'

/** As file-threads.mjs knows them. */
const states = { waiting: 1, done: 2 }

const { port, control } = workerData
const utf8 = new TextEncoder()
// Waiting for a lock is a matter of turns here, not of time.
globalThis.setTimeout = /** @type {any} */ ((call, _ms, ...given) => setImmediate(call, ...given))

let now = 0
// `inspect` reads fewer rows per statement when it is slow. By the clock of the machine, its number of statements would
// depend on the load of the machine and on the pauses between statements.
performance.now = () => now
/** 'never', 'between' transactions, or at 'every' statement. */
let gate = 'never'
/** @type {string | null} */
let plant = null
/** @typedef {{ readonly file: string, readonly namespace: string, readonly readOnly: boolean }} Place */
/** @typedef {import('../../dist/core/store/ports.js').Store} Store */
/** @typedef {import('../../dist/stores/sqlite/file/driver.js').Driver} Driver */
/** There is none until the first `open`: an earlier access is a mistake. */
let place = /** @type {Place} */ (/** @type {unknown} */ (null))
let store = /** @type {Store} */ (/** @type {unknown} */ (null))
let driver = /** @type {Driver} */ (/** @type {unknown} */ (null))

const operations = {
  async open({ file, namespace, readOnly = false, gate: wanted, plant: planted = null }) {
    await store?.close()
    plant = planted
    gate = wanted
    place = { file, namespace, readOnly }
    await openStore()
  },
  async close() {
    await store?.close()
    store = /** @type {Store} */ (/** @type {unknown} */ (null))
  },
  async reopen() {
    await store.close()
    await openStore()
  },
  take: ({ timeline, operation, worker }) =>
    retake(timeline, operation, (head) => ({
      take: {
        worker,
        from: 'anyone',
        ...(!head && { create: { digest: originDigest(sha256, timeline) } }),
      },
    })),
  /** Several appends in one batch, each by what its process believes. */
  async append({ appends }) {
    const commits = appends.map(({ timeline, operation, epoch, seq, digest, texts, ...more }) => ({
      operation,
      guard: { timeline, epoch, seq, digest },
      run: packEntries(
        sha256,
        { before: digest, first: seq + 1, epoch },
        texts.map((text) => ({ type: 'n', version: 1, time: 1, data: utf8.encode(text) })),
      ),
      ...more,
    }))
    return answerOf(commits, await store.commit(commits))
  },
  /** A commit without entries, as it is. */
  async commit({ commit }) {
    return answerOf([commit], await store.commit([commit]))
  },
  async checkpoint({ timeline, operation, epoch, seq, digest }) {
    const body = utf8.encode(operation)
    const record = {
      ...{
        id: /** @type {import('../../dist/core/coordinate.js').ManifestId} */ (`c-${operation}`),
        seq,
        epoch,
        digest,
        body,
        bodyDigest: sha256(body),
        baseId: null,
        createdAt: now,
      },
      ...{ trigger: 'count', label: null, isPinned: false, foldVersion: '1', totalBytes: 1, addedBytes: 1 },
      ...{ verifiedAt: now, invalid: null, drilledAt: null, drill: null },
    }
    const commit = { operation, guard: { timeline, epoch, seq, digest }, publish: [record] }
    return answerOf([commit], await store.commit([commit]))
  },
  tidy: () => store.upkeep.tidy(now - 50),
  async inspect() {
    const faults = await store.upkeep.inspect()
    if (faults.length > 0) throw new Error(JSON.stringify(faults))
  },
  beat: ({ worker }) =>
    store.beat({ id: worker, name: 'w', host: 'h', process: 'p', leaseMs: 1e9, info: {}, progress: 0 }),
  retire: ({ worker: id }) => store.retire([id]),
  async chunks({ text }) {
    const bytes = utf8.encode(text)
    await store.blobs.put([{ digest: sha256(bytes), bytes }])
    const old = await store.blobs.list(null, 2)
    await store.blobs.delete(
      old.map((row) => row.digest),
      now - 50,
    )
  },
  send: ({ to, operation }) =>
    store.commit([{ operation, guard: null, send: [{ id: operation, to, kind: 'k', data: utf8.encode('x') }] }]),
  vacuum() {
    const database = gatedDriver(driver).open(place.file, { isReadOnly: false })
    try {
      database.exec('VACUUM')
    } catch (error) {
      if (!/locked|busy/.test(stackOf(error))) throw error
    } finally {
      database.close()
    }
  },
  /** The whole content, as this process sees it. */
  async look({ names, fresh = false, deep = false }) {
    const looking = fresh ? await openSqlite(place.file, { ...place, hash: sha256, readOnly: true }) : store
    try {
      const heads = await looking.head(names)
      const runs = []
      for (const [i, head] of heads.entries()) runs.push(head ? await readAll(looking, names[i], head.floor) : [])
      const fed = []
      for (let after = '', isEnd = false; !isEnd; ) {
        const page = await looking.feed(after, {}, 50)
        for (const { timeline, run } of page.items) fed.push({ timeline, first: run.first, digest: run.digest })
        after = page.next
        isEnd = page.isEnd
      }
      return { heads, runs, fed, faults: deep ? await looking.upkeep.inspect() : [], rule: ruleOf() }
    } finally {
      if (fresh) await looking.close()
    }
  },
}

async function readAll(looking, name, floor) {
  const runs = []
  for (let after = floor; ; after = runs.at(-1).first + runs.at(-1).count - 1) {
    const part = await looking.read(name, after, 4096)
    if (part.length === 0) return runs
    runs.push(...part.map(({ first, count, digest }) => ({ first, count, digest })))
  }
}

/** The caches of a process, and the end of the log: neither may change without the other (log-end.ts). */
function ruleOf() {
  const database = driver.open(place.file, { isReadOnly: true })
  try {
    const kept = ['space', 'timeline', 'head', 'attribute', 'manifest', 'cursor', 'sweep', 'anchor'].map((table) =>
      database.prepare(`SELECT * FROM reprise_${table}`).all(),
    )
    const end = database.prepare('SELECT max(position) AS end FROM reprise_log').get()?.end
    return { kept: JSON.stringify(kept, (_, value) => (value instanceof Uint8Array ? [...value] : value)), end }
  } finally {
    database.close()
  }
}

async function retake(timeline, operation, partsFor) {
  const [head] = await store.head([timeline])
  const digest = head?.digest ?? originDigest(sha256, timeline)
  const { epoch } = head ?? (await store.past([timeline]))[0]
  const guard = { timeline, epoch, seq: head?.seq ?? 0, digest }
  const commit = { operation, guard, ...partsFor(head) }
  return { ...answerOf([commit], await store.commit([commit])), digest }
}

/** Riders and functions cannot cross threads; none are sent. */
function answerOf(commits, outcomes) {
  return { commits, outcomes: outcomes.map(({ head: _, ...outcome }) => outcome) }
}

async function openStore() {
  driver ??= await loadDriver()
  const { file, namespace, readOnly } = place
  const options = { namespace, hash: sha256, readOnly, clock: () => now, busyMs: Number.POSITIVE_INFINITY }
  store = await openSqlite(file, { ...options, driver: gatedDriver(driver) })
}

function gatedDriver(real) {
  return {
    name: real.name,
    open(file, options) {
      const database = real.open(file, options)
      const gated = gatedBy({ isInside: false })
      return {
        exec: (sql) => gated(sql, () => database.exec(sql.replace(/busy_timeout = \d+/, 'busy_timeout = 0'))),
        prepare: (sql) => gatedStatement(database, sql, gated),
        close: () => database.close(),
      }
    },
  }
}

/** Inside a transaction no other process can write, and a reader sees one state of the file: little can come in between. */
function gatedBy(transaction) {
  return (sql, work) => {
    if (gate === 'every' || (gate === 'between' && !transaction.isInside)) waitForLeave()
    const result = work()
    if (/^BEGIN/.test(sql)) transaction.isInside = true
    if (/^(COMMIT|ROLLBACK$)/.test(sql)) transaction.isInside = false
    return result
  }
}

function gatedStatement(database, sql, gated) {
  const isUnfenced = plant === 'row-anywhere' && sql === insertAtEnd
  const statement = database.prepare(isUnfenced ? 'INSERT INTO reprise_log (position, body) VALUES (?, ?)' : sql)
  const run = (...values) => gated(sql, () => statement.run(...values))
  return {
    run: isUnfenced ? (...values) => orNotTheEnd(() => run(...values)) : run,
    get: (...values) => gated(sql, () => statement.get(...values)),
    all: (...values) => gated(sql, () => statement.all(...values)),
    iterate: (...values) => gated(sql, () => statement.iterate(...values)),
    setReadBigInts: (isOn) => statement.setReadBigInts(isOn),
  }
}

/** Planted: only an existing row blocks it, as in the past. */
function orNotTheEnd(work) {
  try {
    return work()
  } catch (error) {
    throw /UNIQUE/.test(stackOf(error)) ? new Error('datatype mismatch') : error
  }
}

function waitForLeave() {
  Atomics.store(control, 1, 0)
  tell(states.waiting)
  while (Number(Atomics.load(control, 1)) === 0) Atomics.wait(control, 1, 0)
}

function tell(state) {
  Atomics.store(control, 0, state)
  Atomics.notify(control, 0)
}

port.on('message', async ({ name, given, at }) => {
  now = at
  let answer
  try {
    answer = { ok: true, value: await operations[name](given) }
  } catch (error) {
    answer = { ok: false, code: isReprise(error) ? error.code : 'UNEXPECTED', message: stackOf(error) }
  }
  port.postMessage(answer)
  tell(states.done)
})
parentPort?.postMessage('ready')
