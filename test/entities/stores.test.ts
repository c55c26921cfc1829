// Partitioned state stores and standbys: B4 and A9.4 on every store.

import { expect, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { policyAttribute } from '../../src/engine/checkpoint/stored-policy.ts'
import { newOperation } from '../../src/engine/storage/kernel.ts'
import { stateStore, table } from '../../src/layers/table/index.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'
import { until } from './support.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })

const counts = stateStore<number>('counts', { partitions: 4, checkpoint: { every: 8 } })
const rows = table<number>('rows', { checkpoint: { every: 5 }, retain: { checkpoints: 2, history: 'needed' } })

onEveryStore('state store', (world) => {
  it('C7: spreads keys over partitions that processes own one by one', async () => {
    const w = await world()
    const rp = await w.engine()
    const s = await rp.open(counts)
    for (let n = 0; n < 40; n++) await s.set(`k${String(n).padStart(2, '0')}`, n)
    expect([...s.entries({ limit: 3 })]).toEqual([
      ['k00', 0],
      ['k01', 1],
      ['k02', 2],
    ])
    expect([...s.entries({ reverse: true, limit: 2 })].map(([, n]) => n)).toEqual([39, 38])
    expect(s.size).toBe(40)
    const [first, second] = [
      'k00',
      [...Array(40).keys()]
        .map((n) => `k${String(n).padStart(2, '0')}`)
        .find((key) => counts.partitionOf(key) !== counts.partitionOf('k00'))!,
    ]
    await expect(s.transaction(first, (tx) => tx.set(second, 1))).rejects.toEqual(code('INVALID_ARGUMENT'))
    await rp.close()
    const [one, two] = [await w.engine(), await w.engine()]
    const mine = await counts.partition(one, 0)
    await expect(counts.partition(two, 0)).rejects.toEqual(code('OWNED'))
    const others = await Promise.all([1, 2, 3].map((p) => counts.partition(two, p)))
    expect(mine.size + others.reduce((sum, t) => sum + t.size, 0)).toBe(40)
    expect(mine.recovery.checkpoint).not.toBeNull()
    expect(mine.recovery.entriesReplayed).toBeLessThanOrEqual(8)
  })

  it('A9.4: a standby follows, answers reads, and takes over with the state it has; the old owner is fenced', async () => {
    const w = await world()
    const [one, two] = [await w.engine(), await w.engine()]
    const t = await one.open(rows)
    for (let n = 0; n < 20; n++) await t.set(`k${n}`, n)
    const standby = await rows.standby(two)
    await t.delete('k0')
    await t.set('k1', 100)
    await standby.refresh()
    expect([standby.get('k0'), standby.get('k1'), standby.size]).toEqual([undefined, 100, 19])
    await t.set('last', 1)
    const taken = await standby.takeOver()
    expect(taken.get('last')).toBe(1)
    expect(taken.recovery.entriesReplayed).toBeLessThanOrEqual(2)
    await expect(t.set('zombie', 1)).rejects.toEqual(code('FENCED'))
    await taken.set('mine', 2)
    const made = await taken.checkpoint()
    expect(made.kind).toBe('incremental')
    await two.close()
    const again = await (await w.engine()).open(rows)
    expect([again.get('mine'), again.get('zombie'), again.size]).toEqual([2, undefined, 21])
  })

  it('A9.4: a table that a standby took over is the one that is opened in its process: no update is lost between them', async () => {
    const w = await world()
    const [one, two] = [await w.engine(), await w.engine()]
    const store = stateStore<number>('sums', { partitions: 1 })
    await (await one.open(rows)).set('sum', 0)
    await (await store.partition(one, 0)).set('sum', 0)
    const pairs = [
      [await (await rows.standby(two)).takeOver(), await two.open(rows)],
      [await (await store.standby(two, 0)).takeOver(), await store.partition(two, 0)],
    ] as const
    for (const [taken, opened] of pairs) {
      const seen: unknown[] = []
      taken.watch('sum', (changes) => seen.push(...changes.map(({ value }) => value)))
      const add = (t: typeof taken) => t.transaction((tx) => tx.set('sum', tx.get('sum')! + 1))
      await Promise.all(Array.from({ length: 20 }, (_, n) => add(n % 2 ? taken : opened)))
      expect(opened.get('sum')).toBe(20)
      expect(seen.at(-1)).toBe(20)
    }
  })

  it('A9.4: a standby does not show rows whose time is over, swept or not', async () => {
    const w = await world()
    const [one, two] = [await w.engine(), await w.engine()]
    const t = await one.open(rows)
    await t.set('a', 1, { ttl: 1 })
    await t.set('b', 2, { ttl: '1h' })
    await t.set('c', 3)
    const standby = await rows.standby(two)
    await until(() => !t.has('a'))
    expect([standby.get('a'), [...standby.entries()]]).toEqual([
      undefined,
      [
        ['b', 2],
        ['c', 3],
      ],
    ])
    expect([...standby.entries({ limit: 1 })]).toEqual([['b', 2]])
    expect([...standby.entries({ reverse: true, limit: 1 })]).toEqual([['c', 3]])
  })

  it('B4: missing tombstone: a deleted key stays deleted for a standby, whatever was trimmed or compacted meanwhile', async () => {
    const w = await world()
    const [one, two] = [await w.engine(), await w.engine()]
    const t = await one.open(rows)
    for (let n = 0; n < 10; n++) await t.set(`k${n}`, n)
    await t.checkpoint()
    const standby = await rows.standby(two)
    standby.refresh()
    await t.delete('k3')
    // Far enough that the deletion is below the floor: the standby must drop its copy.
    for (let n = 0; n < 40; n++) await t.set('busy', n)
    await t.checkpoint()
    await t.set('busy', 41)
    await t.checkpoint()
    expect((await one.head('table/rows'))!.floor).toBeGreaterThan(11)
    await standby.refresh()
    expect(standby.get('k3')).toBeUndefined()
    expect(standby.get('busy')).toBe(41)
    const cold = await rows.standby(two)
    expect([...cold.entries()]).toEqual([...t.entries()])
  })

  it('B4: changelog retention too short: entries that a slow reader needs are pinned, or it starts over, never with a gap', async () => {
    const w = await world()
    const one = await w.engine()
    const t = await one.open(rows)
    // A consumer that has read nothing holds the floor down.
    await t.transaction((tx) => tx.set('a', 1), { cursors: { slow: '' } })
    for (let n = 0; n < 40; n++) await t.set('busy', n)
    await t.checkpoint()
    expect((await one.head('table/rows'))!.floor).toBe(0)
    const { next } = await hostOf(one).kernel.store.feed('', { prefixes: ['table/'] }, 1000)
    await t.transaction((tx) => tx.set('a', 2), { cursors: { slow: next } })
    for (let n = 0; n < 20; n++) await t.set('busy', n)
    await t.checkpoint()
    expect((await one.head('table/rows'))!.floor).toBeGreaterThan(0)
  })

  it('B4: offset mismatch: rows and the offset they reflect are never seen apart, not after any crash either', async () => {
    const w = await world()
    let engine = await w.engine()
    let t = await engine.open(rows)
    for (let offset = 1; offset <= 60; offset++) {
      const write = t.transaction((tx) => {
        tx.set('sum', (tx.get('sum') ?? 0) + offset)
        tx.advance('source', offset)
      })
      if (offset % 7 === 0) {
        // As a crash: the answer is not awaited, and another process takes over.
        write.catch(() => undefined)
        engine = await w.engine()
        t = await engine.open(rows, undefined, { takeover: true })
        offset = Number(t.offset('source') ?? 0)
      } else await write
      const seen = Number(t.offset('source') ?? 0)
      expect(t.get('sum') ?? 0).toBe((seen * (seen + 1)) / 2)
    }
  })

  it('B4: another number of partitions is refused, also by one partition and a standby, and before it was noted', async () => {
    const w = await world()
    const rp = await w.engine()
    const s = await rp.open(counts)
    for (let n = 0; n < 8; n++) await s.set(`k${n}`, n)
    const other = stateStore<number>('counts', { partitions: 3 })
    const more = stateStore<number>('counts', { partitions: 5 })
    for (const wrong of [other, more]) {
      const there = await w.engine()
      await expect(there.open(wrong)).rejects.toThrow(/has 4 partitions, not/)
      await expect(wrong.partition(there, 0)).rejects.toEqual(code('INVALID_ARGUMENT'))
      await expect(wrong.standby(there, 0)).rejects.toEqual(code('INVALID_ARGUMENT'))
    }
    // As old code left it.
    const old = await rp.open(table<number>('old'), 'p3')
    await old.set('a', 1)
    await old.close()
    const { kernel } = hostOf(rp)
    const [head] = await kernel.store.head([timelineId('table/old/p3')])
    const guard = { timeline: head!.timeline, epoch: head!.epoch }
    const attributes = { [policyAttribute]: null }
    await kernel.committer.submit({ operation: newOperation(kernel.random), guard, attributes })
    await expect(rp.open(stateStore<number>('old', { partitions: 2 }))).rejects.toThrow(/has 4 partitions, not 2/)
    expect((await rp.open(stateStore<number>('old', { partitions: 4 }))).size).toBe(1)
    await rp.close()
    expect((await (await w.engine()).open(counts)).size).toBe(8)
  })
})
