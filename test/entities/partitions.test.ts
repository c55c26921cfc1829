// Partitions of projections that processes share: in memory, in tables, and (in projection.test.ts) in the user's SQL. Each
// event counts once, in the one process that owns its partition; a former owner is fenced; a rebuild becomes visible when it is
// complete.

import { expect, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { StateTimeline } from '../../src/engine/writing/state-timeline.ts'
import {
  aggregate,
  partitionedProjection,
  partitionedTableProjection,
  partitionOf,
  projection,
} from '../../src/layers/events/index.ts'
import { type Transaction, table } from '../../src/layers/table/index.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const account = aggregate('account', {
  initial: () => ({ balance: 0 }),
  evolve: { deposited: (s, e: { amount: number }) => ({ balance: s.balance + e.amount }) },
  decide: { deposit: (_s, c: { amount: number }) => ({ type: 'deposited', amount: c.amount }) },
})
const totals = () =>
  partitionedProjection('totals', {
    partitions: 4,
    from: [account],
    initial: () => new Map<string, number>(),
    on: { deposited: (m, e, at) => void m.set(at.id, (m.get(at.id) ?? 0) + e.amount) },
  })
const balances = table<number>('balances')
const rows = () =>
  partitionedTableProjection('rows', {
    partitions: 4,
    from: [account],
    into: balances,
    on: { deposited: (tx: Transaction<number>, e, at) => tx.set(at.id, (tx.get(at.id) ?? 0) + e.amount) },
  })

const ids = Array.from({ length: 12 }, (_, n) => `id${String(n).padStart(2, '0')}`)

async function depositAll(rp: Reprise, amount: number) {
  for (const id of ids) {
    const a = await rp.open(account, id)
    await a.do('deposit', { amount })
    await a.close()
  }
}

/** The union of all partitions; a key in two places would be counted twice. */
function together(...maps: readonly (readonly [string, number])[][]): Record<string, number> {
  const sums: Record<string, number> = {}
  for (const map of maps) for (const [key, sum] of map) sums[key] = (sums[key] ?? 0) + sum
  return sums
}
const all = (amount: number) => Object.fromEntries(ids.map((id) => [id, amount]))
const held = (state: ReadonlyMap<number, Iterable<readonly [string, number]>>) =>
  [...state.values()].flatMap((part) => [...part])

