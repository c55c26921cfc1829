// A handle that is still being opened: awaited, or called at once. Lines that must not compile are marked; `npm run types`
// checks them.

import { expect, expectTypeOf, it } from 'vitest'
import type { Entity } from '../../src/engine/model/definition.ts'
import { open, type Pending, timeline } from '../../src/index.ts'
import { agent } from '../../src/layers/agent/index.ts'
import { aggregate, projection } from '../../src/layers/events/index.ts'
import { consumer, type JobRun, type JobSourceContext, job, lines, pages } from '../../src/layers/job/index.ts'
import { migrations } from '../../src/layers/migrate/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { stateStore, table } from '../../src/layers/table/index.ts'
import { type WorkflowContext, workflow } from '../../src/layers/workflow/index.ts'

const greet = workflow<string, string>('greet', async (_ctx, name) => `hello ${name}`)
const plain = workflow('plain', async () => 7)
const usual = workflow<number | undefined, number>('usual', async (_ctx, count = 5) => count)
const list = job('list', { source: ['a', 'b'], each: async () => {} })
const visits = table<{ n: number }>('visits')
const notes = timeline('notes', { initial: () => 0, apply: (n: number) => n + 1 })
const people = aggregate('people', {
  initial: () => 0,
  evolve: { came: (n: number) => n + 1 },
  decide: { come: () => ({ type: 'came' as const }) },
})
const guide = agent('guide')
const saves = save<number>('saves')
const counts = stateStore<number>('counts', { partitions: 2 })
const totals = projection('totals', { from: [people], initial: () => 0, on: { came: (n: number) => n + 1 } })
const read = job('read', { source: lines('words.txt'), each: async () => {} })
const asked = job('asked', {
  async *source(_cursor: string | undefined, { input }) {
    yield String(input)
  },
  each: async () => {},
})
const paged = job('paged', {
  source: pages(async () => ({ items: [{ id: 1 }] as readonly { readonly id: number }[] })),
  key: (item) => item.id,
  each: async () => {},
})
const schema = migrations('schema', { steps: [] })
const reader = consumer('reader', { from: [people], each: async () => {} })

it('the result of a run is requested before it exists', async () => {
  const rp = await open('memory:')
  expect(await rp.run(greet, 'ann').result()).toBe('hello ann')
  expect(await rp.run(plain).result()).toBe(7)
  expect((await rp.run(list).result()).done).toBe(2)
  const run = await rp.run(greet, 'bob')
  expect(await run.result()).toBe('hello bob')
  await rp.close()
})

it('an entity is called at once, and a failure is thrown there', async () => {
  const rp = await open('memory:')
  const coming = rp.open(visits)
  await coming.set('ann', { n: 1 })
  const handle = await coming
  expect(await handle.get('ann')).toEqual({ n: 1 })
  await rp.open(notes, 'a').append({ type: 'noted' })
  await expect(rp.open(notes, 'b', { mustExist: true }).close()).rejects.toMatchObject({ code: 'NOT_FOUND' })
  await expect(rp.open(notes, 'b', { mustExist: true })).rejects.toMatchObject({ code: 'NOT_FOUND' })
  await rp.close()
  await expect(rp.run(plain).result()).rejects.toMatchObject({ code: 'CLOSED' })
  expect(await rp.open(visits).catch(() => 'caught')).toBe('caught')
})

it('knows the types of both', async () => {
  const rp = await open('memory:')
  const coming = rp.run(list)
  expectTypeOf(coming).toEqualTypeOf<Pending<JobRun<string>>>()
  expectTypeOf(await coming).toEqualTypeOf<JobRun<string>>()
  expectTypeOf(await rp.run(greet, 'ann').result()).toEqualTypeOf<string>()
  const wrong = () => {
    // @ts-expect-error greet needs its input
    void rp.run(greet)
    // @ts-expect-error of that type
    void rp.run(greet, 7)
    // @ts-expect-error a property without a promise is not available before the handle is open
    void rp.run(greet, 'ann').id
  }
  expect(wrong).toBeTypeOf('function')
  await rp.close()
})

it('requires an id for definitions with one per entity, and none otherwise', async () => {
  const rp = await open('memory:')
  const right = () => {
    void rp.open(notes, 'a')
    void rp.open(notes, 'a', { takeover: true })
    void rp.open(people, 'a')
    void rp.open(guide, 'a')
    void rp.open(visits)
    void rp.open(visits, 'a')
    void rp.open(visits, undefined, { takeover: true })
    void rp.open(saves)
    void rp.open(saves, 'a')
    void rp.open(counts)
    void rp.open(counts, undefined, { takeover: true })
    void rp.open(totals)
    const any: Entity<unknown> = notes
    void rp.open(any)
  }
  const wrong = () => {
    // @ts-expect-error there are many timelines of notes
    void rp.open(notes)
    // @ts-expect-error the same, with options
    void rp.open(notes, undefined, { takeover: true })
    // @ts-expect-error an aggregate
    void rp.open(people)
    // @ts-expect-error a session
    void rp.open(guide)
    // @ts-expect-error a state store is one; its partitions have numbers
    void rp.open(counts, 'p0')
    // @ts-expect-error a projection is one
    void rp.open(totals, 'a')
    // @ts-expect-error not a number
    void rp.open(visits, 7)
  }
  expect([right, wrong].map((each) => typeof each)).toEqual(['function', 'function'])
  await rp.close()
})

