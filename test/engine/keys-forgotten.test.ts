// Dedupe keys are remembered within a declared window: memory and checkpoints stay bounded, and every way to the state forgets
// at the same place.

import { expect, it } from 'vitest'
import { timeline } from '../../src/index.ts'
import { onEveryStore } from '../support/worlds.ts'

const make = (keys?: 'all' | { last: number }) =>
  timeline('log', {
    initial: () => ({ total: 0 }),
    apply: (state: { total: number }, _entry: { type: 'added' }) => ({ total: state.total + 1 }),
    retain: { checkpoints: 2, ...(keys && { keys }) },
  })
const settled = () => new Promise((resolve) => setTimeout(resolve, 20))

onEveryStore('dedupe keys', (world) => {
  it('the last N are remembered, in memory, in checkpoints and after a restart; an older one is appended again', async () => {
    const at = await world()
    const engine = await at.engine()
    const log = await engine.open(make({ last: 20 }), 'a')
    for (let n = 0; n < 100; n++) await log.append({ type: 'added' }, { key: `k${n}` })
    await settled()
    for (let n = 80; n < 100; n++) await log.append({ type: 'added' }, { key: `k${n}` })
    expect(log.state.total).toBe(100)
    await log.append({ type: 'added' }, { key: 'k0' })
    expect(log.state.total).toBe(101)
    await log.checkpoint()
    await log.close()
    const next = await at.engine()
    const again = await next.open(make({ last: 20 }), 'a')
    for (let n = 85; n < 100; n++) await again.append({ type: 'added' }, { key: `k${n}` })
    expect(again.state.total).toBe(101)
    await again.append({ type: 'added' }, { key: 'k1' })
    expect(again.state.total).toBe(102)
    expect((await next.verify()).faults).toEqual([])
    expect((await next.drill()).results.every(({ ok }) => ok)).toBe(true)
    await again.close()
    // In the copy from before the deletion, all of them are known again.
    await next.rollback({ to: { timeline: 'log/a', seq: 20 } })
    const back = await next.open(make({ last: 20 }), 'a')
    for (let n = 0; n < 20; n++) await back.append({ type: 'added' }, { key: `k${n}` })
    expect(back.state.total).toBe(20)
  })

  it('all are remembered if declared', async () => {
    const engine = await (await world()).engine()
    const log = await engine.open(make('all'), 'a')
    for (let n = 0; n < 50; n++) await log.append({ type: 'added' }, { key: `k${n}` })
    await settled()
    await log.append({ type: 'added' }, { key: 'k0' })
    expect(log.state.total).toBe(50)
    expect(log.coordinate.seq).toBe(50)
  })
})
