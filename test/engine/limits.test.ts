// The list of limits, one by one: each is enforced where things are made, with LIMIT_EXCEEDED and its name or by waiting,
// and what stays within it works. A limit without an entry here does not compile.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { checkPaths } from '../../src/core/file-tree-path.ts'
import { defaultLimits, type Limits } from '../../src/core/limits.ts'
import type { Store } from '../../src/core/store/ports.ts'
import { openRoot } from '../../src/engine/base/file-tree/folder.ts'
import { scanTree } from '../../src/engine/base/file-tree/scan.ts'
import { timeline } from '../../src/index.ts'
import { resource } from '../../src/layers/resource/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { bendable } from '../entities/support.ts'
import { added, counter } from '../support/definitions.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

const texts = timeline('texts', {
  initial: () => ({ all: [] as unknown[] }),
  apply: (state, { value }: { type: 'put'; value: unknown }) => ({ all: [...state.all, value] }),
})
const put = (value: unknown) => ({ type: 'put' as const, value })
const over = (limit?: string) => ({ code: 'LIMIT_EXCEEDED', ...(limit && { data: { limit } }) })
const nested = (depth: number): unknown => (depth === 0 ? 1 : [nested(depth - 1)])
const noise = (length: number) => Array.from({ length }, () => Math.random().toString(36).slice(2, 4)).join('')

/** An engine with this limit, and the commits that its store received. */
async function watched(world: World, limits: Partial<Limits>) {
  const batches: { commits: number; runs: { count: number; bytes: number }[] }[] = []
  const store = await world.store()
  const commit: Store['commit'] = (commits) => {
    const runs = commits.flatMap(({ run }) => (run ? [{ count: run.count, bytes: run.bytes.length }] : []))
    batches.push({ commits: commits.length, runs })
    return store.commit(commits)
  }
  const rp = await world.engine({ limits, ports: { store: bendable(store, { commit }) } })
  return { rp, batches }
}

/** Below works, above does not, and afterwards below works still. */
type Walk = (world: World) => Promise<void>

