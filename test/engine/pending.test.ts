// A handle on its way: awaited, or asked at once. Lines that must not compile say so; `npm run types` holds them to it.

import { expect, expectTypeOf, it } from 'vitest'
import { open, type Pending, timeline } from '../../src/index.ts'
import { type JobRun, job } from '../../src/layers/job/index.ts'
import { table } from '../../src/layers/table/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'

const greet = workflow<string, string>('greet', async (_ctx, name) => `hello ${name}`)
const plain = workflow('plain', async () => 7)
const list = job('list', { source: ['a', 'b'], each: async () => {} })
const visits = table<{ n: number }>('visits')
const notes = timeline('notes', { initial: () => 0, apply: (n: number) => n + 1 })

it('a run is asked for its result before it is there', async () => {
  const rp = await open('memory:')
  expect(await rp.run(greet, 'ann').result()).toBe('hello ann')
  expect(await rp.run(plain).result()).toBe(7)
  expect((await rp.run(list).result()).done).toBe(2)
  const run = await rp.run(greet, 'bob')
  expect(await run.result()).toBe('hello bob')
  await rp.close()
})

it('an entity is asked at once, and what fails fails there', async () => {
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
    // @ts-expect-error what is not answered by a promise cannot be had before the handle is there
    void rp.run(greet, 'ann').id
  }
  expect(wrong).toBeTypeOf('function')
  await rp.close()
})
