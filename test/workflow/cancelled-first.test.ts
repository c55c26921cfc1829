// No step starts once history contains the cancellation of the run, if its owner can know that it was not started before. That
// holds also for a step that can be undone, which otherwise may finish so that its outcome is known.

import { expect, it, test } from 'vitest'
import type { WorkerId } from '../../src/core/coordinate.ts'
import { forwardStore } from '../../src/core/store/store-wrapper.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { queue, workflow } from '../../src/layers/workflow/index.ts'
import { createEngine } from '../../src/store.ts'
import { createWorld, openMemory } from '../../src/stores/memory/index.ts'
import { newGate, pause } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

const calls: string[] = []
const note = (what: string) => () => void calls.push(what)
const undoable = { compensate: note('undone') }

onEveryStore('a run that is cancelled before anybody has executed it', (world) => {
  const lane = queue('lane', { concurrency: 1 })
  const plain = workflow('plain', async (ctx) => void (await ctx.step('pay', note('paid'), undoable)))
  const queued = workflow('queued', plain.run, { queue: lane })
  it.each([plain, queued])('calls nothing ($name)', async (definition) => {
    calls.length = 0
    const w = await world()
    const client = await w.engine()
    const run = await client.run(definition, { id: 'r', here: false })
    await run.cancel({ reason: 'no' })
    const worker = await w.engine()
    worker.work([plain, queued, lane])
    await expect(run.result()).rejects.toMatchObject({ code: 'CANCELLED' })
    expect(calls).toEqual([])
  })

  it('finishes a step that another process may have started, and undoes it', async () => {
    calls.length = 0
    const w = await world()
    const client = await w.engine()
    const run = await client.run(plain, { id: 'r', here: false })
    // Another process had it, and wrote nothing.
    const store = await w.store()
    const worker = 'before' as WorkerId
    // The client estimates the time of the store, and may be some milliseconds ahead: until then the run is not due.
    const claimed = async () => await store.claim({ worker, queues: ['workflow/plain'], limit: 1 })
    await expect
      .poll(async () => (await claimed()).map(({ timeline }) => timeline), { interval: 1, timeout: 10_000 })
      .toEqual(['workflow/plain/r'])
    await store.retire([worker])
    await run.cancel({ reason: 'no' })
    const after = await w.engine()
    after.work([plain])
    await expect(run.result()).rejects.toMatchObject({ code: 'CANCELLED' })
    expect(calls).toEqual(['paid', 'undone'])
  })
})

test('a step does not begin while a deadline that became durable with its cause is still to be delivered', async () => {
  calls.length = 0
  const store = openMemory({ namespace: 'default', hash: sha256, world: createWorld() })
  const held: (() => void)[] = []
  let isHolding = false
  const slow = forwardStore(store, {
    commit: async (commits) => {
      if (isHolding) await new Promise<void>((resolve) => held.push(resolve))
      return await store.commit(commits)
    },
  })
  const owner = createEngine({ store: slow })
  const [x, a] = [gate(), gate()]
  const definition = workflow('race', async (ctx) => {
    await ctx.parallel({
      x: (c) => c.step('x', () => x.opened),
      a: async (c) => {
        await c.step('a', () => a.opened)
        await c.step('b', note('b'), undoable)
      },
    })
  })
  const run = await owner.run(definition, { id: 'r', timeout: 100 })
  isHolding = true
  x.open()
  while (held.length === 0) await pause(1)
  // Behind the commit that is held: the outcome of `a`, then the deadline.
  a.open()
  await pause(200)
  isHolding = false
  for (const go of held) go()
  await expect(run.result()).rejects.toMatchObject({ code: 'TIMEOUT' })
  expect(calls).toEqual([])
  await owner.close()
})

function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  const { opened, open } = newGate()
  return { opened, open }
}