const walk: Readonly<Record<keyof Limits, Walk>> = {
  async idLength(world) {
    const rp = await world.engine({ limits: { idLength: 12 } })
    await rp.open(counter, 'abcd')
    await expect(rp.open(counter, 'abcdef')).rejects.toMatchObject(over('idLength'))
    await expect(rp.fork({ timeline: 'counter/abcd', seq: 0 }, 'counter/abcdef')).rejects.toMatchObject(
      over('idLength'),
    )
    expect((await rp.list()).map((head) => head.timeline)).toEqual(['counter/abcd'])
  },
  async valueBytes(world) {
    const rp = await world.engine({ limits: { valueBytes: 1000 } })
    const handle = await rp.open(texts, 'a')
    await handle.append(put('x'.repeat(900)))
    await expect(handle.append(put('x'.repeat(1100)))).rejects.toMatchObject(over('valueBytes'))
    await expect(rp.send('texts/a', 'note', 'x'.repeat(1100))).rejects.toMatchObject(over('valueBytes'))
    await handle.append(put('again'))
  },
  async valueDepth(world) {
    const rp = await world.engine({ limits: { valueDepth: 20 } })
    const handle = await rp.open(texts, 'a')
    await handle.append(put(nested(15)))
    await expect(handle.append(put(nested(25)))).rejects.toMatchObject(over('valueDepth'))
    await handle.append(put('again'))
  },
  async entriesPerAppend(world) {
    const rp = await world.engine({ limits: { entriesPerAppend: 3 } })
    const handle = await rp.open(counter, 'a')
    await handle.append([added(1), added(1), added(1)])
    await expect(handle.append([added(1), added(1), added(1), added(1)])).rejects.toMatchObject(over())
    expect(handle.state.total).toBe(3)
  },
  async runBytes(world) {
    const { rp, batches } = await watched(world, { runBytes: 600 })
    const handle = await rp.open(texts, 'a')
    await Promise.all(Array.from({ length: 30 }, () => handle.append(put('x'.repeat(100)))))
    const runs = batches.flatMap((batch) => batch.runs)
    expect(Math.max(...runs.map(({ bytes }) => bytes))).toBeLessThan(1200)
    expect(Math.max(...runs.map(({ count }) => count))).toBeGreaterThan(1)
    expect(handle.state.all.length).toBe(30)
  },
  async runEntries(world) {
    const { rp, batches } = await watched(world, { runEntries: 4 })
    const handle = await rp.open(counter, 'a')
    await Promise.all(Array.from({ length: 30 }, () => handle.append(added(1))))
    const counts = batches.flatMap((batch) => batch.runs.map(({ count }) => count))
    expect(Math.max(...counts)).toBe(4)
    expect(handle.state.total).toBe(30)
  },
  async queuedCommits(world) {
    const rp = await world.engine({ limits: { queuedCommits: 2 } })
    const handle = await rp.open(counter, 'a')
    await Promise.all(Array.from({ length: 50 }, () => handle.append(added(1))))
    expect(handle.state.total).toBe(50)
  },
  async batchCommits(world) {
    const { rp, batches } = await watched(world, { batchCommits: 3 })
    const handles = await Promise.all(Array.from({ length: 12 }, (_, i) => rp.open(counter, `t${i}`)))
    await Promise.all(handles.map((handle) => handle.append(added(1))))
    expect(Math.max(...batches.map(({ commits }) => commits))).toBeLessThanOrEqual(3)
  },
  async batchBytes(world) {
    const { rp, batches } = await watched(world, { batchBytes: 500 })
    const handles = await Promise.all(Array.from({ length: 8 }, (_, i) => rp.open(texts, `t${i}`)))
    await Promise.all(handles.map((handle) => handle.append(put('x'.repeat(300)))))
    for (const { runs } of batches) expect(runs.length).toBeLessThanOrEqual(2)
  },
  async chunkBytes(world) {
    const rp = await world.engine({ limits: { chunkBytes: 2000 } })
    const handle = await rp.open(texts, 'a')
    await handle.append(put(noise(4000)))
    await expect(handle.checkpoint()).rejects.toMatchObject(over('chunkBytes'))
    expect(await rp.checkpoints('texts/a')).toEqual([])
    await handle.append(put('again'))
  },
  async inflateRatio(world) {
    await comesBack(world, { inflateRatio: 3 })
  },
  async inflateBytes(world) {
    await comesBack(world, { inflateBytes: 5000 })
  },
  async streamBytes(world) {
    const small = 300_000
    const rp = await world.engine({ limits: { valueBytes: small, inflateBytes: small, streamBytes: 1_000_000 } })
    const files = save('files')
    const handle = await rp.open(files)
    const bytes = Buffer.from(noise(1_000_001)).subarray(0, 1_000_001)
    // Far more than a value may have: it is never whole in memory.
    await handle.putStream(bytes.subarray(1))
    await expect(handle.putStream(bytes)).rejects.toMatchObject(over('streamBytes'))
    const read = []
    for await (const piece of (await files.read(rp).latest()).stream()) read.push(piece)
    expect(Buffer.concat(read).equals(bytes.subarray(1))).toBe(true)
    expect((await rp.drill()).ok).toBe(true)
  },
  async attributes(world) {
    const { rp, write } = await attributing(world, { attributes: 4 })
    await write({ a: 1, b: 2, c: 3 })
    await expect(write({ d: 4, e: 5 })).rejects.toMatchObject(over('attributes'))
    await write({ d: 4, a: null })
    await expect(write({ a: 1, e: 5 })).rejects.toMatchObject(over('attributes'))
    expect((await rp.head('counter/a'))!.attributes).toMatchObject({ b: 2, c: 3, d: 4 })
  },
  async attributeKeyLength(world) {
    const { write } = await attributing(world, { attributeKeyLength: 10 })
    await write({ '0123456789': 1 })
    await expect(write({ '01234567890': 1 })).rejects.toMatchObject(over('attributeKeyLength'))
  },
  async attributeTextLength(world) {
    const { write, rp } = await attributing(world, { attributeTextLength: 10 })
    await write({ a: '0123456789' })
    await expect(write({ a: '01234567890' })).rejects.toMatchObject(over('attributeTextLength'))
    expect((await rp.head('counter/a'))!.attributes.a).toBe('0123456789')
  },
  async listedTimelines(world) {
    const rp = await world.engine({ limits: { listedTimelines: 2 } })
    for (const id of ['a', 'b']) await rp.open(counter, id)
    expect((await rp.list()).length).toBe(2)
    await rp.open(counter, 'c')
    await expect(rp.list()).rejects.toMatchObject(over())
    expect((await rp.list({ limit: 10 })).length).toBe(3)
  },
  async forkDepth(world) {
    const rp = await world.engine({ limits: { forkDepth: 3 } })
    const origin = await rp.open(counter, 'f0')
    await origin.append(added(1))
    await origin.close()
    const forkOf = (n: number) => rp.fork({ timeline: `counter/f${n}`, seq: 1 }, `counter/f${n + 1}`)
    for (let n = 0; n < 3; n++) {
      await forkOf(n)
      // A fork without entries of its own is a fork of the rest of its parent.
      const fork = await rp.open(counter, `f${n + 1}`)
      await fork.append(added(1))
      await fork.close()
    }
    const deep = { timeline: 'counter/f3', seq: 2 }
    await rp.fork({ ...deep, timeline: 'counter/f2' }, 'counter/sibling')
    await expect(rp.fork(deep, 'counter/f4')).rejects.toMatchObject(over('forkDepth'))
    expect((await rp.open(counter, 'f3')).state.total).toBe(2)
  },
  async treeDepth() {
    await scanned({ treeDepth: 1 }, ['a/b/c/file'], ['a/file'])
    expect(() => checkPaths(['a/b/c'], { ...defaultLimits, treeDepth: 1 })).toThrow(/treeDepth/)
  },
  async treeNames() {
    await scanned({ treeNames: 2 }, ['a', 'b', 'c'], ['a', 'b'])
    expect(() => checkPaths(['a', 'b', 'c'], { ...defaultLimits, treeNames: 2 })).toThrow(/treeNames/)
  },
  async userCodeMs(world) {
    const rp = await world.engine({ limits: { userCodeMs: 50 } })
    const open = await hostOf(rp).openTimeline(timelineId('counter/a'), counter.fold)
    const entry = { type: 'added', data: { by: 1 } }
    await expect(open.write([entry], { userSql: () => new Promise(() => undefined) })).rejects.toMatchObject({
      cause: { code: 'TIMEOUT' },
    })
    await open.write([entry])
    expect(open.state.total).toBe(1)
  },
  async sqlRows(world) {
    const rp = await world.engine({ limits: { sqlRows: 3 } })
    if ((await hostOf(rp).kernel.store.upkeep.facts()).kind === 'memory') {
      await expect(rp.sql`SELECT 1`).rejects.toMatchObject({ code: 'STORE_UNSUPPORTED' })
      return
    }
    await expect(rp.sql(counting(4))).rejects.toMatchObject(over())
    expect(await rp.sql(counting(3))).toHaveLength(3)
  },
  async sqlMs(world) {
    const rp = await world.engine({ limits: { sqlMs: 50, sqlRows: 1e9 } })
    if ((await hostOf(rp).kernel.store.upkeep.facts()).kind === 'memory') {
      await expect(rp.sql`SELECT 1`).rejects.toMatchObject({ code: 'STORE_UNSUPPORTED' })
      return
    }
    await expect(rp.sql(counting(1e9))).rejects.toMatchObject({ code: 'TIMEOUT' })
    expect(await rp.sql(counting(3))).toHaveLength(3)
  },
  async watchedChanges(world) {
    await watchesBeyond(world, { watchedChanges: 3 })
  },
  async watchedBytes(world) {
    await watchesBeyond(world, { watchedBytes: 2000 })
  },
}

