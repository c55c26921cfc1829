// Checkpoints by policy, retention, garbage collection beside writers, and the catalog.

import { expect, it } from 'vitest'
import { forwardStore } from '../../src/core/store/store-wrapper.ts'
import { timeline } from '../../src/index.ts'
import { added, counter, frugal, shelf } from '../support/definitions.ts'
import { pause, until } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const settled = async (check: () => Promise<boolean>) => {
  await until(() => check())
}

onEveryStore('checkpoints', (world) => {
  it('A4.2: by count, by event, by time, on request; the catalog names the trigger', async () => {
    const w = await world()
    const rp = await w.engine()
    const mixed = timeline('mixed', {
      initial: () => 0,
      apply: (n, _e: { type: 'tick' | 'milestone' }) => n + 1,
      checkpoint: { every: 10, on: ['milestone'] },
      retain: { checkpoints: 10 },
    })
    const m = await rp.open(mixed, 'x')
    for (let i = 0; i < 10; i++) await m.append({ type: 'tick' })
    await settled(async () => (await rp.checkpoints('mixed/x')).length === 1)
    await m.append({ type: 'milestone' })
    await settled(async () => (await rp.checkpoints('mixed/x')).length === 2)
    await m.append({ type: 'tick' })
    await m.checkpoint({ trigger: 'before the call' })
    expect((await rp.checkpoints('mixed/x')).map(({ trigger }) => trigger).reverse()).toEqual([
      'count',
      'event',
      'before the call',
    ])
    const timed = timeline('timed', {
      initial: () => 0,
      apply: (n, _e: { type: 'tick' }) => n + 1,
      checkpoint: { each: 60 },
    })
    const t = await rp.open(timed, 'x')
    await t.append({ type: 'tick' })
    await settled(async () => (await rp.checkpoints('timed/x')).some(({ trigger }) => trigger === 'time'))
  })

  it('A4.3: with a recovery-time budget it measures, picks an interval, and gives the reason', async () => {
    const w = await world()
    const rp = await w.engine()
    const budget = timeline('budget', {
      initial: () => 0,
      apply: (n, _e: { type: 'tick' }) => n + 1,
      checkpoint: { recoverWithin: '2s' },
    })
    const b = await rp.open(budget, 'x')
    await b.append(Array.from({ length: 50 }, () => ({ type: 'tick' as const })))
    await b.append({ type: 'tick' })
    expect(b.checkpointing.interval.because.join()).toMatch(/2s/)
    expect(b.checkpointing.interval.entries).toBeGreaterThan(0)
  })

  it('A8.4, A8.5: keeps the last N, verified, and the catalog has coordinate, sizes and base', async () => {
    const w = await world()
    const rp = await w.engine()
    const f = await rp.open(frugal, 'x')
    for (let i = 0; i < 6; i++) {
      await f.append(added(1))
      await f.checkpoint()
    }
    const catalog = await rp.checkpoints('frugal/x')
    expect(catalog.map(({ seq }) => seq)).toEqual([6, 5])
    for (const line of catalog) {
      expect(line.verifiedAt).not.toBeNull()
      expect(line.invalid).toBeNull()
      expect(line.totalBytes).toBeGreaterThan(0)
    }
    expect((await rp.head('frugal/x'))!.floor).toBe(5)
  })

  it('A3.1: a checkpoint captures one timeline, and nothing of another that is written to meanwhile', async () => {
    const w = await world()
    const rp = await w.engine()
    const [one, other] = [await rp.open(counter, 'one'), await rp.open(counter, 'other')]
    await Promise.all([one.append(added(2)), other.append(added(5)), one.append(added(3))])
    await one.checkpoint()
    await Promise.all([one.append(added(1)), other.append(added(1))])
    expect((await rp.checkpoints('counter/one')).map((each) => each.seq)).toEqual([2])
    expect(await rp.checkpoints('counter/other')).toEqual([])
    await Promise.all([one.close(), other.close()])
    const [again, beside] = [await rp.open(counter, 'one'), await rp.open(counter, 'other')]
    expect([again.recovery.checkpoint?.seq, again.recovery.entriesReplayed]).toEqual([2, 1])
    expect([beside.recovery.checkpoint, beside.recovery.entriesReplayed]).toEqual([null, 2])
  })

  it('A4.5: the collector drops unneeded checkpoints, gives the reason first, and every live checkpoint still restores', async () => {
    const w = await world()
    const rp = await w.engine()
    const s = await rp.open(shelf, 'x')
    for (let round = 0; round < 6; round++) {
      await s.append(
        Array.from({ length: 800 }, (_, i) => ({ type: 'set' as const, key: `k${i}`, value: round * 1000 + i })),
      )
      await s.checkpoint({ full: true })
    }
    const dry = await rp.collect({ dryRun: true, graceMs: -1000 })
    expect(dry.isDryRun).toBe(true)
    const before = (await rp.verify()).chunks
    const done = await rp.collect({ graceMs: -1000 })
    expect(done.chunks.swept).toBe(dry.chunks.swept)
    const after = await rp.verify()
    expect(after.faults).toEqual([])
    expect(after.orphans).toBe(0)
    expect(after.chunks).toBe(before - done.chunks.swept)
    expect((await rp.drill()).results.every(({ ok }) => ok)).toBe(true)
    expect(done.timelines[0]!.keep.every(({ because }) => because.length > 0)).toBe(true)
  })

  it('a collector beside a writer breaks nothing', async () => {
    const w = await world()
    const [writer, collector] = [await w.engine(), await w.engine()]
    const s = await writer.open(frugal, 'x')
    hostOf(collector).register(frugal.prefix, frugal.fold)
    let isWriting = true
    const collecting = (async () => {
      while (isWriting) {
        await collector.collect()
        await pause(1)
      }
    })()
    for (let i = 0; i < 60; i++) {
      await s.append(added(1))
      if (i % 7 === 0) await s.checkpoint()
    }
    isWriting = false
    await collecting
    expect((await collector.verify()).faults).toEqual([])
    await writer.close()
    expect((await collector.open(frugal, 'x')).state.total).toBe(60)
  })

  it('D6: the card shows the captured state, the remaining history, the owner and the cost of recovery', async () => {
    const w = await world()
    const rp = await w.engine()
    const c = await rp.open(counter, 'visits')
    await c.append([added(1), added(2)])
    await c.checkpoint()
    await c.append(added(3))
    await c.effects.run('mail', () => 'sent')
    const card = await rp.card('counter/visits')
    expect(card).toMatchObject({
      coordinate: c.coordinate,
      captured: { seq: 2, isVerified: true },
      history: { floor: 0, head: 5, entriesAfterCheckpoint: 3 },
      effects: { safe: 1, inDoubt: 0 },
      recovery: { entriesReplayed: 3 },
      missing: null,
    })
    expect(card.owner?.isAlive).toBe(true)
  })

  it('A4.6: a drill restores every checkpoint aside, compares it with full replay, and notes it in the catalog', async () => {
    const w = await world()
    const rp = await w.engine()
    const s = await rp.open(shelf, 'x')
    await s.append(Array.from({ length: 200 }, (_, i) => ({ type: 'set' as const, key: `k${i}`, value: i })))
    await s.checkpoint()
    await s.append({ type: 'cut', key: 'k3' })
    await s.checkpoint()
    const report = await rp.drill()
    expect(report.results).toHaveLength(2)
    expect(report.results.every(({ ok, note }) => ok && note === 'equal to full replay')).toBe(true)
    const catalog = await rp.checkpoints('shelf/x')
    expect(catalog.every(({ drilledAt, drill }) => drilledAt !== null && drill?.startsWith('ok'))).toBe(true)
  })

  it('G11: a checkpoint that retention takes away during a drill neither fails it nor is marked', async () => {
    const w = await world()
    const store = await w.store()
    // A reader of a head gets the current list, and loses the oldest item right after.
    let isFresh = false
    let isDrilling = false
    const gone = new Set<string>()
    const taking = forwardStore(store, {
      head: (timelines) => {
        isFresh = true
        return store.head(timelines)
      },
      timelines: (query) => {
        isFresh = true
        return store.timelines(query)
      },
      checkpoints: async (id) => {
        const listed = (await store.checkpoints(id)).filter((record) => !gone.has(record.id))
        if (isFresh && isDrilling && listed.length > 1) gone.add(listed.at(-1)!.id)
        isFresh = false
        return listed
      },
    })
    const rp = await w.engine({ ports: { store: taking } })
    const s = await rp.open(shelf, 'x')
    for (const key of 'abcdefgh') {
      await s.append({ type: 'set', key, value: 1 })
      await s.checkpoint({ pin: true })
    }
    isDrilling = true
    const { ok, results } = await rp.drill()
    expect([ok, results[0]?.seq, gone.size > 0]).toEqual([true, 8, true])
    expect((await rp.checkpoints('shelf/x')).filter(({ invalid }) => invalid !== null)).toEqual([])
  })
})
