// Rows and data of older versions: where there is no history to rebuild them from, a migration converts them; code without it
// names the missing migration, and older code refuses newer data.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { timeline } from '../../src/index.ts'
import { agent } from '../../src/layers/agent/index.ts'
import { aggregate } from '../../src/layers/events/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { pagedTable, stateStore, table } from '../../src/layers/table/index.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore, type World } from '../support/worlds.ts'
import { collect, until } from './support.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })

interface Old {
  readonly name: string
}
interface Today {
  readonly names: readonly string[]
  readonly key: string
}

const policy = { checkpoint: { every: 10 }, retain: { checkpoints: 1, history: 'needed' } } as const
const old = table<Old>('people', policy)
const migrations = { 1: ({ name }: Old, key: string) => ({ names: [name], key }) }
const today = table<Today>('people', { ...policy, version: 2, migrations })
const unmigrated = table<Today>('people', { ...policy, version: 2 })
const later = table<Today>('people', {
  ...policy,
  version: 3,
  migrations: { 1: migrations[1], 2: ({ names, key }: Today) => ({ names: [...names, '3'], key }) },
})

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

/** The newest checkpoint of this timeline without any history, in another store. */
async function carried(rp: Reprise, id: string, there: World, as?: string): Promise<Reprise> {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-rows-'))
  folders.push(folder)
  const path = join(folder, 'state.savepoint')
  const { seq } = (await rp.head(id))!
  await rp.export({ timeline: id, seq }, path, { stateOnly: true })
  const other = await there.engine()
  await other.import(path, as === undefined ? {} : { as })
  return other
}

async function fill(rp: Reprise, definition = old): Promise<void> {
  const t = await rp.open(definition)
  for (let n = 0; n < 25; n++) await t.set(`k${String(n).padStart(2, '0')}`, { name: `n${n}` })
  await t.set('ends', { name: 'e' }, { ttl: '1h' })
  await t.transaction((tx) => tx.advance('source', 9))
  await t.checkpoint()
  await t.close()
}

