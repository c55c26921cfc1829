// State stores with another number of partitions, while other processes read, write, die or still use the old number.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { type StoreDefinition, stateStore, table } from '../../src/layers/table/index.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore, type World } from '../support/worlds.ts'
import { mortal, until } from './support.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })
const made = new Map<number, StoreDefinition<number>>()
/** One definition for each number: a process that opens it twice shares it. */
const counts = (partitions: number) => {
  const store = made.get(partitions) ?? stateStore<number>('counts', { partitions, checkpoint: { every: 8 } })
  made.set(partitions, store)
  return store
}
const keyOf = (n: number) => `k${String(n).padStart(3, '0')}`

async function fill(rp: Reprise, partitions: number, rows: number): Promise<void> {
  const s = await rp.open(counts(partitions))
  for (let n = 0; n < rows; n++) await s.set(keyOf(n), n)
  await s.close()
}

async function rowsOf(rp: Reprise, partitions: number): Promise<Map<string, number>> {
  const s = await rp.open(counts(partitions), undefined, { takeover: true })
  const rows = new Map(s.entries())
  await s.close()
  return rows
}

const timelinesOf = async (rp: Reprise) => (await rp.list({ prefix: 'table/' })).map(({ timeline }) => timeline)

onEveryStore('rescale', (world) => {
  it('B4: moves every row with its end and the offsets, more or fewer, and gives the old partitions back', async () => {
    const w = await world()
    const rp = await w.engine()
    await fill(rp, 4, 60)
    const old = await rp.open(counts(4))
    await old.set('ends', 1, { ttl: '1h' })
    await old.set('over', 1, { ttl: 1 })
    for (const key of ['k000', 'k001', 'k002', 'k003', 'k004', 'k005', 'k006', 'k007']) {
      await old.tableOf(key).transaction((tx) => tx.advance('source', 7))
    }
    await expect(rp.open(counts(3))).rejects.toThrow(/call its rescale/)
    const seen: boolean[] = []
    await counts(3).rescale(rp, { onProgress: ({ isFinal }) => seen.push(isFinal) })
    expect(seen).toContain(false)
    expect((await timelinesOf(rp)).sort()).toEqual([
      'table/counts/generations',
      'table/counts/generations/2/p0',
      'table/counts/generations/2/p1',
      'table/counts/generations/2/p2',
    ])
    await until(async () => (await rp.open(counts(3))).get('over') === undefined)
    const s = await rp.open(counts(3))
    expect([...s.entries()].filter(([key]) => key.startsWith('k'))).toEqual(
      Array.from({ length: 60 }, (_, n) => [keyOf(n), n]),
    )
    expect([s.get('ends'), s.tableOf('ends').offset('source'), s.tableOf('k001').offset('source')]).toEqual([1, 7, 7])
    await rp.close()
    const again = await w.engine()
    await counts(9).rescale(again)
    await counts(9).rescale(again)
    expect((await rowsOf(again, 9)).size).toBe(61)
    expect(await timelinesOf(again)).toHaveLength(10)
    expect((await again.verify()).faults).toEqual([])
    // A table of the same name beside it is not one of its partitions.
    const tenant = await again.open(table<number>('counts'), 'tenant')
    await tenant.set('a', 1)
    await counts(2).rescale(again)
    expect((await rowsOf(again, 2)).size).toBe(61)
    await tenant.set('b', 2)
    expect(tenant.size).toBe(2)
  })

  it('B4: others read and write while it copies; processes with the old number are refused, and none of their writes is lost', async () => {
    const w = await world()
    const [one, two] = [await w.engine(), await w.engine()]
    await fill(one, 4, 40)
    const writer = await one.open(counts(4))
    const reader = await counts(4).standby(await w.engine(), 0)
    const acked = new Map(writer.entries())
    let writes = 0
    const write = async () => {
      const key = keyOf(writes % 50)
      writes += 1
      if (writes % 7 === 0) {
        await writer.delete(key)
        acked.delete(key)
      } else {
        await writer.set(key, writes * 1000)
        acked.set(key, writes * 1000)
      }
    }
    let isRefused = false
    const writing = (async () => {
      for (;;) await write()
    })().catch((error) => {
      isRefused = true
      // While its partitions are taken, while they end, and after that.
      expect(error.code).toMatch(/^(FENCED|RESCALING|INVALID_ARGUMENT)$/)
    })
    await until(() => writes > 20)
    const mine = [...acked].find(([key]) => counts(4).partitionOf(key) === 0)!
    await counts(6).rescale(two, {
      onProgress: () => expect(reader.get(mine[0])).toBeDefined(),
    })
    await writing
    expect(isRefused).toBe(true)
    // It kept the old number open: it reads its old rows, and cannot open it again.
    expect(writer.get(keyOf(1))).toBeDefined()
    await expect(writer.set('late', 1)).rejects.toThrow(/has 6 partitions, not 4/)
    await writer.close()
    await expect(one.open(counts(4))).rejects.toThrow(/has 6 partitions, not 4/)
    await expect(one.open(counts(4), undefined, { takeover: true })).rejects.toEqual(code('INVALID_ARGUMENT'))
    await expect(reader.takeOver()).rejects.toThrow(/has 6 partitions, not 4/)
    await expect(reader.refresh()).rejects.toEqual(code('INVALID_ARGUMENT'))
    reader.close()
    const rows = await rowsOf(one, 6)
    // The write in flight when it was fenced exists or not; it was never acknowledged.
    const last = keyOf((writes - 1) % 50)
    rows.delete(last)
    acked.delete(last)
    expect(rows).toEqual(acked)
    expect((await timelinesOf(one)).filter((id) => /counts\/p\d/.test(id))).toEqual([])
  })

  it('B4: partitions with different source positions are refused, and continue; unless a person chooses one', async () => {
    const w = await world()
    const rp = await w.engine()
    await fill(rp, 2, 10)
    const s = await rp.open(counts(2))
    await s.tableOf('k000').transaction((tx) => tx.advance('source', 5))
    const other = [...Array(10).keys()].map(keyOf).find((key) => s.tableOf(key) !== s.tableOf('k000'))!
    await s.tableOf(other).transaction((tx) => tx.advance('source', 3))
    await expect(counts(3).rescale(await w.engine())).rejects.toThrow(/up to different offsets \(5, 3\)|\(3, 5\)/)
    await s.set('k000', 100)
    await s.close()
    await counts(3).rescale(rp, { offsets: (_, offsets) => Math.min(...offsets.map(Number)) })
    const after = await rp.open(counts(3))
    expect([after.get('k000'), after.tableOf('k000').offset('source')]).toEqual([100, 3])
  })

  it('B4: one that was cut off is gone on with, or given up for another number', async () => {
    const w = await world()
    const rp = await w.engine()
    await fill(rp, 4, 30)
    const cut = new AbortController()
    cut.abort()
    await expect(counts(3).rescale(rp, { signal: cut.signal })).rejects.toEqual(code('ABORTED'))
    expect((await rowsOf(rp, 4)).size).toBe(30)
    await counts(5).rescale(rp)
    expect((await rowsOf(rp, 5)).size).toBe(30)
    const half = new AbortController()
    await expect(counts(2).rescale(rp, { signal: half.signal, onProgress: () => half.abort() })).rejects.toEqual(
      code('ABORTED'),
    )
    const [change, ...more] = await rp.changes()
    expect([change?.kind, change?.of, change?.isRunning, more]).toEqual(['rescale', 'counts', false, []])
    expect(change!.done).toBeGreaterThan(0)
    // Back to the current number: the partial rescale is removed.
    await counts(5).rescale(rp)
    expect(await timelinesOf(rp)).toHaveLength(6)
    expect((await rowsOf(rp, 5)).size).toBe(30)
    // The store does not exist yet: nothing to do.
    await stateStore('none', { partitions: 3 }).rescale(rp)
    expect((await rp.list({ prefix: 'table/none/' })).length).toBe(0)
  })

  it('B4: removes a partition that a process created again and was killed, and no table beside it', async () => {
    const w = await world()
    const rp = await w.engine()
    await fill(rp, 2, 10)
    await counts(3).rescale(rp)
    await (await hostOf(rp).openTimeline('table/counts/p0' as never, counts(2).fold)).close()
    await (await rp.open(table<number>('counts'), 'p7')).close()
    expect(await timelinesOf(rp)).toHaveLength(6)
    await counts(3).rescale(rp)
    expect((await timelinesOf(rp)).sort()).toEqual([
      'table/counts/generations',
      'table/counts/generations/2/p0',
      'table/counts/generations/2/p1',
      'table/counts/generations/2/p2',
      'table/counts/p7',
    ])
  })

  it('B4: a process that opens the old number between the look and the opening is refused too', async () => {
    const w = await world()
    const [one, two] = [await w.engine(), await w.engine()]
    await fill(one, 2, 10)
    // Its read of the layout has ended when the rescale begins.
    const { store } = hostOf(one).kernel
    const list = store.timelines
    let isFirst = true
    store.timelines = async (query) => {
      const found = await list.call(store, query)
      if (isFirst) {
        isFirst = false
        await counts(3).rescale(two)
      }
      return found
    }
    await expect(one.open(counts(2))).rejects.toEqual(code('INVALID_ARGUMENT'))
    expect(await timelinesOf(two)).toHaveLength(4)
    expect((await rowsOf(two, 3)).size).toBe(10)
  })
})

