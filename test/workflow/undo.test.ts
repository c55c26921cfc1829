// The unsaid half of sagas: a step that failed here and happened outside, a child that had completed, the loser of a race.

import { expect, it } from 'vitest'
import { checkDefinitions, type WorkflowContext, workflow } from '../../src/layers/workflow/index.ts'
import { crashEverywhere, type WorkflowKit } from '../../src/testing/index.ts'
import { kitWith } from './kits.ts'

/** A bank that records charges by key, whether or not the caller gets the answer. */
class Bank {
  readonly charges = new Map<string, number>()

  charge(key: string, amount: number): number {
    this.charges.set(key, amount)
    return amount
  }

  void(key: string): void {
    this.charges.delete(key)
  }
}

const failing = (kit: WorkflowKit, run: Parameters<WorkflowKit['result']>[0]) =>
  kit.result(run).then(
    () => 'none',
    (error: Error & { code?: string }) => error.code ?? error.message,
  )

it('a step that timed out here and happened outside is undone, by the key of its calls', async () => {
  const kit = kitWith()
  const bank = new Bank()
  const pay = (undo: boolean) =>
    workflow(undo ? 'safe' : 'unsafe', (ctx) =>
      ctx.step(
        'charge',
        async ({ key }) => {
          bank.charge(key, 100)
          await new Promise(() => {})
        },
        { timeout: '5s', ...(undo && { undo: ({ stepKey }) => bank.void(stepKey) }) },
      ),
    )
  expect(await failing(kit, await kit.run(pay(false), { id: '1' }))).toBe('TIMEOUT')
  expect(bank.charges.size).toBe(1)
  bank.charges.clear()
  expect(await failing(kit, await kit.run(pay(true), { id: '1' }))).toBe('TIMEOUT')
  expect(bank.charges.size).toBe(0)
})

it('an undo is given the result if there is one, and takes its place in the reverse order', async () => {
  const kit = kitWith()
  const log: unknown[] = []
  const definition = workflow('ordered', async (ctx) => {
    await ctx.step('a', () => 'A', { undo: (_, result) => log.push(['a', result]) })
    await ctx.step('b', () => 'B', { compensate: (result) => log.push(['b', result]) })
    await ctx.step('c', () => Promise.reject(new Error('no')), { undo: (_, result) => log.push(['c', result]) })
  })
  expect(await failing(kit, await kit.run(definition, { id: '1' }))).toBe('no')
  expect(log).toEqual([
    ['c', undefined],
    ['b', 'B'],
    ['a', 'A'],
  ])
})

it('a completed child is undone with its parent, in its place, if the parent declares so', async () => {
  const { undisturbed, crashes } = await crashEverywhere(
    async (kit) => {
      const bank = new Bank()
      const log: string[] = []
      const book = (ctx: WorkflowContext, name: string) =>
        ctx.step(name, ({ key }) => kit.effect(() => bank.charge(key.replace(/.*:/, ''), 1)), {
          undo: ({ stepKey }) =>
            kit.effect(() => {
              bank.void(stepKey.replace(/.*:/, ''))
              if (log.at(-1) !== name) log.push(name)
            }),
        })
      const child = workflow('child', async (ctx) => {
        await book(ctx, 'inner 1')
        await book(ctx, 'inner 2')
      })
      const parent = workflow('parent', async (ctx) => {
        await book(ctx, 'before')
        await ctx.child(child, { id: 'c', whenUndone: 'undo' })
        await book(ctx, 'after')
        throw new Error('no')
      })
      kit.work(child)
      const run = await kit.run(parent, { id: 'p' })
      const error = await failing(kit, run)
      const status = await kit.survive((rp) => rp.head('workflow/child/c'))
      const check = await kit.survive((rp) => checkDefinitions(rp, [parent, child], { ended: true }))
      return { error, left: bank.charges.size, log, child: status?.status, ok: check.ok }
    },
    { every: 2 },
  )
  expect(undisturbed).toEqual({
    error: 'no',
    left: 0,
    log: ['after', 'inner 2', 'inner 1', 'before'],
    child: 'cancelled',
    ok: true,
  })
  for (const { at, outcome } of crashes) expect({ at, ...outcome }).toEqual({ at, ...undisturbed })
})

it('effects of a child stay by default, and a completed run can be undone on request', async () => {
  const kit = kitWith()
  const log: string[] = []
  const child = workflow('child', (ctx) => ctx.step('inner', () => 1, { compensate: () => void log.push('inner') }))
  const parent = workflow('parent', async (ctx) => {
    await ctx.child(child, { id: 'c' })
    throw new Error('no')
  })
  kit.work(child)
  expect(await failing(kit, await kit.run(parent, { id: 'p' }))).toBe('no')
  expect(log).toEqual([])
  const run = await kit.run(child, { id: 'c' })
  await kit.until(run.undo({ reason: 'by hand' }))
  expect(log).toEqual(['inner'])
  expect((await run.status()).status).toBe('cancelled')
})

it('the losers of a race are undone before it is over, if it declares so, also calls in flight', async () => {
  const kit = kitWith()
  const log: string[] = []
  const definition = workflow('racing', async (ctx) => {
    const book = (own: WorkflowContext, name: string, ms: number) =>
      own.step(name, () => new Promise((resolve) => kit.clock.view(() => true).after(ms, () => resolve(name))), {
        compensate: (result) => void log.push(`undo ${result}`),
      })
    const won = await ctx.race(
      [
        async (own) => {
          await book(own, 'slow 1', 10)
          await book(own, 'slow 2', 5000)
          return 'slow'
        },
        (own) => book(own, 'quick', 100).then(() => 'quick'),
      ],
      { losers: 'undo' },
    )
    await ctx.step('after', () => void log.push('after'))
    return won
  })
  const run = await kit.run(definition, { id: '1' })
  expect(await kit.result(run)).toBe('quick')
  expect(log).toEqual(['undo slow 2', 'undo slow 1', 'after'])
  const check = await checkDefinitions(kit.rp, [definition], { ended: true })
  expect(check.diverging).toEqual([])
})
