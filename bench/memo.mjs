// Memos: hits beside bare reads, a tree of files beside git status, an artifact beside a plain copy, and many clients at one
// server. REPRISE_BENCH_SCALE=0.05 for a quick run; REPRISE_BENCH_BYTES is the size of the artifact.

import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { closeSync, fsyncSync, mkdirSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { open } from '../dist/index.js'
import { command, memo } from '../dist/layers/memo/index.js'
import { serve } from '../dist/server/index.js'
import { listen } from '../dist/server/listen.js'
import { pair, perSecond, time } from './measure.mjs'
import { bareSqlite, temporaryFolder } from './support/stores.mjs'

const scale = Number(process.env.REPRISE_BENCH_SCALE ?? 1)
const times = (count) => Math.max(1, Math.round(count * scale))
const artifactBytes = Number(process.env.REPRISE_BENCH_BYTES ?? times(1024 * 1024 * 1024))
const entries = times(1000)
const hits = times(10_000)

/** A bench with a folder and an engine of its own, created before its runs. */
function bench(name, unit, more, make) {
  let made
  let place
  return {
    name,
    unit,
    ...more,
    async setup() {
      place = temporaryFolder()
      made = await make(place)
    },
    run: (given) => made.run(given),
    async teardown() {
      await made?.close()
      place?.remove()
    },
  }
}

/** `cacheBytes: 0`: a result in memory would not be read from the store. */
const small = (cacheBytes) => memo('small', { version: 1, cacheBytes, run: (n) => ({ n, text: `result ${n}` }) })

async function hitting(place, cacheBytes) {
  const rp = await open(`sqlite:${place.path('store.db')}`, { housekeeping: false })
  const handle = await rp.open(small(cacheBytes))
  for (let n = 0; n < entries; n++) await handle.call(n)
  const { db: bare } = await bareSqlite(place.path('bare.db'))
  bare.exec('CREATE TABLE results (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID')
  const insert = bare.prepare('INSERT INTO results VALUES (?, ?)')
  for (let n = 0; n < entries; n++) insert.run(`key-${n}`, JSON.stringify({ n, text: `result ${n}` }))
  const select = bare.prepare('SELECT value FROM results WHERE key = ?')
  const ours = async () => {
    for (let i = 0; i < hits; i++) await handle.call(i % entries)
  }
  const bareReads = async () => {
    for (let i = 0; i < hits; i++) JSON.parse(select.get(`key-${i % entries}`).value)
  }
  await ours()
  await bareReads()
  return {
    run: pair({ value: () => perSecond(hits, ours), baseline: () => perSecond(hits, bareReads) }),
    async close() {
      bare.close()
      await rp.close()
    },
  }
}

async function tree(place, isFirst) {
  const files = times(20_000)
  const root = place.path('tree')
  for (let n = 0; n < files; n++) {
    if (n % 100 === 0) mkdirSync(`${root}/src/${n / 100}`, { recursive: true })
    writeFileSync(`${root}/src/${Math.floor(n / 100)}/${n}.ts`, `export const n = ${n}\n`)
  }
  const git = (...args) => execFileSync('git', args, { cwd: root, encoding: 'utf8', maxBuffer: 1e9 })
  git('init', '-q')
  git('add', '-A')
  git('-c', 'user.name=a', '-c', 'user.email=a@a', 'commit', '-qm', 'a')
  // A file that changed within two seconds before a scan is read again: its times may be too coarse.
  await new Promise((resolve) => setTimeout(resolve, 2500))
  const definition = () => command('look', { cmd: 'true', directory: root, inputs: ['src/**'] })
  let index = 0
  const looking = async () => {
    const rp = await open(`sqlite:${place.path(isFirst ? `store-${index++}.db` : 'store.db')}`, { housekeeping: false })
    const handle = await rp.open(definition())
    const { elapsedMs } = await time(() => handle.explain())
    await rp.close()
    return elapsedMs
  }
  if (!isFirst) for (let i = 0; i < 2; i++) await looking()
  const status = async () => {
    if (isFirst) rmSync(`${root}/.git/index`)
    if (isFirst) return (await time(() => git('add', '-A'))).elapsedMs
    return (await time(() => git('status', '--porcelain'))).elapsedMs
  }
  await status()
  return { run: pair({ value: looking, baseline: status }), close: async () => undefined }
}

async function restoring(place) {
  const root = place.path('project')
  mkdirSync(`${root}/src`, { recursive: true })
  const piece = randomBytes(4 * 1024 * 1024)
  const written = (path) => {
    const file = openSync(path, 'w')
    for (let left = artifactBytes; left > 0; left -= piece.length) {
      piece.writeUInt32LE(left >>> 0, 0)
      writeSync(file, piece, 0, Math.min(left, piece.length))
    }
    fsyncSync(file)
    closeSync(file)
  }
  written(`${root}/src/in.bin`)
  const rp = await open(`sqlite:${place.path('store.db')}`, { housekeeping: false })
  const cmd = 'mkdir -p dist && cp src/in.bin dist/out.bin'
  const handle = await rp.open(command('copy', { cmd, directory: root, inputs: ['src/**'], outputs: ['dist/**'] }))
  await handle.run()
  const mebibytes = artifactBytes / 1024 / 1024
  return {
    run: pair({
      async value() {
        rmSync(`${root}/dist`, { recursive: true, force: true })
        const { elapsedMs, result } = await time(() => handle.run())
        if (result.from !== 'store') throw new Error('it was not restored')
        return (mebibytes * 1000) / elapsedMs
      },
      async baseline() {
        rmSync(`${root}/copy`, { recursive: true, force: true })
        mkdirSync(`${root}/copy`)
        const { elapsedMs } = await time(() => execFileSync('cp', ['src/in.bin', 'copy/out.bin'], { cwd: root }))
        return (mebibytes * 1000) / elapsedMs
      },
    }),
    close: () => rp.close(),
  }
}

async function clients(place) {
  const rp = await open(`sqlite:${place.path('store.db')}`, { housekeeping: false })
  const token = 'bench-'.padEnd(40, 'x')
  const server = serve(rp, { tokens: [{ name: 'bench', token, role: 'write' }] })
  const listening = await listen(server, { port: 0, limits: { headerBytes: 16_384, requestMs: 60_000, closeMs: 1000 } })
  const headers = { authorization: `Bearer ${token}` }
  const bytes = randomBytes(20_000)
  const ask = async (key, method, body) => {
    const answer = await fetch(`${listening.url}/cache/bench/${key}`, { method, headers, ...(body && { body }) })
    const got = await answer.arrayBuffer()
    if (!answer.ok) throw new Error(`${method} answered ${answer.status}`)
    return got.byteLength
  }
  const [count, each] = [100, times(50)]
  for (let n = 0; n < count; n++) await ask(`k${n}`, 'PUT', bytes)
  const all = (work) => Promise.all(Array.from({ length: count }, (_, client) => work(client)))
  const reads = () =>
    all(async (client) => {
      for (let i = 0; i < each; i++) await ask(`k${(client + i) % count}`, 'GET')
    })
  const one = async () => {
    for (let i = 0; i < each * 4; i++) await ask(`k${i % count}`, 'GET')
  }
  await reads()
  return {
    run: pair({ value: () => perSecond(count * each, reads), baseline: () => perSecond(each * 4, one) }),
    async close() {
      await listening.close()
      await server.close()
      await rp.close()
    },
  }
}

export default [
  bench(
    'hit-small',
    'hits/s',
    {
      target: { ratioMin: 0.3 },
      note: `${entries} small results, held in memory as by default, over bare SQLite reads by key with JSON.parse`,
    },
    (place) => hitting(place, undefined),
  ),
  bench(
    'hit-small-store',
    'hits/s',
    { note: 'the same with cacheBytes: 0: each hit is read from the store and checked' },
    (place) => hitting(place, 0),
  ),
  bench(
    'tree-first-look',
    'ms',
    { note: `${times(20_000)} files, nothing known of them, over git add of the same` },
    (place) => tree(place, true),
  ),
  bench(
    'tree-second-look',
    'ms',
    { note: `${times(20_000)} files, in a new engine, over git status of the same` },
    (place) => tree(place, false),
  ),
  bench(
    'restore-artifact',
    'MiB/s',
    { note: `${Math.round(artifactBytes / 1024 / 1024)} MiB that do not compress, over cp` },
    restoring,
  ),
  bench(
    'server-100-clients',
    'requests/s',
    { note: '100 clients reading artifacts of 20 kB, in the same process, over one client' },
    clients,
  ),
]