/** Writes in the number in which the store can be opened now; null: it is being rescaled. */
async function writeAnywhere(rp: Reprise, numbers: readonly number[], key: string): Promise<number | null> {
  for (const partitions of numbers) {
    try {
      const s = await rp.open(counts(partitions), undefined, { takeover: true })
      await s.set(key, 1)
      await s.close()
      return partitions
    } catch (error) {
      expect(error).toMatchObject({ code: expect.stringMatching(/^(INVALID_ARGUMENT|RESCALING)$/) })
    }
  }
  return null
}

async function crashAt(
  w: World,
  commit: number,
  end: 'before' | 'after',
): Promise<{ isOver: boolean; wasOpen: number | null }> {
  const before = await w.engine()
  await fill(before, 3, 12)
  await before.close()
  const victim = await mortal(w, (n) => (n === commit ? end : 'live'))
  const isOver = await counts(4)
    .rescale(victim.engine)
    .then(
      () => true,
      () => false,
    )
  const dead = hostOf(victim.engine).kernel.worker.id
  victim.die()
  const rp = await w.engine()
  if (dead) await hostOf(rp).kernel.store.retire([dead])
  // Whatever happened: it can be read and written in one number, or has to be finished.
  const wasOpen = await writeAnywhere(rp, [3, 4], 'between')
  await counts(4).rescale(rp)
  const rows = await rowsOf(rp, 4)
  expect([...rows.keys()].filter((key) => key.startsWith('k'))).toHaveLength(12)
  expect(rows.get('between')).toBe(wasOpen === null ? undefined : 1)
  expect(await timelinesOf(rp)).toHaveLength(5)
  expect((await rp.verify()).faults).toEqual([])
  return { isOver, wasOpen }
}

