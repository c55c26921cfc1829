// Tables larger than memory: pages come in on demand, the cache stays bounded, and the rows are those of a plain Map.

import { expect, it } from 'vitest'
import { pagedTable, table } from '../../src/layers/table/index.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'
import { type Bend, bentEngine, collect, noise, soon } from './support.ts'

const facts = () => pagedTable<string>('facts', { cacheBytes: 60_000, changedRows: 500 })
const key = (n: number) => `k${String(n).padStart(6, '0')}`

onEveryStore('paged table', (world) => {
  it('C7: holds more than its cache, and is restored after the engine is gone', async () => {
    const w = await world()
    const rp = await w.engine()
    const t = await rp.open(facts())
    const model = new Map<string, string>()
    for (let round = 0; round < 6; round++) {
      const writes: Promise<unknown>[] = []
      for (let n = 0; n < 700; n++) {
        const at = key((n * 37 + round * 911) % 4000)
        writes.push(t.set(at, `round ${round} row ${n}`))
        model.set(at, `round ${round} row ${n}`)
      }
      for (let n = 0; n < 40; n++) {
        const at = key((n * 53 + round) % 4000)
        writes.push(t.delete(at))
        model.delete(at)
      }
      await Promise.all(writes)
      await t.checkpoint()
    }
    await t.set('zz', 'after the checkpoint')
    model.set('zz', 'after the checkpoint')
    const sorted = [...model].sort(([a], [b]) => (a < b ? -1 : 1))
    expect(await collect(t.entries())).toEqual(sorted)
    expect(await collect(t.entries({ from: key(100), to: key(300), reverse: true, limit: 20 }))).toEqual(
      sorted
        .filter(([at]) => at >= key(100) && at < key(300))
        .reverse()
        .slice(0, 20),
    )
    expect(await collect(t.entries({ prefix: 'k0001' }))).toEqual(sorted.filter(([at]) => at.startsWith('k0001')))
    for (let n = 0; n < 4000; n += 61) expect(await t.get(key(n))).toBe(model.get(key(n)))
    expect(t.stats.cachedBytes).toBeLessThan(200_000)
    expect(t.stats.misses).toBeGreaterThan(5)
    await rp.close()
    const next = await w.engine()
    const again = await next.open(facts())
    expect(again.recovery.entriesReplayed).toBe(1)
    expect(await collect(again.entries())).toEqual(sorted)
    expect((await next.verify()).faults).toEqual([])
    await again.close()
    // The layout is that of a resident table.
    const resident = await next.open(table<string>('facts'))
    expect([...resident]).toEqual(sorted)
    await resident.set('back', 'again')
    await resident.checkpoint()
    await resident.close()
    expect(await (await next.open(facts())).get('back')).toBe('again')
  })

  it('transactions read and write with nothing in between, and the offset moves with the rows', async () => {
    const rp = await (await world()).engine()
    const t = await rp.open(pagedTable<number>('sums'))
    await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        t.transaction(async (tx) => {
          tx.set('sum', ((await tx.get('sum')) ?? 0) + 1)
          tx.advance('source', n)
        }),
      ),
    )
    expect([await t.get('sum'), t.offset('source')]).toEqual([20, 19])
  })

  it('a row that was deleted stays deleted over every older layer, before and after each checkpoint', async () => {
    const rp = await (await world()).engine()
    const layers = pagedTable<number>('layers', { changedRows: 1000 })
    const t = await rp.open(layers)
    for (let n = 0; n < 20; n++) await t.set(key(n), n)
    await t.checkpoint()
    await t.set(key(3), 33)
    await t.checkpoint()
    await t.delete(key(3))
    expect(await t.get(key(3))).toBeUndefined()
    const checkpointing = t.checkpoint()
    expect(await t.get(key(3))).toBeUndefined()
    await checkpointing
    expect(await t.get(key(3))).toBeUndefined()
    await t.set(key(3), 34)
    expect(await t.get(key(3))).toBe(34)
    expect((await collect(t.entries())).length).toBe(20)
  })

  it('A1.3: falls back past a damaged checkpoint, and a damaged page is an error, never a wrong row', async () => {
    const w = await world()
    const rp = await w.engine()
    const kept = pagedTable<string>('kept', { cacheBytes: 1000, retain: { checkpoints: 3, history: 'all' } })
    const t = await rp.open(kept)
    const text = (n: number) =>
      Array.from({ length: 40 }, (_, i) => ((n * 7919 + i * 104_729) % 1_000_003).toString(36)).join('')
    await Promise.all(Array.from({ length: 1500 }, (_, n) => t.set(key(n), text(n))))
    await t.checkpoint()
    const rows = await hostOf(rp).kernel.store.blobs.list(null, 10_000)
    const largest = rows.sort((a, b) => b.bytes - a.bytes)[0]!
    await hostOf(rp).kernel.store.blobs.delete([largest.digest], Number.MAX_SAFE_INTEGER)
    const reads = await Promise.allSettled(Array.from({ length: 1500 }, (_, n) => t.get(key(n))))
    reads.forEach((read, n) => {
      if (read.status === 'fulfilled') expect(read.value).toBe(text(n))
      else expect(read.reason).toMatchObject({ code: 'CHUNK_MISSING' })
    })
    expect(reads.some(({ status }) => status === 'rejected')).toBe(true)
    await expect(t.set('later', 'x')).rejects.toMatchObject({ code: 'CHUNK_MISSING' })
    // After a reopen, nothing is restored from it, and the log has the rest.
    const again = await rp.open(kept)
    expect(again.recovery.checkpoint).toBeNull()
    for (let n = 0; n < 1500; n += 7) expect(await again.get(key(n))).toBe(text(n))
    expect(await again.count()).toBe(1500)
    expect((await rp.checkpoints('table/kept'))[0]!.invalid).toContain('chunk')
    await again.checkpoint()
    await again.close()
    expect((await rp.open(table<string>('kept', { retain: { history: 'all' } }))).size).toBe(1500)
  })

  it('C7: a checkpoint that shares the damaged page is passed over too, without anybody reading that page first', async () => {
    const w = await world()
    const rp = await w.engine()
    const kept = pagedTable<string>('shared', { changedRows: 10, retain: { checkpoints: 5, history: 'all' } })
    const t = await rp.open(kept)
    const text = (n: number) =>
      Array.from({ length: 60 }, (_, i) => ((n * 7919 + i * 104_729) % 1_000_003).toString(36)).join('')
    await t.transaction((tx) => {
      for (let n = 0; n < 1500; n++) tx.set(key(n), text(n))
    })
    await t.checkpoint()
    const first = (await hostOf(rp).kernel.store.blobs.list(null, 10_000)).sort((a, b) => b.bytes - a.bytes)
    for (let n = 0; n < 12; n++) await t.set('z', `${n}`)
    await t.checkpoint()
    await hostOf(rp).kernel.store.blobs.delete([first[0]!.digest], Number.MAX_SAFE_INTEGER)
    await expect(t.count()).rejects.toMatchObject({ code: 'CHUNK_MISSING' })
    const again = await rp.open(kept)
    expect(again.recovery.checkpoint).toBeNull()
    expect(again.recovery.skipped.length).toBeGreaterThanOrEqual(1)
    expect(await again.count()).toBe(1501)
  })

  it('C7: finds rows by index, over pages, layers and changes, and after a restart', async () => {
    const w = await world()
    const rp = await w.engine()
    const people = () =>
      pagedTable<{ user: string; age?: number }>('people', {
        ...{ cacheBytes: 2000, changedRows: 40 },
        indexes: { user: (row) => row.user, age: (row) => row.age },
      })
    const t = await rp.open(people())
    for (let n = 0; n < 300; n++) void t.set(key(n), { user: `u${n % 10}`, age: n })
    await t.set('one', { user: 'one' })
    await t.checkpoint()
    const keysBy = async (index: string, term: Parameters<typeof t.by>[1]) =>
      (await collect(t.by(index, term))).map(([at]) => at)
    // Writes continue while the index is built: neither may miss the other.
    const [found] = await Promise.all([
      keysBy('user', 'u3'),
      ...Array.from({ length: 50 }, (_, n) => t.set(key(1000 + n), { user: 'u3', age: -n })),
    ])
    expect(found.length).toBeGreaterThanOrEqual(30)
    expect(await keysBy('user', 'u3')).toHaveLength(80)
    await t.set(key(3), { user: 'u4', age: 3 })
    await t.delete(key(13))
    expect(await keysBy('user', 'u3')).toHaveLength(78)
    expect(await keysBy('user', 'u4')).toHaveLength(31)
    expect(await keysBy('age', { from: -3, to: 2 })).toEqual(
      [key(1003), key(1002), key(1001), key(1000), key(0), key(1)].sort(
        (a, b) => ages(a) - ages(b) || (a < b ? -1 : 1),
      ),
    )
    expect(await keysBy('age', { from: 290, reverse: true, limit: 2 })).toEqual([key(299), key(298)])
    await expect(keysBy('nope', 'x')).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    await rp.close()
    const again = await (await w.engine()).open(people())
    expect((await collect(again.by('user', 'u3'))).map(([at]) => at)).toHaveLength(78)
  })

  it('C7: an index that is built while rows change and checkpoints are made returns no outdated row', async () => {
    const w = await world()
    const bend: Bend = {}
    const { rp, store } = await bentEngine(w, bend)
    const people = pagedTable<{ user: string; text: string }>('moving', {
      ...{ cacheBytes: 1000, changedRows: 10_000 },
      indexes: { user: (row) => row.user },
    })
    const t = await rp.open(people)
    for (let n = 0; n < 400; n++) void t.set(key(n), { user: 'old', text: noise(n, 300) })
    await t.set('more', { user: 'none', text: '' })
    await t.checkpoint()
    await t.set('more', { user: 'some', text: '' })
    bend.blobsGet = async (digests) => {
      await soon(3)
      return await store.blobs.get(digests)
    }
    const finding = collect(t.by('user', 'old'))
    await soon(2)
    // From here on changes lie beside those that the walk can see.
    const checkpointing = t.checkpoint()
    await t.set(key(399), { user: 'new', text: '' })
    await t.delete(key(398))
    await finding
    await checkpointing
    const found = await collect(t.by('user', 'old'))
    expect(found.map(([at]) => at)).toEqual(Array.from({ length: 398 }, (_, n) => key(n)))
    expect((await collect(t.by('user', 'new'))).map(([at]) => at)).toEqual([key(399)])
  })

  it('A4.4: a failed checkpoint loses nothing, neither its own rows nor later ones', async () => {
    const w = await world()
    const bend: Bend = {}
    const { rp } = await bentEngine(w, bend)
    const t = await rp.open(pagedTable<string>('failing', { changedRows: 10_000 }))
    await t.set('a', noise(1, 3000))
    await t.checkpoint()
    await t.set('b', noise(2, 3000))
    bend.blobsPut = async () => {
      await soon(20)
      throw new Error('the disk is full')
    }
    const failing = expect(t.checkpoint()).rejects.toThrow('disk')
    await t.set('c', 'meanwhile')
    await t.delete('a')
    await failing
    expect([await t.has('a'), await t.get('b'), await t.get('c')]).toEqual([false, noise(2, 3000), 'meanwhile'])
    bend.blobsPut = undefined as never
    await t.checkpoint()
    await rp.close()
    const again = await (await w.engine()).open(pagedTable<string>('failing'))
    expect(again.recovery.entriesReplayed).toBe(0)
    expect(await collect(again.keys())).toEqual(['b', 'c'])
  })

  it('C7: notifies watchers of a key or a range after it is durable, with the previous row', async () => {
    const rp = await (await world()).engine()
    const t = await rp.open(pagedTable<number>('watched', { changedRows: 2, cacheBytes: 100 }))
    await t.set('k', 0)
    await t.checkpoint()
    const one: unknown[] = []
    const many: unknown[] = []
    const stop = t.watch('k', (changes) => one.push(...changes))
    t.watch({ prefix: 'a/' }, (changes) => many.push(changes.length))
    await t.set('k', 1)
    await t.set('kk', 1)
    await t.transaction((tx) => {
      for (let n = 0; n < 9000; n++) tx.set(`a/${n}`, n)
      tx.set('k', 2)
    })
    expect(await t.delete('k')).toBe(true)
    expect(await t.delete('k')).toBe(false)
    stop()
    await t.set('k', 3)
    expect(one).toEqual([
      { key: 'k', value: 1, before: 0 },
      { key: 'k', value: 2, before: 1 },
      { key: 'k', value: undefined, before: 2 },
    ])
    // All of a transaction in parts at once.
    expect(many).toEqual([9000])
  })

  it('C7: a transaction sees its own writes over pages, is refused whole, and can update, range and be shared', async () => {
    const rp = await (await world()).engine()
    const sums = pagedTable<number>('sums', { changedRows: 4, cacheBytes: 1000 })
    const t = await rp.open(sums)
    for (let n = 0; n < 10; n++) await t.set(key(n), n)
    await t.checkpoint()
    const seen = await t.transaction(async (tx) => {
      tx.delete(key(2))
      tx.set(key(4), 44)
      tx.set(key(99), 99)
      expect([await tx.has(key(2)), await tx.get(key(4))]).toEqual([false, 44])
      const reverse = await collect(tx.entries({ reverse: true, limit: 2 }))
      return [await collect(tx.entries({ from: key(1), to: key(6), limit: 3 })), reverse]
    })
    expect(seen).toEqual([
      [
        [key(1), 1],
        [key(3), 3],
        [key(4), 44],
      ],
      [
        [key(99), 99],
        [key(9), 9],
      ],
    ])
    const failing = t.transaction(async (tx) => {
      tx.set(key(0), 1000)
      throw new Error('no')
    })
    await expect(failing).rejects.toThrow('no')
    await expect(t.set(key(0), undefined as never)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    expect(await t.get(key(0))).toBe(0)
    await Promise.all(Array.from({ length: 20 }, () => t.update('sum', (sum) => (sum ?? 0) + 1)))
    expect(await t.get('sum')).toBe(20)
    expect(await t.update('sum', () => undefined)).toBeUndefined()
    expect(await t.has('sum')).toBe(false)
    const shared = await rp.open(sums)
    await t.close()
    await shared.set('still', 1)
    await shared.close()
    await expect(shared.set('over', 1)).rejects.toMatchObject({ code: 'CLOSED' })
    expect(() => pagedTable('bad', { cacheBytes: 0 })).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
  })

  it('B3: a transaction too large for one entry is several, visible at once; without its commit it is undone', async () => {
    const w = await world()
    const rp = await w.engine()
    const big = () => pagedTable<number>('big', { changedRows: 700, cacheBytes: 60_000 })
    const t = await rp.open(big())
    await t.set('before', 1)
    await t.transaction((tx) => {
      for (let n = 0; n < 10_000; n++) tx.set(key(n), n)
    })
    expect(t.coordinate.seq).toBe(5)
    expect(await t.count({ prefix: 'k' })).toBe(10_000)
    await t.close()
    // As a crash in the middle leaves it: parts and no commit, once in the log and once in a checkpoint.
    const open = await hostOf(rp).openTimeline('table/big' as never, big().fold)
    await open.write([
      { type: 'p', data: { t: 'cut', n: 0, s: ['half', 1], d: ['before'] } },
      { type: 'p', data: { t: 'cut', n: 1, s: ['other', 1] } },
    ])
    await open.checkpoint()
    await open.write([{ type: 'p', data: { t: 'cut too', n: 0, d: ['before'] } }])
    const next = await (await w.engine()).open(big(), undefined, { takeover: true })
    // Undone in the log, not only skipped: the store keeps none of them.
    expect((await rp.at(big(), '', { seq: next.coordinate.seq })).state.pending.size).toBe(0)
    expect([await next.get('before'), await next.has('half'), await next.has('other')]).toEqual([1, false, false])
    await next.set('after', 2)
    await next.checkpoint()
    const third = await (await w.engine()).open(big(), undefined, { takeover: true })
    expect([await third.get('before'), await third.get('after'), await third.count()]).toEqual([1, 2, 10_002])
    await expect(next.set('zombie', 1)).rejects.toMatchObject({ code: 'FENCED' })
  })
})

function ages(at: string): number {
  const n = Number(at.slice(1))
  return n >= 1000 ? 1000 - n : n
}
