// The order of facts, kind by kind (docs/decisions/order-of-facts.md): the run is loaded long after its deadline, and the store
// is slow to read its mail. Facts that were durable before the deadline count; later ones do not.

import { expect, it } from 'vitest'
import { checkDefinitions, queue, type WorkflowContext, workflow } from '../../src/layers/workflow/index.ts'
import type { WorkflowKit } from '../../src/testing/index.ts'
import { kitWith } from './kits.ts'

/** No process takes a run for 18 seconds once `away` is called; reading mail takes one. */
function slowKit(): { kit: WorkflowKit; away: () => void } {
  let isAway = false
  const slowness = (method: string, when: 'before' | 'after') =>
    method === 'claim' && when === 'before' && isAway ? '18s' : method === 'inbox' && when === 'after' ? '1s' : 0
  return {
    kit: kitWith({ slowness }),
    away: () => {
      isAway = true
    },
  }
}

/** A run of this code has six seconds; at half of them something is sent, and it is loaded long after. */
async function sleptThrough<T>(
  code: (ctx: WorkflowContext) => Promise<T>,
  send: (run: { timeline: string }, kit: WorkflowKit) => Promise<unknown>,
  atMs = 3000,
): Promise<T | string> {
  const { kit, away } = slowKit()
  const definition = workflow('sleeper', code)
  const run = await kit.run(definition, { id: 'r' })
  await kit.advance(500)
  away()
  await kit.advance(atMs - 500)
  await send(run, kit)
  return await kit.result(run).catch((error: Error & { code?: string }) => `${error.code}`)
}

const signal =
  (name: string, value: unknown = name, id = name) =>
  (run: { timeline: string }, kit: WorkflowKit) =>
    kit.survive((rp) => rp.send(run.timeline, 'signal', { name, value }, { key: id }))

const sixSeconds = { timeout: '6s', otherwise: 'timeout' } as const

it('a signal before its own timeout', async () => {
  expect(await sleptThrough((ctx) => ctx.signal('paid', sixSeconds), signal('paid'))).toBe('paid')
})

it('a signal after its own timeout loses, although both are read together', async () => {
  expect(await sleptThrough((ctx) => ctx.signal('paid', sixSeconds), signal('paid'), 6001)).toBe('timeout')
})

it('a signal in the same millisecond as its timeout loses', async () => {
  expect(await sleptThrough((ctx) => ctx.signal('paid', sixSeconds), signal('paid'), 6000)).toBe('timeout')
})

it('a signal that races with a sleep', async () => {
  const code = (ctx: WorkflowContext) =>
    ctx.race<unknown>([(own) => own.signal('paid'), (own) => own.sleep('6s').then(() => 'slept')])
  expect(await sleptThrough(code, signal('paid'))).toBe('paid')
  expect(await sleptThrough(code, signal('paid'), 6001)).toBe('slept')
})

it('the one signal that counts, behind 250 others', async () => {
  const many = async (run: { timeline: string }, kit: WorkflowKit) => {
    const noise = Array.from({ length: 250 }, (_, i) => i)
    const send = (n: number) => kit.rp.send(run.timeline, 'signal', { name: 'noise', value: n }, { key: `noise-${n}` })
    await kit.survive(() => Promise.all(noise.map(send)))
    await signal('paid')(run, kit)
  }
  expect(await sleptThrough((ctx) => ctx.signal('paid', sixSeconds), many)).toBe('paid')
})

it('signals before and after a deadline, read together, keep their sides of it', async () => {
  const code = async (ctx: WorkflowContext) => {
    const first = await ctx.signal('a', sixSeconds)
    return [first, await ctx.signal('b', sixSeconds), await ctx.signal('b', sixSeconds)]
  }
  const both = async (run: { timeline: string }, kit: WorkflowKit) => {
    await signal('b', 'early', 'b1')(run, kit)
    await kit.advance('4s')
    await signal('a', 'too late', 'a1')(run, kit)
  }
  expect(await sleptThrough(code, both)).toEqual(['timeout', 'early', 'timeout'])
})

it('an update before the end of a sleep', async () => {
  const code = async (ctx: WorkflowContext) => {
    const seen: unknown[] = []
    ctx.onUpdate('pay', (args) => void seen.push(args))
    await ctx.sleep('6s')
    return [...seen]
  }
  const send = (run: { timeline: string }, kit: WorkflowKit) =>
    kit.survive((rp) => rp.send(run.timeline, 'update', { name: 'pay', args: 7 }, { key: 'u' }))
  expect(await sleptThrough(code, send)).toEqual([7])
  expect(await sleptThrough(code, send, 6001)).toEqual([])
})

it('a cancel before the end of a sleep: the step after the sleep is never called', async () => {
  let calls = 0
  const code = async (ctx: WorkflowContext) => {
    await ctx.sleep('6s')
    return await ctx.step('charge', () => ++calls)
  }
  const cancel = (run: { timeline: string }, kit: WorkflowKit) =>
    kit.survive((rp) => rp.send(run.timeline, 'cancel', { reason: 'no' }, { key: 'c' }))
  expect(await sleptThrough(code, cancel)).toBe('CANCELLED')
  expect(calls).toBe(0)
})

