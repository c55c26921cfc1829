// A key names one append, with any number of entries: no other key can be mistaken for one of them.

import { expect, it } from 'vitest'
import { aggregate } from '../../src/layers/events/index.ts'
import { added, counter } from '../support/definitions.ts'
import { onEveryStore } from '../support/worlds.ts'

onEveryStore('keys of batches', (world) => {
  it('a key of another caller does not drop an entry of a batch', async () => {
    const rp = await (await world()).engine()
    const handle = await rp.open(counter, 'a')
    await handle.append(added(1), { key: 'k#1' })
    await handle.append([added(10), added(100)], { key: 'k' })
    expect(handle.state.total).toBe(111)
    await handle.append([added(10), added(100)], { key: 'k' })
    await handle.append(added(1000), { key: 'k#1' })
    expect(handle.state.total).toBe(111)
  })

  it('a batch is applied whole or not at all, here, at once and after a restart', async () => {
    const w = await world()
    const rp = await w.engine()
    const handle = await rp.open(counter, 'a')
    const batch = () => handle.append([added(1), added(10), added(100)], { key: 'k' })
    const both = await Promise.all([batch(), batch()])
    expect(both.map(({ isDuplicate }) => isDuplicate).sort()).toEqual([false, true])
    await handle.close()
    const again = await (await w.engine()).open(counter, 'a')
    expect((await again.append([added(1), added(10), added(100)], { key: 'k' })).isDuplicate).toBe(true)
    expect(again.state.total).toBe(111)
  })

  it('a key that marks the end of a batch is refused, and a batch may have the longest key', async () => {
    const rp = await (await world()).engine()
    const handle = await rp.open(counter, 'a')
    await handle.append([added(1), added(10)], { key: 'k' })
    await expect(handle.append(added(100), { key: '$end k' })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    expect((await handle.append(added(100), { key: 'k end' })).isDuplicate).toBe(false)
    const long = 'k'.repeat(512)
    for (const isDuplicate of [false, true]) {
      expect(await handle.append([added(1000), added(10_000)], { key: long })).toMatchObject({ isDuplicate })
    }
    const longer = handle.append([added(1), added(1)], { key: `${long}k` })
    await expect(longer).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    expect(handle.state.total).toBe(11_111)
  })

  it('an id of a command does not drop an event of another', async () => {
    const basket = aggregate('basket', {
      initial: () => ({ items: [] as string[] }),
      evolve: { put: (s, e: { item: string }) => ({ items: [...s.items, e.item] }) },
      decide: { fill: (_s, c: { items: string[] }) => c.items.map((item) => ({ type: 'put' as const, item })) },
    })
    const rp = await (await world()).engine()
    const mine = await rp.open(basket, 'x')
    await mine.do('fill', { items: ['a'] }, { key: 'c#1' })
    await mine.do('fill', { items: ['b', 'c', 'd'] }, { key: 'c' })
    await mine.do('fill', { items: ['b', 'c', 'd'] }, { key: 'c' })
    expect(mine.state.items).toEqual(['a', 'b', 'c', 'd'])
  })
})