/** Within it, changes come from memory; beyond it, from history, and none is missing. */
async function watchesBeyond(world: World, limits: Partial<Limits>): Promise<void> {
  const reads: string[] = []
  const store = await world.store()
  const read: Store['read'] = (timeline, after, bytes) => {
    reads.push(timeline)
    return store.read(timeline, after, bytes)
  }
  const rp = await world.engine({ limits, ports: { store: bendable(store, { read }) } })
  const handle = await rp.open(resource('sites'))
  const watched = async (from: number) => {
    const watch = handle.watch({ from })
    const events = []
    while (watch.revision < handle.revision) events.push(await watch.next())
    watch.close()
    return events.length
  }
  for (let i = 0; i < 2; i++) await handle.create({ name: `${i}`, spec: 'x'.repeat(100) })
  expect(await watched(0)).toBe(2)
  expect(reads).toEqual([])
  for (let i = 2; i < 8; i++) await handle.create({ name: `${i}`, spec: 'x'.repeat(100) })
  expect(await watched(0)).toBe(8)
  expect(reads).not.toEqual([])
}

const counting = (rows: number) =>
  `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${rows}) SELECT i FROM n`

/** Compressible data is stored in a form that the same limits can read. */
async function comesBack(world: World, limits: Partial<Limits>): Promise<void> {
  const rp = await world.engine({ limits })
  const handle = await rp.open(texts, 'a')
  await handle.append(put('x'.repeat(20_000)))
  await handle.checkpoint()
  await handle.close()
  expect((await (await world.engine({ limits })).open(texts, 'a')).state.all).toEqual(['x'.repeat(20_000)])
}

async function attributing(world: World, limits: Partial<Limits>) {
  const rp = await world.engine({ limits })
  const open = await hostOf(rp).openTimeline(timelineId('counter/a'), counter.fold)
  const write = (attributes: Record<string, string | number | null>) => open.write([], { attributes })
  return { rp, write }
}

async function scanned(limits: Partial<Limits>, tooMuch: readonly string[], fine: readonly string[]): Promise<void> {
  for (const [paths, isFine] of [
    [fine, true],
    [tooMuch, false],
  ] as const) {
    const path = mkdtempSync(join(tmpdir(), 'reprise-limits-'))
    let root: Awaited<ReturnType<typeof openRoot>> | undefined
    try {
      root = await openRoot(path)
      for (const each of paths) await write(path, each)
      const everything = { start: null, descend: async () => null, isLeftAlone: () => false }
      const scan = scanTree(root, everything, { ...defaultLimits, ...limits })
      if (isFine) await scan
      else await expect(scan).rejects.toMatchObject(over())
    } finally {
      await root?.close()
      rmSync(path, { recursive: true, force: true })
    }
  }
}

async function write(root: string, path: string): Promise<void> {
  const { mkdir, writeFile } = await import('node:fs/promises')
  const { dirname } = await import('node:path')
  await mkdir(dirname(join(root, path)), { recursive: true })
  await writeFile(join(root, path), 'x')
}

onEveryStore('limits', (world) => {
  it.each(Object.keys(defaultLimits) as (keyof Limits)[])('%s is enforced where things are made', async (name) => {
    await walk[name](await world())
  })
})
