// The base of a checkpoint of a paged table: the previous one, as long as it is in the catalog.

import { expect, it } from 'vitest'
import { newOperation } from '../../src/engine/storage/kernel.ts'
import { pagedTable } from '../../src/layers/table/index.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'
import { type Bend, bentEngine, noise } from './support.ts'

const key = (n: number) => `k${String(n).padStart(6, '0')}`

onEveryStore('base of a paged checkpoint', (world) => {
  it('A4.1: a checkpoint without new entries returns the existing one, and the table continues from it', async () => {
    const w = await world()
    const rp = await w.engine()
    const t = await rp.open(pagedTable<number>('twice', { changedRows: 3 }))
    for (let n = 0; n < 12; n++) {
      // With every third row one is made by itself, at the same sequence.
      await t.set(key(n), n)
      const made = await t.checkpoint()
      expect((await t.checkpoint()).id).toBe(made.id)
    }
    const catalog = await rp.checkpoints(t.timeline)
    expect(new Set(catalog.map(({ seq }) => seq)).size).toBe(catalog.length)
    await rp.close()
    const again = await (await w.engine()).open(pagedTable<number>('twice'))
    expect(again.recovery.entriesReplayed).toBe(0)
    expect(await again.count()).toBe(12)
  })

  it('A4.5: a checkpoint that was dropped under an open table is followed by a whole one', async () => {
    const w = await world()
    const bend: Bend = {}
    const { rp, store } = await bentEngine(w, bend)
    const dropped = () => pagedTable<string>('dropped', { cacheBytes: 1000, changedRows: 10_000 })
    const t = await rp.open(dropped())
    await Promise.all(Array.from({ length: 1200 }, (_, n) => t.set(key(n), noise(n, 200))))
    const first = await t.checkpoint()
    const drop = async () => {
      const [newest] = await rp.checkpoints(t.timeline)
      const guard = { timeline: t.timeline as never, epoch: t.coordinate.epoch }
      const [outcome] = await store.commit([
        { operation: newOperation(hostOf(rp).kernel.random), guard, drop: [newest!.id] },
      ])
      expect(outcome!.ok).toBe(true)
    }
    for (const isLate of [false, true]) {
      await t.set('z', `${isLate}`)
      if (!isLate) await drop()
      // Or just before the next one is published, when its chunks are written.
      bend.commit = async (commits) => {
        if (isLate && commits.some(({ publish }) => publish)) {
          delete bend.commit
          await drop()
        }
        return await store.commit(commits)
      }
      const made = await t.checkpoint()
      // All pages were written: a collector that runs now finds them named.
      expect(made.addedBytes).toBeGreaterThan(first.addedBytes * 0.9)
      expect(made.kind).toBe('full')
    }
    expect((await rp.verify()).faults).toEqual([])
    await rp.close()
    const again = await (await w.engine()).open(dropped())
    expect(again.recovery.entriesReplayed).toBe(0)
    expect(await again.get(key(700))).toBe(noise(700, 200))
  })
})
