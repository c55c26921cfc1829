// Keys of steps before a receiver that honours them (G5, SPEC A6.5): an equal key always stands for an equal intent, over
// namespaces, stores, forks, rollbacks and lives of an id; and an intent keeps its key over restores.

import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { type Options, open, type Reprise } from '../../src/index.ts'
import { type WorkflowContext, workflow } from '../../src/layers/workflow/index.ts'
import { OutsideLedger } from '../../src/testing/index.ts'
import { pause, temporaryFolder, until } from '../support/fixture.ts'

let folder = ''
let opened: Reprise[] = []
beforeEach(() => {
  folder = temporaryFolder('keys')
})
afterEach(async () => {
  for (const rp of opened) await rp.close()
  opened = []
})

async function openStore(name: string, options: Options = {}): Promise<Reprise> {
  const rp = await open(`sqlite:${join(folder, name)}.db`, { housekeeping: false, ...options })
  opened.push(rp)
  return rp
}

interface Order {
  readonly to: string
  readonly amount: number
  /** Waits for a signal; otherwise none is sent. */
  readonly waits?: true
}

/** Charges the amount of its input, a quote and a signal. */
function shopWith(bank: OutsideLedger, quote: () => number = () => 1) {
  return workflow('shop', async (ctx: WorkflowContext, order: Order) => {
    const factor = await ctx.step('quote', quote)
    const to = await ctx.signal<string>('to', { timeout: order.waits ? '10m' : 1, otherwise: order.to })
    return await ctx.step('charge', ({ key }) => bank.receive(key, { to, amount: order.amount * factor }))
  })
}

it('charges in each namespace and in each store, whatever ids they share', async () => {
  const bank = new OutsideLedger()
  const shop = shopWith(bank)
  const order = { to: 'ann', amount: 500 }
  const places = [
    await openStore('one', { namespace: 'red' }),
    await openStore('one', { namespace: 'blue' }),
    await openStore('two', { namespace: 'red' }),
  ]
  for (const rp of places) await (await rp.run(shop, order, { id: 'order-1' })).result()
  expect(bank.done).toHaveLength(3)
  expect(new Set(bank.calls.map(({ key }) => key)).size).toBe(3)
})

it('charges an id that is used again anew', async () => {
  const bank = new OutsideLedger()
  const shop = shopWith(bank)
  const rp = await openStore('one')
  for (const amount of [500, 900, 500]) {
    const run = await rp.run(shop, { to: 'ann', amount }, { id: 'order-1' })
    expect(await run.result()).toEqual({ to: 'ann', amount })
    await rp.delete(run.timeline)
  }
  expect(bank.done).toHaveLength(3)
})

it('starts children of its own where an id is used again', async () => {
  const child = workflow('pay', async (_: WorkflowContext, amount: number) => amount)
  const parent = workflow('buy', async (ctx: WorkflowContext, amount: number) => await ctx.child(child, amount))
  const rp = await openStore('one')
  for (const amount of [500, 900]) {
    const run = await rp.run(parent, amount, { id: 'order-1' })
    expect(await run.result()).toBe(amount)
    await rp.delete(run.timeline)
  }
})

it('keeps the key of the same intent over a restore, and gives another intent another', async () => {
  const bank = new OutsideLedger()
  let factor = 1
  const shop = shopWith(bank, () => factor)
  const order = { to: 'ann', amount: 500, waits: true } as const
  const before = await openStore('live')
  await before.run(shop, order, { id: 'order-1', delay: 1 })
  await before.close()
  opened = []
  cpSync(join(folder, 'live.db'), join(folder, 'backup.db'))
  /** Continues from the backup, with other answers from the outside. */
  const goOn = async (name: string, answers: { readonly factor: number; readonly to: string }) => {
    factor = answers.factor
    cpSync(join(folder, 'backup.db'), join(folder, `${name}.db`))
    const rp = await openStore(name)
    const run = await rp.run(shop, order, { id: 'order-1' })
    await run.signal('to', answers.to)
    return await run.result()
  }
  expect(await goOn('a', { factor: 1, to: 'ann' })).toEqual({ to: 'ann', amount: 500 })
  expect(await goOn('b', { factor: 1, to: 'ann' })).toEqual({ to: 'ann', amount: 500 })
  expect(bank.done).toHaveLength(1)
  expect(await goOn('c', { factor: 2, to: 'ann' })).toEqual({ to: 'ann', amount: 1000 })
  expect(await goOn('d', { factor: 1, to: 'bob' })).toEqual({ to: 'bob', amount: 500 })
  expect(bank.confused).toEqual([])
  expect(bank.repeated).toEqual([])
})