onEveryStore('migrations of rows and data', (world) => {
  it('A5.4 A9.3: a table of which only the state was carried over is opened by new code, and continues', async () => {
    const rp = await (await world()).engine()
    await fill(rp)
    const there = await world()
    const other = await carried(rp, 'table/people', there)
    await expect(other.open(unmigrated)).rejects.toThrow(/table\('people', \{ migrations: \{ 1: /)
    await expect(other.open(unmigrated)).rejects.toEqual(code('MIGRATION_MISSING'))
    await expect(other.open(pagedTable<Today>('people', { version: 2 }))).rejects.toEqual(code('MIGRATION_MISSING'))
    const broken = table<Today>('people', { version: 2, migrations: { 1: () => undefined as never } })
    await expect(other.open(broken)).rejects.toThrow(/the migration of row "ends" from version 1 returned undefined/)
    const t = await other.open(today)
    expect([t.size, t.get('k07'), t.offset('source')]).toEqual([26, { names: ['n7'], key: 'k07' }, 9])
    await t.set('new', { names: [], key: 'new' })
    expect((await t.checkpoint()).kind).toBe('full')
    await other.close()
    // A captured table has nothing to migrate, and earlier code does not use its checkpoint.
    const next = await there.engine()
    await expect(next.open(old)).rejects.toThrow(/table\/people@28: w version 2 is newer than this code supports/)
    const again = await next.open(unmigrated)
    expect([again.size, again.get('k07')]).toEqual([27, { names: ['n7'], key: 'k07' }])
    await again.close()
    // A third version: rows straight from the second one.
    expect((await next.open(later)).get('k07')).toEqual({ names: ['n7', '3'], key: 'k07' })
  })

  it('A5.4: entries of an older version after the checkpoint are upgraded too, also parts of a large transaction', async () => {
    const w = await world()
    const rp = await w.engine()
    const t = await rp.open(old)
    await t.set('a', { name: 'a' })
    await t.checkpoint()
    await t.set('b', { name: 'b' })
    // Too large for one entry: parts and a commit.
    await t.transaction((tx) => {
      for (let n = 0; n < 5000; n++) tx.set(`p${n}`, { name: `${n}` })
    })
    await t.close()
    await expect(rp.open(unmigrated)).rejects.toThrow(/rows of version 1, but this code \(version 2\) has no migration/)
    const there = await rp.open(today)
    expect([there.get('a')?.names, there.get('b')?.names, there.get('p4999')?.names]).toEqual([['a'], ['b'], ['4999']])
    await there.set('c', { names: ['c'], key: 'c' })
    await there.close()
    // Earlier code: history has rows of a version that it cannot read.
    await expect(rp.open(old)).rejects.toEqual(code('INCOMPATIBLE_VERSION'))
    await expect(rp.open(pagedTable<Old>('people'))).rejects.toEqual(code('INCOMPATIBLE_VERSION'))
    const all = await rp.open(later)
    expect([all.size, all.get('a')?.names, all.get('c')?.names]).toEqual([5003, ['a'], ['c', '3']])
  })

  it('A5.4: a paged table migrates page by page as it is read, and all pages with one checkpoint', async () => {
    const w = await world()
    const rp = await w.engine()
    const options = { changedRows: 50, cacheBytes: 20_000 }
    const before = pagedTable<Old>('people', options)
    const p = await rp.open(before)
    for (let n = 0; n < 1200; n += 100) {
      await p.transaction((tx) => {
        for (let i = n; i < n + 100; i++) tx.set(`k${String(i).padStart(4, '0')}`, { name: `n${i}` })
      })
    }
    await p.checkpoint()
    await p.set('k0003', { name: 'changed' })
    await p.checkpoint()
    await p.delete('k0004')
    await p.close()
    const after = pagedTable<Today>('people', { ...options, version: 2, migrations })
    const q = await rp.open(after)
    const seen = await Promise.all(['k0003', 'k0004', 'k1100'].map((key) => q.get(key)))
    expect(seen.map((row) => row?.names)).toEqual([['changed'], undefined, ['n1100']])
    await q.set('k0005', { names: ['mine'], key: 'k0005' })
    const rows = await collect(q.entries())
    expect([rows.length, rows.every(([key, row]) => row.key === key)]).toEqual([1199, true])
    // By itself, beside the work.
    await until(async () =>
      (await hostOf(rp).kernel.store.checkpoints(q.coordinate.timeline as never))[0]!.foldVersion.endsWith('2'),
    )
    expect((await collect(q.entries())).length).toBe(1199)
    await q.close()
    const plain = await rp.open(pagedTable<Today>('people', { ...options, version: 2 }))
    expect([await plain.get('k0005'), (await plain.get('k1100'))?.names]).toEqual([
      { names: ['mine'], key: 'k0005' },
      ['n1100'],
    ])
    await plain.close()
    // The resident table opens the same.
    expect((await rp.open(unmigrated)).size).toBe(1199)
  })

  it('A5.4: history that was trimmed away does not keep an old checkpoint from being migrated; two replicas of two versions', async () => {
    const w = await world()
    const [one, two] = [await w.engine(), await w.engine()]
    await fill(one)
    const t = await one.open(old)
    for (let n = 0; n < 30; n++) await t.set('busy', { name: `${n}` })
    await t.checkpoint()
    expect((await one.head('table/people'))!.floor).toBeGreaterThan(0)
    const follower = await old.standby(await w.engine())
    const newer = await two.open(today, undefined, { takeover: true })
    expect([newer.size, newer.get('busy')?.names]).toEqual([27, ['29']])
    await expect(t.set('late', { name: 'x' })).rejects.toEqual(code('FENCED'))
    await newer.set('k00', { names: ['new'], key: 'k00' })
    // A standby with the earlier code does not show rows of a later version.
    await expect(follower.refresh()).rejects.toEqual(code('INCOMPATIBLE_VERSION'))
    expect(follower.get('k00')).toEqual({ name: 'n0' })
    follower.close()
    await newer.checkpoint()
    await newer.close()
    await expect(one.open(old)).rejects.toEqual(code('INCOMPATIBLE_VERSION'))
    expect((await (await w.engine()).open(today)).get('k00')?.names).toEqual(['new'])
  })

  it('A5.4: a state store migrates its partitions, and rescales migrated ones', async () => {
    const w = await world()
    const rp = await w.engine()
    const s = await rp.open(stateStore<Old>('parts', { ...policy, partitions: 2 }))
    for (let n = 0; n < 30; n++) await s.set(`k${n}`, { name: `n${n}` })
    await s.close()
    const next = stateStore<Today>('parts', { ...policy, partitions: 3, version: 2, migrations })
    await next.rescale(rp)
    const all = [...(await rp.open(next)).entries()]
    expect([all.length, all.every(([key, row]) => row.key === key)]).toEqual([30, true])
  })

  it('A5.4: an agent migrates its data in state and in edits; messages and keys stay', async () => {
    const w = await world()
    const rp = await w.engine()
    const model = () => Promise.resolve({ content: 'ok' })
    const before = agent('helper', { initial: () => ({ n: 1 }), model, retain: { checkpoints: 1, history: 'needed' } })
    const session = await rp.open(before, 'ann')
    await session.turn('hello')
    await session.edit(({ n }) => ({ n: n + 1 }))
    await session.checkpoint()
    await session.edit(({ n }) => ({ n: n + 1 }))
    await session.close()
    type Now = { readonly count: number }
    const define = (version: string, migrations?: Record<string, (data: never) => Now>) =>
      agent<Now>('helper', { initial: () => ({ count: 1 }), model, version, ...(migrations && { migrations }) })
    await expect(rp.open(define('b'), 'ann')).rejects.toEqual(code('MIGRATION_MISSING'))
    const up = define('b', { 1: ({ n }: { n: number }) => ({ count: n }) })
    const after = await rp.open(up, 'ann')
    expect([after.data, after.messages.length]).toEqual([{ count: 3 }, 2])
    await after.edit(({ count }) => ({ count: count + 1 }))
    await after.checkpoint()
    await after.close()
    await expect(rp.open(before, 'ann')).rejects.toEqual(code('MIGRATION_MISSING'))
    // State alone.
    const there = await world()
    const other = await carried(rp, 'agent/helper/ann', there)
    await expect(other.open(define('c'), 'ann')).rejects.toThrow(/agent\('helper', \{ migrations: \{ "b": /)
    const third = await other.open(define('c', { b: ({ count }: Now) => ({ count: -count }) }), 'ann')
    expect([third.data, third.messages.length]).toEqual([{ count: -4 }, 2])
  })

  it('A5.4: saves, aggregates and timelines name a missing migration, and refuse newer versions', async () => {
    const w = await world()
    const rp = await w.engine()
    const saves = await rp.open(save<{ n: number }>('weights'))
    await saves.put({ n: 1 })
    await saves.close()
    const newer = save<{ count: number }>('weights', { version: 2 })
    await expect((await rp.open(newer)).latest()).rejects.toEqual(code('UPCAST_MISSING'))
    const counter = (version: number) =>
      timeline('counter', {
        version,
        initial: () => ({ n: 0 }),
        apply: (s, e: { type: 'added'; by: number }) => ({ n: s.n + e.by }),
        retain: { checkpoints: 1, history: 'needed' },
        ...(version > 1 && { upcasters: { added: { version, from: { 1: (d: unknown) => d } } } }),
      })
    const c = await rp.open(counter(1), 'x')
    for (let n = 0; n < 3; n++) {
      await c.append({ type: 'added', by: 1 })
      await c.checkpoint()
    }
    await c.close()
    expect((await rp.head('counter/x'))!.floor).toBeGreaterThan(0)
    await expect(rp.open(counter(2), 'x')).rejects.toThrow(/Missing: migrations: \{ "1": /)
    const thing = (version: number) =>
      aggregate('thing', {
        version,
        initial: () => ({ n: 0 }),
        evolve: { grown: (s, e: { by: number }) => ({ n: s.n + e.by }) },
        decide: { grow: (_s, c: { by: number }) => ({ type: 'grown', by: c.by }) },
        retain: { checkpoints: 1, history: 'needed' },
      })
    const a = await rp.open(thing(1), 'x')
    for (let n = 0; n < 4; n++) {
      await a.do('grow', { by: 1 })
      await a.checkpoint()
    }
    await a.close()
    expect((await rp.head('events/thing/x'))!.floor).toBeGreaterThan(0)
    await expect(rp.open(thing(2), 'x')).rejects.toEqual(code('MIGRATION_MISSING'))
    // Entries that newer code wrote are not taken for those of version 1, whether or not there are upcasters.
    const d = await rp.open(counter(2), 'y')
    await d.append({ type: 'added', by: 1 })
    await d.close()
    await expect(rp.open(counter(1), 'y')).rejects.toEqual(code('INCOMPATIBLE_VERSION'))
  })

  it('G11: a drill without the migrations cannot check, and marks nothing; with them it restores and does not compare', async () => {
    const w = await world()
    const rp = await w.engine()
    await fill(rp)
    const other = await carried(rp, 'table/people', await world())
    const marks = async () =>
      (await hostOf(other).kernel.store.checkpoints('table/people' as never)).map(({ invalid, drill }) => ({
        invalid,
        drill,
      }))
    // As the command line does: it has the kind and no definition.
    expect((await other.drill()).unknown).toEqual(['table/people'])
    other.declare((unmigrated as unknown as Record<symbol, never>)[Symbol.for('reprise.describes')]!)
    const blind = await other.drill()
    expect(blind.results).toHaveLength(1)
    expect([blind.ok, blind.results[0]!.isUnknown, blind.results[0]!.note]).toEqual([
      false,
      true,
      expect.stringMatching(/not decidable: .*Missing: table\('people'/),
    ])
    expect(await marks()).toEqual([{ invalid: null, drill: null }])
    expect((await other.verify()).ok).toBe(true)
    other.declare((today as unknown as Record<symbol, never>)[Symbol.for('reprise.describes')]!)
    const seen = await other.drill()
    expect([seen.ok, seen.results[0]!.note]).toEqual([true, expect.stringMatching(/migrated from version table\/1/)])
    expect((await marks())[0]!.invalid).toBeNull()
    // A fork of a timeline without a capture by the current code keeps the checkpoint it can be restored from.
    await other.fork({ timeline: 'table/people', seq: (await other.head('table/people'))!.seq }, 'table/people/branch')
    expect((await other.open(today, 'branch')).size).toBe(26)
  })
})
