// Forks with edits: a fork continues with other values than the recorded ones. The edit is in the commit that creates the fork,
// so no reader sees the fork without it; its history records it; and the original is not affected.

import { expect, it } from 'vitest'
import { RepriseError } from '../../src/core/errors.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { entriesOf, lineageOf, readHistory } from '../../src/engine/history/history.ts'
import { editOf } from '../../src/engine/model/fork-edit.ts'
import { agent } from '../../src/layers/agent/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { stateStore, table } from '../../src/layers/table/index.ts'
import { workflow, workflows } from '../../src/layers/workflow/index.ts'
import { describeTimeline } from '../../src/operations/describe.ts'
import { forkAt } from '../../src/operations/fork.ts'
import { added, counter } from '../support/definitions.ts'
import { until } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const refused = (code: string, words: RegExp) =>
  expect.objectContaining({ code, message: expect.stringMatching(words) as string })

/** The fork's own entries, above its parent. */
async function own(rp: Reprise, timeline: string) {
  const { kernel } = hostOf(rp)
  const head = (await rp.head(timeline))!
  const found: { seq: number; type: string; data: unknown }[] = []
  for await (const piece of readHistory(kernel, await lineageOf(kernel, head), head.base!, head.seq))
    for (const { seq, type, data } of entriesOf(kernel, piece)) found.push({ seq, type, data })
  return found
}

const price = (calls: string[]) =>
  workflow('price', async (ctx, amount: number) => {
    const base = await ctx.step('base', ({ key }) => {
      calls.push(key)
      return amount
    })
    const rate = await ctx.step<number>(
      'rate',
      ({ key }) => {
        calls.push(key)
        if (amount < 0) throw new RepriseError('INVALID_ARGUMENT', 'no rate', {})
        return 2
      },
      { retry: { attempts: 1 } },
    )
    return await ctx.step('sum', ({ key }) => {
      calls.push(key)
      return base * rate
    })
  })