describe('rescale, killed', () => {
  onEveryStore(
    'at every commit',
    (world) => {
      it('G2 B4: a rescale that is cut off at any commit loses nothing and is gone on with', async () => {
        const seen = new Set<number | null>()
        for (const end of ['before', 'after'] as const) {
          for (let commit = 1; ; commit++) {
            const { isOver, wasOpen } = await crashAt(await world(), commit, end)
            seen.add(wasOpen)
            if (isOver) break
            expect(commit).toBeLessThan(100)
          }
        }
        // The old number up to the end, the new one after it, and in between the one that has to be finished.
        expect([...seen].sort()).toEqual([3, 4, null])
      })
    },
    ['memory'],
  )

  onEveryStore('among writers', (world) => {
    it('G4 B4: acknowledged writes exist, despite concurrent writes and kills during the rescale', async () => {
      const w = await world()
      let turn = 0
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.record({ to: fc.integer({ min: 1, max: 5 }), dieAt: fc.integer({ min: 1, max: 40 }) }), {
            minLength: 1,
            maxLength: 4,
          }),
          async (rounds) => {
            const name = `random${turn++}`
            const store = (partitions: number) => stateStore<number>(name, { partitions, checkpoint: { every: 5 } })
            const acked = new Map<string, number>()
            let live = 3
            for (const [n, { to, dieAt }] of rounds.entries()) {
              const rp = await w.engine()
              const s = await rp.open(store(live), undefined, { takeover: true })
              for (let i = 0; i < 8; i++) {
                await s.set(`r${n}-${i}`, i)
                acked.set(`r${n}-${i}`, i)
              }
              const victim = await mortal(w, (commit) => (commit === dieAt ? (dieAt % 2 ? 'before' : 'after') : 'live'))
              const rescaling = store(to)
                .rescale(victim.engine)
                .catch(() => undefined)
              for (let i = 0; i < 8; i++) {
                const isAcked = await s.set(`w${n}-${i}`, i).then(
                  () => true,
                  () => false,
                )
                if (isAcked) acked.set(`w${n}-${i}`, i)
                else break
              }
              await rescaling
              const dead = hostOf(victim.engine).kernel.worker.id
              victim.die()
              const next = await w.engine()
              if (dead) await hostOf(next).kernel.store.retire([dead])
              await store(to).rescale(next)
              live = to
              await rp.close()
              await next.close()
            }
            const rp = await w.engine()
            const s = await rp.open(store(live), undefined, { takeover: true })
            for (const [key, value] of acked) expect(s.get(key)).toBe(value)
            expect(await rp.list({ prefix: `table/${name}/` })).toHaveLength(
              live === 3 && rounds.every(({ to }) => to === 3) ? 3 : live + 1,
            )
            await rp.close()
          },
        ),
        { numRuns: w.kind === 'memory' ? 25 : 4, endOnFailure: true },
      )
    })
  })
})
