// Random values of workflow code: each run, fork and generation draws its own, and every replay draws them again.

import { randomBytes, randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { createEngine, type Ports } from '../../src/engine/api/open.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { open } from '../../src/index.ts'
import { type WorkflowContext, workflow } from '../../src/layers/workflow/index.ts'
import { chanceOf } from '../../src/layers/workflow/run/randomness.ts'
import { createWorld, openMemory } from '../../src/stores/memory/index.ts'
import { temporaryFolder, until } from '../support/fixture.ts'
import { kitWith } from './kits.ts'

interface Drawn {
  readonly before: readonly unknown[]
  readonly after: readonly unknown[]
}

const draw = (ctx: WorkflowContext) => [ctx.uuid(), randomUUID(), randomBytes(16).toString('hex'), Math.random()]

const drawing = workflow('drawing', async (ctx: WorkflowContext): Promise<Drawn> => {
  const before = draw(ctx)
  await ctx.step('middle', () => 1)
  const after = draw(ctx)
  await ctx.step('end', () => 2)
  return { before, after }
})

it('a fork draws what its original drew before the fork point, and other values after it', async () => {
  const kit = kitWith()
  const run = await kit.run(drawing, { id: 'd' })
  const original = await kit.result(run)
  const late = await kit.result(await kit.survive(() => kit.handle(run).fork('end')))
  expect(late.before).toEqual(original.before)
  for (const [i, value] of late.after.entries()) expect(value).not.toBe(original.after[i])
  const early = await kit.result(await kit.survive(() => kit.handle(run).fork('middle')))
  for (const [i, value] of early.before.entries()) expect(value).not.toBe(original.before[i])
  const twice = await kit.result(await kit.survive(() => kit.handle(run).fork('end', { id: 'twice' })))
  expect(new Set([original, late, twice].map(({ after }) => after[0])).size).toBe(3)
})

it('a rollback keeps values drawn before it, and draws other values after it', async () => {
  const kit = kitWith()
  const run = await kit.run(drawing, { id: 'd' })
  const first = await kit.result(run)
  await kit.survive(() => kit.handle(run).rollback({ to: 'end' }))
  const second = await kit.result(run)
  expect(second.before).toEqual(first.before)
  expect(second.after).not.toEqual(first.after)
})

it('A6.6: a restored store draws the same ids again, which the outside may know as keys; a copy beside it draws others', async () => {
  const waiting = workflow('waiting', async (ctx: WorkflowContext) => {
    const before = ctx.uuid()
    await ctx.step('first', () => 1)
    await ctx.signal('go')
    return [before, ctx.uuid()]
  })
  const file = join(temporaryFolder('chance'), 'store.rpb')
  const finish = async (rp: Awaited<ReturnType<typeof open>>) => {
    await rp.send('workflow/waiting/one', 'signal', { name: 'go', value: null })
    return await (await rp.run(waiting, { id: 'one' })).result()
  }
  await using original = await open('memory:')
  await original.run(waiting, { id: 'one' })
  await until(async () => (await original.list()).some(({ seq, status }) => seq > 1 && status === 'waiting'))
  await original.backup(file)
  const drawn = await finish(original)
  await using replaced = await open('memory:')
  await replaced.restore(file)
  expect(await finish(replaced)).toEqual(drawn)
  await using copy = await open('memory:')
  await copy.restore(file, { copy: true })
  const [before, after] = await finish(copy)
  expect(before).toBe(drawn[0])
  expect(after).not.toBe(drawn[1])
})

it('draws the same again after a crash anywhere', async () => {
  for (let commit = 1; commit <= 4; commit++) {
    const kit = kitWith({ crashAt: [{ commit, when: 'after' }] })
    const seen: string[] = []
    const twice = workflow('twice', async (ctx: WorkflowContext) => {
      const id = ctx.uuid()
      await ctx.step('a', () => void seen.push(id))
      await ctx.step('b', () => void seen.push(id))
      return id
    })
    const run = await kit.run(twice, { id: 't' })
    const id = await kit.result(run)
    expect(new Set(seen)).toEqual(new Set([id]))
  }
})

/** Draws one id in each of this many runs, and counts those that were drawn before. */
function collisions(runs: number, seedBytes: number): number {
  const ids = new Set<string>()
  const seeds = randomBytes(runs * seedBytes).toString('hex')
  for (let i = 0; i < runs; i++) {
    const text = seeds.slice(i * 2 * seedBytes, (i + 1) * 2 * seedBytes)
    ids.add(chanceOf(sha256, { text, isShort: false }, '').uuid())
  }
  return runs - ids.size
}

it('a million runs draw a million ids; with a seed of 24 bits some of them would be the same', () => {
  expect(collisions(1_000_000, 16)).toBe(0)
  expect(collisions(200_000, 3)).toBeGreaterThan(0)
})

it('runs whose first 24 random bits are the same draw different ids; a seed of 24 bits is found', async () => {
  const drawOf = async (...planted: string[]) => {
    let count = 0
    // The platform's values start alike each time.
    const random = {
      bytes: (length: number) => Uint8Array.from({ length }, (_, i) => (i < 3 ? 7 : (++count * 31) >> (i % 4))),
      number: () => 0.5,
    }
    const store = openMemory({ namespace: 'test', hash: sha256, world: createWorld() })
    await using rp = createEngine({ store, random, planted: new Set(planted) } as Ports, { worker: 'test' })
    const [one, two] = [await rp.run(drawing, { id: 'a' }), await rp.run(drawing, { id: 'b' })]
    return [(await one.result()).before[0], (await two.result()).before[0]]
  }
  const [a, b] = await drawOf()
  expect(a).not.toBe(b)
  const [short, again] = await drawOf('short-seed')
  expect(short).toBe(again)
})