it('gives a fork and a rollback keys of their own', async () => {
  const bank = new OutsideLedger()
  const shop = shopWith(bank)
  const rp = await openStore('one')
  const run = await rp.run(shop, { to: 'ann', amount: 500 }, { id: 'order-1' })
  await run.result()
  const fork = await run.fork('charge')
  await fork.result()
  await run.rollback({ to: 'charge' })
  await run.result()
  expect(bank.done).toHaveLength(3)
})

it('gives each iteration of a loop another key, and each start with new input', async () => {
  const bank = new OutsideLedger()
  const pages = workflow('pages', async (ctx: WorkflowContext, round: number): Promise<number> => {
    const last = await ctx.loop(0, async (n: number, ctx) => {
      await ctx.step('page', ({ key }) => bank.receive(key, { round, n }))
      return n === 2 ? ctx.stop(n) : n + 1
    })
    return round < 2 ? ctx.continueAsNew(round + 1) : (last as number)
  })
  const rp = await openStore('one')
  await (await rp.run(pages, 1, { id: 'p' })).result()
  expect(bank.done).toEqual([1, 2].flatMap((round) => [0, 1, 2].map((n) => ({ round, n }))))
  expect(bank.confused).toEqual([])
})

it('keeps the keys of branches whatever the order in which their results arrive', async () => {
  const bank = new OutsideLedger()
  let delays = [0, 10, 20]
  const fan = workflow('fan', async (ctx: WorkflowContext) => {
    const branches = [0, 1, 2].map((i) => async (own: WorkflowContext) => {
      const quote = await own.step('quote', async () => {
        await new Promise((resolve) => setTimeout(resolve, delays[i]))
        return i * 100
      })
      await own.step('charge', ({ key }) => bank.receive(key, { i, quote }))
    })
    await ctx.parallel(branches)
    const all = await Promise.all(
      delays.map((delay, i) =>
        ctx.step(`part-${i}`, async () => {
          await pause(delay)
          return i
        }),
      ),
    )
    await ctx.step('sum', ({ key }) => bank.receive(key, { all }))
  })
  const before = await openStore('live')
  await before.run(fan, { id: 'f', delay: 1 })
  await before.close()
  opened = []
  for (const order of [
    [0, 10, 20],
    [20, 10, 0],
    [10, 0, 20],
  ]) {
    delays = order
    cpSync(join(folder, 'live.db'), join(folder, `${order.join('-')}.db`))
    const rp = await openStore(order.join('-'))
    await (await rp.run(fan, { id: 'f' })).result()
  }
  expect(bank.done).toHaveLength(4)
  expect(bank.confused).toEqual([])
})

it('derives the key from the declared input alone where a step declares one', async () => {
  const bank = new OutsideLedger()
  let noise = 0
  const noisy = workflow('noisy', async (ctx: WorkflowContext, input: Order) => {
    await ctx.step('clock', () => noise)
    await ctx.step('charge', ({ key }) => bank.receive(key, { ...input }), { input })
  })
  const before = await openStore('live')
  await before.run(noisy, { to: 'ann', amount: 1 }, { id: 'n', delay: 1 })
  await before.close()
  opened = []
  for (noise of [1, 2]) {
    cpSync(join(folder, 'live.db'), join(folder, `${noise}.db`))
    const rp = await openStore(String(noise))
    await (await rp.run(noisy, undefined as never, { id: 'n' })).result()
  }
  expect(bank.calls).toHaveLength(2)
  expect(bank.done).toHaveLength(1)
})

it('hands the same key to every attempt, also where the code changes an object that it was given', async () => {
  const keys: string[] = []
  const careless = workflow('careless', async (ctx: WorkflowContext, input: { n: number }) => {
    const got = await ctx.step('get', () => ({ list: [1] }))
    got.list.push(2)
    input.n += 1
    await ctx.step(
      'use',
      ({ key, attempt }) => {
        keys.push(key)
        if (attempt < 3) throw new Error('again')
      },
      { retry: { attempts: 3, backoff: '300ms' } },
    )
  })
  let rp = await openStore('one')
  const { timeline } = await rp.run(careless, { n: 1 }, { id: 'c' })
  for (let process = 0; process < 2; process++) {
    await until(() => keys.length > process)
    await rp.close()
    opened = []
    rp = await openStore('one')
    rp.work([careless])
  }
  await (await rp.run(careless, undefined as never, { id: 'c' })).result()
  expect(timeline).toBe('workflow/careless/c')
  expect(keys).toHaveLength(3)
  expect(new Set(keys).size).toBe(1)
})