onEveryStore('forks with edits', (world) => {
  it('A9.1: a run continues from a step with an edited result; its parent and the earlier entries stay unchanged', async () => {
    const rp = await (await world()).engine()
    const calls: string[] = []
    const definition = price(calls)
    expect(await rp.run(definition, 5, { id: 'a' }).result()).toBe(10)
    const before = (await rp.head('workflow/price/a'))!
    const where = { timeline: 'workflow/price/a', seq: before.seq }
    const made = await rp.fork(where, 'b', { set: { rate: 7 }, by: 'ann' })
    // started, base; the outcome of rate is the third entry.
    expect(made).toMatchObject({ timeline: 'workflow/price/b', parent: 'workflow/price/a', seq: 2, epoch: 1 })
    expect(await workflows(rp).of(definition).get('b').result()).toBe(35)
    expect(calls.map((key) => key.split('-')[0])).toEqual(['base', 'rate', 'sum', 'sum'])
    expect(new Set(calls).size).toBe(4)
    const after = (await rp.head('workflow/price/a'))!
    expect([after.seq, after.epoch, after.digest]).toEqual([before.seq, before.epoch, before.digest])
    expect((await own(rp, 'workflow/price/b')).slice(0, 2)).toMatchObject([
      { seq: 3, type: 'forked', data: { from: 'workflow/price/a', by: 'ann' } },
      { seq: 4, type: 'done', data: { id: 'rate', result: 7, by: 'ann', replaces: 3 } },
    ])
    const { shown } = await describeTimeline(rp, (await rp.head('workflow/price/b'))!)
    expect(shown).toMatchObject({ edited: { names: ['rate'], by: 'ann' }, edits: { names: 'step', input: true } })
    const report = await rp.verify()
    expect(report).toMatchObject({ ok: true, edited: [{ timeline: 'workflow/price/b', what: 'rate, by ann' }] })
    // A fork of the fork shares the edit, and has none of its own.
    await rp.fork({ timeline: 'workflow/price/b', seq: 4 }, 'c')
    expect(await workflows(rp).of(definition).get('c').result()).toBe(35)
    const third = await describeTimeline(rp, (await rp.head('workflow/price/c'))!)
    expect(third.shown.edited).toBeNull()
  })

  it('a step that failed for good gets a result, a child gets one, and a run another input', async () => {
    const rp = await (await world()).engine()
    const calls: string[] = []
    const definition = price(calls)
    await expect(rp.run(definition, -5, { id: 'a' }).result()).rejects.toThrow('no rate')
    const run = workflows(rp).of<number>(definition).get('a')
    const fork = await run.fork('rate', { id: 'b', result: 3 })
    expect(await fork.result()).toBe(-15)
    const head = (await rp.head('workflow/price/a'))!
    const made = calls.splice(0)
    await forkAt(rp, head, undefined, 'c', { input: 4 })
    expect(await workflows(rp).of(definition).get('c').result()).toBe(8)
    expect(calls.map((key) => key.split('-')[0])).toEqual(['base', 'rate', 'sum'])
    expect(calls.filter((key) => made.includes(key))).toEqual([])
    const parent = workflow('parent', async (ctx) => ((await ctx.child(definition, 1)) as number) + 1)
    expect(await rp.run(parent, { id: 'p' }).result()).toBe(3)
    const child = (await rp.head('workflow/parent/p'))!
    await rp.fork({ timeline: child.timeline, seq: child.seq }, 'q', { set: { '~child:price': 100 } })
    expect(await workflows(rp).of(parent).get('q').result()).toBe(101)
  })

  it('requested twice under one key it is done once, also at the same time; another edit under it is refused', async () => {
    const w = await world()
    const [rp, other] = [await w.engine(), await w.engine({ worker: 'other' })]
    const definition = price([])
    expect(await rp.run(definition, 5, { id: 'a' }).result()).toBe(10)
    const where = { timeline: 'workflow/price/a', seq: 4 }
    workflows(other)
    const ask = (engine: Reprise, rate: number) => engine.fork(where, 'b', { set: { rate }, key: 'once' })
    const made = await Promise.all([ask(rp, 7), ask(other, 7)])
    expect(await workflows(rp).of(definition).get('b').result()).toBe(35)
    for (const engine of [rp, other]) expect([await ask(engine, 7), made[1]]).toEqual([made[0], made[0]])
    expect((await own(rp, 'workflow/price/b')).filter(({ type }) => type === 'forked')).toHaveLength(1)
    await expect(ask(rp, 8)).rejects.toEqual(refused('EXISTS', /already/))
  })

  it('what cannot be edited is refused with what to do, and leaves no fork behind', async () => {
    const rp = await (await world()).engine()
    const stuck = workflow('stuck', async (ctx) => {
      await ctx.sleep(1)
      await ctx.step('first', () => 1)
      await ctx.step(
        'hangs',
        () => {
          throw new Error('down')
        },
        { retry: { attempts: 9, backoff: '1h' } },
      )
    })
    await rp.run(stuck, { id: 'a' })
    const timeline = 'workflow/stuck/a'
    let seq = 0
    await until(async () => (await own0(rp, timeline)).includes('retry'))
    seq = (await rp.head(timeline))!.seq
    const handle = await rp.open(counter, 'x')
    await handle.append([added(1)])
    const asks: [Parameters<Reprise['fork']>[2], string, RegExp, string?][] = [
      [{ set: { fist: 1 } }, 'NOT_FOUND', /no step fist .* it has ~sleep, first/],
      [{ set: { hangs: 1 } }, 'CONFLICT', /hangs has no outcome yet.*wait for it/],
      [{ set: { '~sleep': 1 } }, 'INVALID_ARGUMENT', /no result that could be edited/],
      [{ set: { first: 1, hangs: 2 } }, 'INVALID_ARGUMENT', /edits one step/],
      [{ unset: ['first'] }, 'INVALID_ARGUMENT', /fork before it/],
      [{ set: { first: 1 }, unset: ['first'] }, 'INVALID_ARGUMENT', /both set and unset/],
      [{ set: [1] as never }, 'INVALID_ARGUMENT', /set must be an object/],
      [{ sets: {} } as never, 'INVALID_ARGUMENT', /unknown option sets/],
      [{ set: { total: 1 } }, 'INVALID_ARGUMENT', /accept no edits; fork it, then act on the fork/, 'counter/x'],
    ]
    for (const [options, code, words, id = timeline] of asks) {
      const at = id === timeline ? seq : 1
      await expect(rp.fork({ timeline: id, seq: at }, 'fork', options)).rejects.toEqual(refused(code, words))
    }
    // At a place before the step, the step is not known yet.
    await expect(rp.fork({ timeline, seq: 1 }, 'fork', { set: { first: 1 } })).rejects.toEqual(
      refused('NOT_FOUND', /it has none/),
    )
    expect(await rp.head('workflow/stuck/fork')).toBeNull()
    expect(await rp.head('counter/fork')).toBeNull()
  })

  it('a table continues with other rows, within its own rules', async () => {
    const rp = await (await world()).engine()
    const stock = table<{ n: number }>('stock', {
      valid: (rows) => [...rows.values()].every(({ n }) => n >= 0) || 'negative',
    })
    const t = await rp.open(stock)
    for (const key of ['a', 'b', 'c']) await t.set(key, { n: 1 })
    const where = { timeline: 'table/stock', seq: 3 }
    await rp.fork(where, 'table/stock/trial', { set: { a: { n: 9 }, d: { n: 4 } }, unset: ['b'], by: 'ann' })
    const trial = await rp.open(stock, 'trial')
    expect([...trial.entries()]).toEqual([
      ['a', { n: 9 }],
      ['c', { n: 1 }],
      ['d', { n: 4 }],
    ])
    expect([...t.keys()]).toEqual(['a', 'b', 'c'])
    expect(await own(rp, 'table/stock/trial')).toMatchObject([{ seq: 4, type: 'w', data: { by: 'ann', d: ['b'] } }])
    const ask = (options: Parameters<Reprise['fork']>[2]) => rp.fork(where, 'table/stock/no', options)
    await expect(ask({ set: { a: { n: -1 } } })).rejects.toEqual(
      refused('INVALID_STATE', /nothing was forked.*negative/),
    )
    await expect(ask({ unset: ['z'] })).rejects.toEqual(refused('NOT_FOUND', /no row z/))
    await expect(ask({ input: 1 })).rejects.toEqual(refused('INVALID_ARGUMENT', /has no input/))
    expect(await rp.head('table/stock/no')).toBeNull()
    const parts = stateStore<number>('parts', { partitions: 2 })
    const s = await rp.open(parts)
    await s.set('k', 1)
    const [partition] = (await rp.list({ prefix: 'table/parts/' })).filter(({ seq }) => seq > 0)
    const at = { timeline: partition!.timeline as string, seq: partition!.seq }
    await expect(rp.fork(at, 'table/parts/x', { set: { k: 2 } })).rejects.toEqual(
      refused('INVALID_ARGUMENT', /accept no edits/),
    )
    await t.close()
    await trial.close()
  })

  it('a session continues with other data and another plan, a series of saves with another value', async () => {
    const w = await world()
    const rp = await w.engine()
    const desk = agent('desk', {
      initial: () => ({ order: '', tries: new Map([['a', 1]]) }),
      version: 2,
      valid: ({ order }) => order !== 'bad',
    })
    const session = await rp.open(desk, 'one')
    await session.edit((data) => ({ ...data, order: 'first' }))
    await session.setPlan(['ask', 'pay'])
    const where = { timeline: 'agent/desk/one', seq: 2 }
    await rp.fork(where, 'agent/desk/two', { set: { 'data.order': 'second', 'plan.1': 'wait' }, by: 'bob' })
    const two = await rp.open(desk, 'two')
    // Values that are not plain JSON keep their type.
    expect([two.data, two.state.plan]).toEqual([{ order: 'second', tries: new Map([['a', 1]]) }, ['ask', 'wait']])
    expect([session.data.order, session.state.plan]).toEqual(['first', ['ask', 'pay']])
    const no = (options: Parameters<Reprise['fork']>[2]) => rp.fork(where, 'agent/desk/no', options)
    await expect(no({ set: { messages: [] } })).rejects.toEqual(
      refused('INVALID_ARGUMENT', /use data, data.FIELD or plan/),
    )
    await expect(no({ set: { 'data.tries.a': 2 } })).rejects.toEqual(
      refused('INVALID_ARGUMENT', /neither an object nor a list/),
    )
    await expect(no({ set: { 'data.order': 'bad' } })).rejects.toEqual(refused('INVALID_STATE', /not valid/))

    const weights = save<{ step: number; at: Date }>('weights', { keep: 2, valid: ({ step }) => step >= 0 })
    const s = await rp.open(weights)
    await s.put({ step: 1, at: new Date(5) })
    await s.put({ step: 2, at: new Date(6) })
    await rp.fork({ timeline: 'save/weights', seq: 1 }, 'save/weights/trial', { set: { 'value.step': 40 }, by: 'ann' })
    expect((await weights.read(rp, 'trial').latest()).value).toEqual({ step: 40, at: new Date(5) })
    expect((await s.latest()).value).toEqual({ step: 2, at: new Date(6) })
    expect(await own(rp, 'save/weights/trial')).toMatchObject([
      { seq: 2, type: 'saved', data: { by: 'ann', replaces: 1 } },
    ])
    const trial = await rp.open(weights, 'trial')
    await trial.put({ step: 41, at: new Date(7) })
    await rp.collect({ graceMs: -1000 })
    expect((await trial.latest()).value.step).toBe(41)
    const ask = (options: Parameters<Reprise['fork']>[2]) =>
      rp.fork({ timeline: 'save/weights', seq: 2 }, 'save/weights/trial', options)
    await expect(ask({ set: { step: 1 } })).rejects.toEqual(refused('INVALID_ARGUMENT', /value.FIELD/))
    await expect(ask({ set: { 'value.step': -1 } })).rejects.toEqual(refused('INVALID_STATE', /not valid/))
    await expect(ask({ set: { 'value.step': 1 } })).rejects.toEqual(refused('EXISTS', /already/))
    expect(await rp.verify()).toMatchObject({ ok: true, faults: [] })
    // Another process without the definition cannot interpret the data.
    const bare = await w.engine({ worker: 'bare' })
    const { agentKind } = await import('../../src/layers/agent/model.ts')
    bare.declare(agentKind)
    await expect(bare.fork(where, 'agent/desk/no', { set: { plan: 1 } })).rejects.toEqual(
      refused('INVALID_ARGUMENT', /name the module/),
    )
  })
})

async function own0(rp: Reprise, timeline: string): Promise<string[]> {
  const { kernel } = hostOf(rp)
  const head = await rp.head(timeline)
  const found: string[] = []
  if (!head) return found
  const start = { seq: 0, digest: head.floorDigest }
  for await (const piece of readHistory(kernel, await lineageOf(kernel, head), start, head.seq))
    for (const { type } of entriesOf(kernel, piece)) found.push(type)
  return found
}

it.each([5, '', null])('who edits must have a name, and %j is none', (by) => {
  expect(() => editOf({ set: { step: 1 }, by: by as never })).toThrow(
    expect.objectContaining({ code: 'INVALID_ARGUMENT' }),
  )
})