it('a cancel before the next attempt of a step: there is none', async () => {
  let calls = 0
  const code = (ctx: WorkflowContext) =>
    ctx.step(
      'charge',
      () => {
        calls += 1
        throw new Error('busy')
      },
      { retry: { attempts: 5, backoff: '6s', jitter: 0 } },
    )
  const cancel = (run: { timeline: string }, kit: WorkflowKit) =>
    kit.survive((rp) => rp.send(run.timeline, 'cancel', { reason: 'no' }, { key: 'c' }))
  expect(await sleptThrough(code, cancel)).toBe('CANCELLED')
  expect(calls).toBe(1)
})

it('a child that ended before the sleep it races with', async () => {
  const { kit, away } = slowKit()
  const child = workflow('child', async (ctx) => {
    await ctx.sleep('3s')
    away()
    return 'child'
  })
  const parent = workflow('parent', (ctx) =>
    ctx.race<string>([(own) => own.child(child, undefined), (own) => own.sleep('6s').then(() => 'slept')]),
  )
  kit.work(child)
  expect(await kit.result(await kit.run(parent, { id: 'r' }))).toBe('child')
})

it('a signal before the deadline of the run, and the deadline before the signal', async () => {
  for (const [atMs, outcome] of [
    [3000, 'paid'],
    [6001, 'TIMEOUT'],
  ] as const) {
    const { kit, away } = slowKit()
    const definition = workflow('limited', (ctx) => ctx.signal('paid'), { timeout: '6s' })
    const run = await kit.run(definition, { id: 'r' })
    await kit.advance(500)
    away()
    await kit.advance(atMs - 500)
    await signal('paid')(run, kit)
    expect(await kit.result(run).catch((error) => error.code)).toBe(outcome)
  }
})

it('a run that its queue let in before its deadline, and that is taken up after it, calls nothing', async () => {
  const { kit, away } = slowKit()
  const line = queue('line', { concurrency: 1 })
  let calls = 0
  const first = workflow('first', (ctx) => ctx.sleep('3s'), { queue: line })
  const second = workflow('second', (ctx) => ctx.step('charge', () => ++calls), { queue: line, timeout: '6s' })
  for (const definition of [first, second]) kit.work(definition)
  await kit.run(first, { id: '1' })
  const run = await kit.run(second, { id: '2' })
  await kit.advance(2900)
  away()
  expect(await kit.result(run).catch((error) => error.code)).toBe('TIMEOUT')
  expect(calls).toBe(0)
})

it('a deadline waits behind a signal that waits for a rollback', async () => {
  const { kit } = slowKit()
  const seen: string[] = []
  let finish = () => {}
  const definition = workflow('rolled', async (ctx) => {
    await ctx.step('first', () => {})
    const [paid] = await Promise.all([
      ctx.signal<string>('paid', sixSeconds),
      ctx.step('slow', () => new Promise<void>((resolve) => (finish = resolve)), { timeout: '90s' }),
    ])
    seen.push(paid)
    return paid
  })
  const run = await kit.run(definition, { id: 'r' })
  await kit.advance('1s')
  await kit.survive((rp) => rp.send(run.timeline, 'rollback', { to: 'first' }, { key: 'back' }))
  await signal('paid')(run, kit)
  await kit.advance('18s')
  finish()
  await kit.advance('1s')
  finish()
  expect(await kit.result(run)).toBe('paid')
  expect(seen).toEqual(['paid'])
})

it('a cancel before the end: the run is undone, although its code has returned', async () => {
  const kit = kitWith()
  let finish = () => {}
  const undone: string[] = []
  const definition = workflow('last', async (ctx) => {
    const last = () => new Promise<void>((resolve) => (finish = resolve))
    await ctx.step('last', last, { compensate: () => void undone.push('last') })
    return 'done'
  })
  const run = await kit.run(definition, { id: 'r' })
  await kit.advance(10)
  await kit.rp.send(run.timeline, 'cancel', { reason: 'no' }, { key: 'c' })
  finish()
  expect(await kit.result(run).catch((error) => error.code)).toBe('CANCELLED')
  expect(undone).toEqual(['last'])
  const check = await checkDefinitions(kit.rp, [definition], { ended: true })
  expect(check.ok).toBe(true)
})

it('a cancel before the run starts over: it does not', async () => {
  const kit = kitWith()
  let finish = () => {}
  let turns = 0
  const definition = workflow('turning', async (ctx): Promise<void> => {
    turns += 1
    await ctx.step('last', () => new Promise<void>((resolve) => (finish = resolve)))
    ctx.continueAsNew(undefined)
  })
  const run = await kit.run(definition, { id: 'r' })
  await kit.advance(10)
  await kit.rp.send(run.timeline, 'cancel', { reason: 'no' }, { key: 'c' })
  finish()
  expect(await kit.result(run).catch((error) => error.code)).toBe('CANCELLED')
  expect(turns).toBe(1)
})

it('a rollback before the end: the run goes back', async () => {
  const kit = kitWith()
  const finish: (() => void)[] = []
  const definition = workflow('back', async (ctx) => {
    await ctx.step('only', () => new Promise<void>((resolve) => void finish.push(resolve)))
    return ctx.now()
  })
  const run = await kit.run(definition, { id: 'r' })
  await kit.advance(10)
  await kit.rp.send(run.timeline, 'rollback', { to: 'only' }, { key: 'b' })
  finish[0]!()
  await kit.advance('1s')
  finish[1]!()
  await kit.result(run)
  expect(finish.length).toBe(2)
})
