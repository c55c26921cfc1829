// The same done to many runs, found by a query: each run is done or refused by itself, with the reason.

import { afterEach, describe, expect, it } from 'vitest'
import { workflow, workflows } from '../../src/layers/workflow/index.ts'
import { WorkflowKit } from '../../src/testing/index.ts'

let kit: WorkflowKit
let log: string[]
let isBroken: boolean
const keys = new Set<string>()
afterEach(() => kit.close())

const order = workflow('order', async (ctx, shop: string) => {
  ctx.attributes({ shop })
  await ctx.step('reserve', () => log.push(`reserve ${ctx.id}`), { compensate: () => log.push(`undo ${ctx.id}`) })
  const paid = await ctx.step('pay', ({ key }) => {
    keys.add(key)
    log.push(`pay ${ctx.id} ${shop}`)
    return shop
  })
  return `${paid} ${await ctx.signal('ship')}`
})

const flaky = workflow('flaky', async (ctx, shop: string) => {
  ctx.attributes({ shop })
  await ctx.step('first', () => log.push(`first ${ctx.id}`))
  return await ctx.step('second', () => {
    log.push(`second ${ctx.id}`)
    if (isBroken) throw new Error('down')
    return shop
  })
})

async function startOrders() {
  kit = new WorkflowKit()
  log = []
  for (const [id, shop] of Object.entries({ a: 'x', b: 'y', c: 'x' })) await kit.run(order, shop, { id })
  await kit.advance('1h')
  log.length = 0
  return workflows(kit.rp).of<string>(order)
}

const inShopX = { attributes: { shop: 'x' } }

describe('all runs that a query finds', () => {
  it('are sent a signal, and only they', async () => {
    const runs = await startOrders()
    expect(await runs.signal(inShopX, 'ship', 'today')).toEqual({ done: ['a', 'c'], refused: [] })
    expect(await kit.result(runs.get('a'))).toBe('x today')
    expect(await kit.result(runs.get('c'))).toBe('x today')
    expect((await runs.get('b').status()).isEnded).toBe(false)
    const again = await runs.signal(inShopX, 'ship', 'twice')
    expect([again.done, again.refused.map(({ id }) => id)]).toEqual([[], ['a', 'c']])
    expect(again.refused[0]!.why).toContain('had already ended')
  })

  it('are terminated without compensation, and only they', async () => {
    const runs = await startOrders()
    expect(await runs.terminate(inShopX, { reason: 'shop closed' })).toEqual({ done: ['a', 'c'], refused: [] })
    await kit.advance('1h')
    expect((await runs.list({ status: 'terminated' })).map(({ id }) => id)).toEqual(['a', 'c'])
    expect((await runs.list({ status: 'waiting' })).map(({ id }) => id)).toEqual(['b'])
    expect(log).toEqual([])
  })

  it('are cancelled with compensation, and only they', async () => {
    const runs = await startOrders()
    expect(await runs.cancel(inShopX, { reason: 'shop closed' })).toEqual({ done: ['a', 'c'], refused: [] })
    await kit.advance('1h')
    expect((await runs.list({ status: 'cancelled' })).map(({ id }) => id)).toEqual(['a', 'c'])
    expect(log.sort()).toEqual(['undo a', 'undo c'])
  })

  it('are rolled back to a step and go on from there, and one without that step is refused', async () => {
    const runs = await startOrders()
    const before = new Set(keys)
    expect(await runs.rollback(inShopX, { to: 'reserve' })).toEqual({ done: ['a', 'c'], refused: [] })
    await kit.advance('1h')
    expect([...keys].filter((key) => !before.has(key))).toHaveLength(2)
    expect(log.sort()).toEqual(['pay a x', 'pay c x', 'reserve a', 'reserve c', 'undo a', 'undo c'])
    const { done, refused } = await runs.rollback({}, { to: 'no such step' })
    expect([done, refused.map(({ id }) => id)]).toEqual([[], ['a', 'b', 'c']])
    await runs.signal({}, 'ship', 'now')
    expect(await kit.result(runs.get('a'))).toBe('x now')
    expect(await kit.result(runs.get('b'))).toBe('y now')
  })

  it('are forked from a step with other input: each fork goes its way, the originals theirs', async () => {
    const runs = await startOrders()
    expect(await runs.fork(inShopX, 'pay', { input: 'z' })).toEqual({ done: ['a', 'c'], refused: [] })
    await kit.advance('1h')
    const forks = (await runs.list()).map(({ id }) => id).filter((id) => id.includes('.fork-'))
    expect(forks.map((id) => id.split('.')[0])).toEqual(['a', 'c'])
    expect(log.filter((line) => line.startsWith('pay')).length).toBe(2)
    expect(log.every((line) => line.endsWith(' z'))).toBe(true)
    await runs.signal({}, 'ship', 'now')
    for (const id of forks) expect(await kit.result(runs.get(id))).toBe('z now')
    expect(await kit.result(runs.get('a'))).toBe('x now')
    expect(log.some((line) => line.startsWith('reserve'))).toBe(false)
  })

  it('are retried from their failure, and those that did not fail are refused', async () => {
    kit = new WorkflowKit()
    log = []
    isBroken = true
    for (const [id, shop] of Object.entries({ a: 'x', b: 'x' })) {
      const run = await kit.run(flaky, shop, { id })
      await expect(kit.result(run)).rejects.toThrow('down')
    }
    isBroken = false
    expect(await kit.result(await kit.run(flaky, 'x', { id: 'c' }))).toBe('x')
    log.length = 0
    const runs = workflows(kit.rp).of<string>(flaky)
    const { done, refused } = await runs.retry(inShopX)
    expect([done, refused.map(({ id }) => id)]).toEqual([['a', 'b'], ['c']])
    expect(refused[0]!.why).toContain('only a run that failed')
    expect(await kit.result(runs.get('a'))).toBe('x')
    expect(await kit.result(runs.get('b'))).toBe('x')
    expect(log.sort()).toEqual(['second a', 'second b'])
  })
})
