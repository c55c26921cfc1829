// The types of workflows: declared messages are checked on both sides, branches keep their types, schedules take the input of
// their workflow. Lines that must not compile are marked; `npm run types` checks them.

import { expect, expectTypeOf, it } from 'vitest'
import {
  query,
  type ScheduleDefinition,
  schedule,
  signal,
  update,
  type WorkflowContext,
  type WorkflowRun,
  workflow,
  workflows,
} from '../../src/layers/workflow/index.ts'
import { kitWith } from './kits.ts'

const paid = signal<{ readonly amount: number }>('paid')
const stop = signal('stop')
const total = query<[currency: string], number>('total')
const add = update<number, string>('add')

const order = workflow<string, number>('order', async (ctx, customer) => {
  let sum = 0
  ctx.onQuery(total, (currency) => (currency === 'EUR' ? sum : 0))
  ctx.onUpdate(add, (n) => {
    sum += n
    return `${customer}: ${sum}`
  })
  const { amount } = await ctx.signal(paid)
  await ctx.signal(stop)
  return amount + sum
})

it('declared signals, queries and updates work under their names', async () => {
  const kit = kitWith()
  const run = await kit.run(order, 'ann', { id: '1' })
  await kit.settle()
  expect(await kit.until(run.update(add, 2))).toBe('ann: 2')
  expect(await kit.until(run.query(total, 'EUR'))).toBe(2)
  await kit.until(run.signal(paid, { amount: 3 }))
  await kit.until(workflows(kit.rp).of(order).signal({}, stop))
  expect(await kit.result(run)).toBe(5)
})

it('branches keep their types, and the winner is named', async () => {
  const kit = kitWith()
  const racing = workflow('racing', async (ctx) => {
    const first = await ctx.race([(own) => own.signal(paid), (own) => own.sleep('1h')])
    expectTypeOf(first).toEqualTypeOf<{ readonly amount: number } | void>()
    const named = await ctx.race({ paid: (own) => own.signal(paid), late: (own) => own.sleep('1h') })
    if (named.winner === 'paid') expectTypeOf(named.value).toEqualTypeOf<{ readonly amount: number }>()
    const [n, text] = await ctx.parallel([(own) => own.step('n', () => 1), (own) => own.step('text', async () => 'a')])
    expectTypeOf(n).toEqualTypeOf<number>()
    expectTypeOf(text).toEqualTypeOf<string>()
    const both = await ctx.parallel({ n: (own) => own.step('n', () => 1), text: () => 'b' })
    expectTypeOf(both).toEqualTypeOf<{ n: number; text: string }>()
    const many = await ctx.parallel([1, 2].map((each) => (own: WorkflowContext) => own.step(`${each}`, () => each)))
    expectTypeOf(many).toEqualTypeOf<number[]>()
    return [first, named.winner, n, text, both, many]
  })
  const run = await kit.run(racing, { id: '1' })
  expect(await kit.result(run)).toEqual([undefined, 'late', 1, 'a', { n: 1, text: 'b' }, [1, 2]])
})

/** Never called: it only has to compile, except for the marked lines. */
async function unchecked(ctx: WorkflowContext, run: WorkflowRun<number>): Promise<ScheduleDefinition[]> {
  expectTypeOf(await ctx.signal(paid, { timeout: '1h', otherwise: null })).toEqualTypeOf<{
    readonly amount: number
  } | null>()
  // @ts-expect-error the signal carries an amount
  await run.signal(paid, { sum: 1 })
  // @ts-expect-error it carries something
  await run.signal(paid)
  // @ts-expect-error it carries nothing
  await run.signal(stop, { amount: 1 })
  await run.signal(stop, undefined, { key: 'once' })
  // @ts-expect-error the handler takes the currency
  ctx.onQuery(total, (currency: number) => currency)
  ctx.onQuery(total, () => 7)
  // @ts-expect-error the query returns a number
  ctx.onQuery(total, () => 'none')
  // @ts-expect-error the query takes a currency
  await run.query(total)
  expectTypeOf(await run.query(total, 'EUR')).toEqualTypeOf<number>()
  // @ts-expect-error the update takes a number
  await run.update(add, 'one')
  // @ts-expect-error the update returns text
  ctx.onUpdate(add, (n) => n)
  expectTypeOf(await run.update(add, 1, { timeout: '1s' })).toEqualTypeOf<string>()
  // @ts-expect-error a query is not a signal
  await ctx.signal(total)
  // @ts-expect-error the workflow takes text
  const wrong = schedule('wrong', { workflow: order, every: '1h', input: 7 })
  // @ts-expect-error the workflow needs its input
  const missing = schedule('missing', { workflow: order, every: '1h' })
  const right = schedule('right', { workflow: order, every: '1h', input: (at) => at.toISOString() })
  const none = schedule('none', { workflow: workflow('plain', async () => 1), every: '1h' })
  return [wrong, missing, right, none]
}

const plain = workflow('plain-child', async () => 1)

it('a child without input is started without one, and the runs of a definition know its result', async () => {
  const parent = workflow('plain-parent', async (ctx) => {
    const id = await ctx.start(plain)
    return { id, result: await ctx.child(plain) }
  })
  const kit = kitWith()
  const run = await kit.run(parent, { id: '1' })
  await kit.settle()
  expect(await kit.until(run.result())).toMatchObject({ result: 1 })
  const typed = (rp: Parameters<typeof workflows>[0]) => workflows(rp).of(order).get('1').result()
  expectTypeOf(typed).returns.resolves.toEqualTypeOf<number>()
  const given = (ctx: WorkflowContext) => {
    // @ts-expect-error this workflow needs its input
    void ctx.child(order)
    return ctx.child(order, 'ann')
  }
  expectTypeOf(given).returns.resolves.toEqualTypeOf<number>()
})

it('lines that must not compile are looked at by the compiler', () => {
  expect(typeof unchecked).toBe('function')
})
