// A run is started once under an id. A second start with the same input returns it; one with another input is refused.

import { expect, it } from 'vitest'
import { workflow, workflows } from '../../src/layers/workflow/index.ts'
import { onEveryStore } from '../support/worlds.ts'

interface Order {
  readonly amount: number
  readonly at?: Date
}

const pay = workflow<Order, number>('pay', (ctx, { amount }) => ctx.step('charge', () => amount))

onEveryStore('a run under an id that exists', (world) => {
  it('is given for the same input, whatever the order of its keys, and refused for another', async () => {
    const rp = await (await world()).engine()
    const at = new Date(5)
    const first = await rp.run(pay, { amount: 1, at }, { id: 'o1' })
    expect(await first.result()).toBe(1)
    expect(await (await rp.run(pay, { at: new Date(5), amount: 1 }, { id: 'o1' })).result()).toBe(1)
    await expect(rp.run(pay, { amount: 2, at }, { id: 'o1' })).rejects.toMatchObject({ code: 'EXISTS' })
    await expect(rp.run(pay, { amount: 1 }, { id: 'o1', here: false })).rejects.toMatchObject({ code: 'EXISTS' })
    expect(await workflows(rp).of<number>(pay).get('o1').result()).toBe(1)
  })

  it('is given for the input of its last restart, also to another process', async () => {
    const w = await world()
    const rp = await w.engine()
    await (await rp.run(pay, { amount: 1 }, { id: 'o1' })).result()
    const again = await rp.run(pay, { amount: 2 }, { id: 'o1', ifExists: 'restart' })
    expect(await again.result()).toBe(2)
    const other = await w.engine()
    expect(await (await other.run(pay, { amount: 2 }, { id: 'o1' })).result()).toBe(2)
    await expect(other.run(pay, { amount: 3 }, { id: 'o1' })).rejects.toMatchObject({ code: 'EXISTS' })
  })
})

onEveryStore('children of runs with the same id', (world) => {
  const ship = workflow<string, string>('ship', (ctx, what) => ctx.step('pack', () => `${what} packed`))
  const order = workflow<string, string>('order', (ctx, what) => ctx.child(ship, what))
  const refund = workflow<string, string>('refund', (ctx, what) => ctx.child(ship, what))
  const named = workflow<string, string>('named', (ctx, what) => ctx.child(ship, what, { id: 'mine' }))

  it('are distinguished by the workflow of their parent', async () => {
    const rp = await (await world()).engine()
    expect(await rp.run(order, 'book', { id: '42' }).result()).toBe('book packed')
    expect(await rp.run(refund, 'lamp', { id: '42' }).result()).toBe('lamp packed')
  })

  it('are two runs where one lives on its own and one is waited for', async () => {
    const rp = await (await world()).engine()
    const both = workflow<string, string[]>('both', async (ctx, what) => {
      const own = await ctx.start(ship, what)
      return [own, await ctx.child(ship, what)]
    })
    const [own, packed] = await rp.run(both, 'book', { id: '42' }).result()
    expect(packed).toBe('book packed')
    expect(await workflows(rp).of(ship).get(own!).result()).toBe('book packed')
    expect((await workflows(rp).of(ship).list()).length).toBe(2)
    // One name cannot refer to both: a caller that waits for it would wait forever.
    const same = workflow('same', async (ctx) => {
      await ctx.start(ship, 'lamp', { id: 'one' })
      return await ctx.child(ship, 'lamp', { id: 'one' })
    })
    await expect(rp.run(same, { id: '43' }).result()).rejects.toThrow('a run of its own')
  })

  it('that share one id fail, since the run of that id reports its end to one parent only', async () => {
    const rp = await (await world()).engine()
    expect(await rp.run(named, 'book', { id: '1' }).result()).toBe('book packed')
    await expect(rp.run(named, 'lamp', { id: '2' }).result()).rejects.toThrow('exists already')
    await rp.run(ship, 'box', { id: 'mine-too' }).result()
    const other = workflow<string, string>('other', (ctx, what) => ctx.child(ship, what, { id: 'mine-too' }))
    await expect(rp.run(other, 'lamp', { id: '2' }).result()).rejects.toThrow('a run of its own')
  })
})
