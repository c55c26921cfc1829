// Tables larger than memory: pages come in on demand, the cache stays bounded, and the rows are those of a plain Map.

import { expect, it } from 'vitest'
import { pagedTable, table } from '../../src/layers/table/index.ts'
import { onEveryStore } from '../support/worlds.ts'

const facts = () => pagedTable<string>('facts', { cacheBytes: 60_000, changedRows: 500 })
const key = (n: number) => `k${String(n).padStart(6, '0')}`
const collect = async <T>(items: AsyncIterable<T>) => {
  const all: T[] = []
  for await (const item of items) all.push(item)
  return all
}

onEveryStore('paged table', (world) => {
  it('C7: holds more than its cache, and is there again after the engine is gone', async () => {
    const w = await world()
    const rp = await w.engine()
    const t = await rp.open(facts())
    const model = new Map<string, string>()
    for (let round = 0; round < 6; round++) {
      const writes: Promise<void>[] = []
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
    await expect(rp.open(layers)).rejects.toMatchObject({ code: 'OWNED' })
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
    const rows = await rp.kernel.store.blobs.list(null, 10_000)
    const largest = rows.sort((a, b) => b.bytes - a.bytes)[0]!
    await rp.kernel.store.blobs.delete([largest.digest], Number.MAX_SAFE_INTEGER)
    const reads = await Promise.allSettled(Array.from({ length: 1500 }, (_, n) => t.get(key(n))))
    reads.forEach((read, n) => {
      if (read.status === 'fulfilled') expect(read.value).toBe(text(n))
      else expect(read.reason).toMatchObject({ code: 'CHUNK_MISSING' })
    })
    expect(reads.some(({ status }) => status === 'rejected')).toBe(true)
    // A resident opening restores nothing from it and replays the log instead.
    await t.close()
    expect((await rp.open(table<string>('kept', { retain: { history: 'all' } }))).size).toBe(1500)
  })
})