onEveryStore('partitions', (world) => {
  it('C6: processes share the partitions of a projection in memory; each event counts once; they move with their state', async () => {
    const w = await world()
    const [one, two] = [await w.engine(), await w.engine()]
    await depositAll(one, 1)
    const p = await one.open(totals())
    await p.catchUp()
    expect(together(held(p.state))).toEqual(all(1))
    const q = await two.open(totals())
    await expect.poll(() => [p.owned, q.owned]).toEqual([2, 2])
    await depositAll(two, 2)
    await Promise.all([p.catchUp(), q.catchUp()])
    expect([...p.state.keys()].some((partition) => q.state.has(partition))).toBe(false)
    expect(together(held(p.state), held(q.state))).toEqual(all(3))
    for (const [partition, part] of p.state) {
      for (const id of part.keys()) expect(partitionOf(`events/account/${id}`, 4)).toBe(partition)
    }
    await two.close()
    await expect.poll(() => p.owned).toBe(4)
    await depositAll(one, 4)
    await p.catchUp()
    expect(together(held(p.state))).toEqual(all(7))
  })

  it('C6: a process that lost a partition is fenced: it writes no checkpoint, holds no state, and takes it again when it is free', async () => {
    const w = await world()
    const rp = await w.engine()
    await depositAll(rp, 1)
    const p = await rp.open(totals())
    await p.catchUp()
    await p.checkpoint()
    const other = await w.engine()
    const timeline = timelineId('projection/totals@1-1/0')
    const taken = await StateTimeline.take(hostOf(other).kernel, timeline, { takeover: true })
    const before = (await rp.checkpoints(timeline)).length
    await depositAll(rp, 1)
    await p.catchUp()
    await p.checkpoint()
    expect((await rp.checkpoints(timeline)).length).toBe(before)
    expect([p.owned, p.state.size]).toEqual([3, 3])
    await taken.release()
    await expect.poll(() => p.owned).toBe(4)
    await p.catchUp()
    expect(together(held(p.state))).toEqual(all(2))
  })

  it('C6: a rebuild in one of two processes takes all partitions and is whole when it is swapped', async () => {
    const w = await world()
    const [one, two] = [await w.engine(), await w.engine()]
    const [p, q] = [await one.open(totals()), await two.open(totals())]
    await depositAll(one, 5)
    await expect.poll(() => [p.owned, q.owned]).toEqual([2, 2])
    const built: number[] = []
    await p.rebuild({
      async onSwap({ to }) {
        // Before the other process is notified, every partition is caught up and written.
        for (let n = 0; n < 4; n++) built.push((await one.checkpoints(`projection/totals@1-${to}/${n}`)).length)
      },
    })
    expect([p.generation, ...built]).toEqual([2, 1, 1, 1, 1])
    await expect.poll(() => [q.generation, p.owned, q.owned]).toEqual([2, 2, 2])
    await Promise.all([p.catchUp(), q.catchUp()])
    expect(together(held(p.state), held(q.state))).toEqual(all(5))
  })

  it('C6: processes share the partitions of a projection into tables; rows and position move together', async () => {
    const w = await world()
    const [one, two] = [await w.engine(), await w.engine()]
    const [p, q] = [await one.open(rows()), await two.open(rows())]
    await expect.poll(() => [p.owned, q.owned]).toEqual([2, 2])
    await depositAll(one, 3)
    await Promise.all([p.catchUp(), q.catchUp()])
    const read = (state: typeof p.state) =>
      [...state.values()].flatMap((part) => [...(part as unknown as Iterable<[string, number]>)])
    expect(together(read(p.state), read(q.state))).toEqual(all(3))
    const sizes: number[] = []
    await p.rebuild({
      async onSwap({ to }) {
        for (let n = 0; n < 4; n++) {
          const built = await one.open(balances, `1-${to}-p${n}`)
          sizes.push(built.size)
          await built.close()
        }
      },
    })
    // Whole at the swap, though two processes share the partitions.
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(ids.length)
    await expect.poll(() => [q.generation, p.owned, q.owned]).toEqual([2, 2, 2])
    await two.close()
    await expect.poll(() => p.owned).toBe(4)
    await depositAll(one, 1)
    await p.catchUp()
    expect(together(read(p.state))).toEqual(all(4))
    await p.close()
    expect([...(await one.open(balances, 'p0'))].length).toBeGreaterThan(0)
  })

  it('C6: without partitions every process has the whole in memory, and one of them writes the checkpoints', async () => {
    const w = await world()
    const [one, two] = [await w.engine(), await w.engine()]
    const whole = () =>
      projection('whole', {
        from: [account],
        initial: () => new Map<string, number>(),
        on: { deposited: (m, e, at) => void m.set(at.id, (m.get(at.id) ?? 0) + e.amount) },
      })
    const [p, q] = [await one.open(whole()), await two.open(whole())]
    await depositAll(one, 1)
    await Promise.all([p.catchUp(), q.catchUp()])
    expect([together([...p.state]), together([...q.state])]).toEqual([all(1), all(1)])
    expect([p.owned, q.owned]).toEqual([1, 0])
    await q.checkpoint()
    expect(await one.checkpoints('projection/whole@1-1')).toEqual([])
    await p.checkpoint()
    expect(await one.checkpoints('projection/whole@1-1')).toHaveLength(1)
    await one.close()
    await expect.poll(() => q.owned).toBe(1)
  })
})
