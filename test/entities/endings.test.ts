// Rows that end by themselves, in tables and in paged tables: gone when their time is over, there when they are set again.

import { expect, it } from 'vitest'
import type { Clock } from '../../src/core/store/ports.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { systemClock } from '../../src/engine/base/platform.ts'
import { pagedTable, table } from '../../src/layers/table/index.ts'
import { onEveryStore } from '../support/worlds.ts'
import { collect, soon, until } from './support.ts'

onEveryStore('endings', (world) => {
  it('ends rows by themselves, and keeps those that were set again', async () => {
    const w = await world()
    const rp = await w.engine()
    const t = await rp.open(table<number>('ends'))
    await t.set('soon', 1, { ttl: 1 })
    await t.set('again', 1, { ttl: 1 })
    await t.set('later', 1, { ttl: '1h' })
    await until(() => !t.has('soon') && !t.has('again'))
    expect([...t.keys()]).toEqual(['later'])
    await Promise.all([t.set('again', 2), t.sweep()])
    expect(t.size).toBe(2)
    await rp.close()
    const after = await (await w.engine()).open(table<number>('ends'))
    expect([...after]).toEqual([
      ['again', 2],
      ['later', 1],
    ])
  })

  it('C7: ends rows by themselves, also those that lie in pages, and keeps those that were set again', async () => {
    const w = await world()
    const rp = await w.engine()
    const ends = () => pagedTable<number>('ends', { changedRows: 3 })
    const t = await rp.open(ends())
    await t.set('soon', 1, { ttl: 1 })
    await t.set('again', 1, { ttl: 1 })
    await t.set('later', 1, { ttl: '1h' })
    await t.checkpoint()
    await until(async () => !(await t.has('soon')) && !(await t.has('again')))
    expect(await collect(t.keys())).toEqual(['later'])
    await t.set('again', 2)
    // The table may have swept by itself in between.
    expect(await t.sweep()).toBeLessThanOrEqual(1)
    await t.checkpoint()
    await rp.close()
    const after = await (await w.engine()).open(ends())
    expect(await collect(after.entries())).toEqual([
      ['again', 2],
      ['later', 1],
    ])
    const short = await (await w.engine()).open(pagedTable<number>('short', { ttl: 1 }))
    await short.set('gone', 1)
    await until(async () => (await short.get('gone')) === undefined)
  })

  it('C7: a row that is set again in the same batch in which it would be swept stays', async () => {
    const rp = await (await world()).engine()
    const t = await rp.open(pagedTable<number>('swept'))
    for (let n = 0; n < 5; n++) {
      await t.set('again', 1, { ttl: 1 })
      await until(async () => !(await t.has('again')))
      await Promise.all([t.set('again', 2), t.sweep()])
      expect(await t.get('again')).toBe(2)
    }
  })

  it('C7: a clock that is set back makes rows young again, and the sweep ends', async () => {
    let backMs = 0
    const clock = { ...systemClock, now: () => Date.now() - backMs }
    const rp = await (await world()).engine({ ports: { clock } })
    const t = await rp.open(pagedTable<number>('young'))
    await t.set('row', 1, { ttl: 1 })
    await until(async () => !(await t.has('row')))
    const sweeping = t.sweep()
    backMs = 3_600_000
    expect([await sweeping, await t.get('row')]).toEqual([0, 1])
    backMs = 0
    expect([await t.has('row'), await t.sweep()]).toEqual([false, 1])
  })

  it('C7: a table has a timer only while rows are to end, and one that was lost or left open leaves none', async () => {
    const w = await world()
    const timers = new Set<() => void>()
    const clock: Clock = {
      ...systemClock,
      after(delayMs, call, isAwaited) {
        // Sweeps are the only ones that wait for just a second; they wait for the test.
        if (delayMs !== 1000) return systemClock.after(delayMs, call, isAwaited)
        timers.add(call)
        return () => timers.delete(call)
      },
    }
    const fire = () => {
      for (const call of timers) {
        timers.delete(call)
        call()
      }
    }
    const rp = await w.engine({ ports: { clock } })
    const [timed, paged] = [table<number>('timed'), pagedTable<number>('paged')]
    const openers = [
      (engine: Reprise) => engine.open(timed, undefined, { takeover: true }),
      (engine: Reprise) => engine.open(paged, undefined, { takeover: true }),
    ]
    for (const open of openers) {
      const t = await open(rp)
      await t.set('stays', 1)
      expect(timers.size).toBe(0)
      await t.set('ends', 1, { ttl: 1 })
      expect(timers.size).toBe(1)
      await until(async () => !(await t.has('ends')))
      fire()
      // The sweep is through when it finds nothing more to come.
      await until(async () => (await t.sweep()) === 0)
      await soon()
      expect(timers.size).toBe(0)
      await t.set('later', 1, { ttl: '1h' })
      expect(timers.size).toBe(1)
      // Another process takes it over.
      await open(await w.engine())
      await expect(t.set('lost', 1)).rejects.toMatchObject({ code: 'FENCED' })
      fire()
      expect(timers.size).toBe(0)
    }
    const left = await rp.open(table<number>('left'))
    await left.set('later', 1, { ttl: '1h' })
    expect(timers.size).toBe(1)
    await rp.close()
    fire()
    expect(timers.size).toBe(0)
  })
})