it('takes an input where something looks at it', async () => {
  const rp = await open('memory:')
  const right = () => {
    void rp.run(list)
    void rp.run(list, { attributes: { by: 'ann' } })
    void rp.run(plain)
    void rp.run(greet, 'ann')
    void rp.run(asked, '2026-01-01')
    void rp.run(paged, { day: 1 })
    void rp.run(asked)
    void rp.run(plain, { id: 'p-1' })
    void rp.run(schema, { dryRun: true })
    void rp.run(asked, undefined, { attributes: { by: 'ann' } })
    void rp.run(usual, 7, { id: 'u-1' })
  }
  const wrong = () => {
    // @ts-expect-error a list has no property of an input
    void rp.run(list, 'input')
    // @ts-expect-error nor does a file
    void rp.run(read, 'input')
    // @ts-expect-error nor do migrations
    void rp.run(schema, 'input')
    // @ts-expect-error nor does a consumer
    void rp.run(reader, 'input')
    // @ts-expect-error nor does a workflow that declares none
    void rp.run(plain, 'input')
    // @ts-expect-error its options come at once
    void rp.run(plain, undefined, { id: 'p-1' })
    // @ts-expect-error its input is a number
    void rp.run(usual, { id: 'u-1' })
  }
  expect([right, wrong].map((each) => typeof each)).toEqual(['function', 'function'])
  // The type of the yielded values follows from the source.
  expectTypeOf(rp.run(asked)).toEqualTypeOf<Pending<JobRun<string>>>()
  expectTypeOf(rp.run(read)).toEqualTypeOf<Pending<JobRun<string>>>()
  expectTypeOf(rp.run(paged)).toEqualTypeOf<Pending<JobRun<{ readonly id: number }>>>()
  await rp.close()
})

it('the definition decides whether the first argument is an input or the options', async () => {
  const rp = await open('memory:')
  const ids = async (run: PromiseLike<{ readonly id: string }>) => (await run).id
  expect(await ids(rp.run(plain, { id: 'p-1' }))).toBe('p-1')
  // An input that looks like options is an input.
  const echo = workflow('echo', async (_, input: { readonly id: string }) => input)
  expect(await rp.run(echo, { id: 'e-1' }).result()).toEqual({ id: 'e-1' })
  expect(await rp.run(usual, undefined, { id: 'u-1' }).result()).toBe(5)
  expect(await rp.run(usual, 7, { id: 'u-2' }).result()).toBe(7)
  expect(await rp.run(list, { attributes: { by: 'ann' } }).result()).toMatchObject({ status: 'completed' })
  expect(await rp.head('job/list')).toMatchObject({ attributes: { by: 'ann' } })
  const seen: unknown[] = []
  const given = job('given', {
    source: (_: unknown, { input }: JobSourceContext) => {
      seen.push(input)
      return ['a']
    },
    each: () => undefined,
  })
  await rp.run(given, { attributes: 'mine' }).result()
  expect(seen).toEqual([{ attributes: 'mine' }])
  await rp.close()
})

it('an input for a definition without one is refused, as is a single argument of unknown meaning', async () => {
  const rp = await open('memory:')
  const refused = { code: 'INVALID_ARGUMENT', message: expect.stringContaining('takes no input') }
  const wrong = rp as unknown as { run(...given: unknown[]): Promise<unknown> }
  // The function of another process may use the input that this one ignores.
  expect(await wrong.run(plain, 'ann', { id: 'p-1' })).toMatchObject({ id: 'p-1' })
  await expect(wrong.run(list, { day: 1 }, {})).rejects.toMatchObject(refused)
  await expect(wrong.run(plain, { cents: 5 })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  const bound = workflow(
    'bound',
    async function (this: unknown, _ctx: WorkflowContext) {
      return [this]
    }.bind(null),
  )
  await expect(rp.run(bound, { id: 'b-1' })).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: expect.stringContaining('does not show whether it takes an input'),
  })
  expect(await wrong.run(bound, undefined, { id: 'b-1' })).toMatchObject({ id: 'b-1' })
  expect(await rp.head('workflow/plain/p-2')).toBeNull()
  const parent = workflow('parent', async (ctx) => await ctx.child(plain, { id: 'of-parent' }))
  expect(await rp.run(parent, { id: 'p' }).result()).toBe(7)
  expect(await rp.head('workflow/plain/of-parent')).toMatchObject({ status: 'completed' })
  await rp.close()
})
