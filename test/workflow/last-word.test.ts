import { expect, test } from 'vitest'
import type { EntryRun, Store } from '../../src/core/store/ports.ts'
import { forwardStore } from '../../src/core/store/store-wrapper.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { workflow, workflows } from '../../src/layers/workflow/index.ts'
import { createEngine } from '../../src/store.ts'
import { createWorld, openMemory } from '../../src/stores/memory/index.ts'

const many = workflow('many', async (ctx, count: number) => {
  for (let i = 0; i < count; i++) await ctx.step('s', () => i)
  if (count > 50) throw new Error('too many')
  return { count }
})

async function endedRuns() {
  const world = createWorld()
  const open = () => openMemory({ namespace: 'default', hash: sha256, world })
  const rp = createEngine({ store: open() })
  await (await rp.run(many, 40, { id: 'good' })).result()
  await expect((await rp.run(many, 60, { id: 'bad' })).result()).rejects.toThrow('too many')
  await rp.close()
  return open
}

function reading(store: Store, read: (runs: EntryRun[]) => EntryRun[]): Store {
  return forwardStore(store, { read: async (...args) => read(await store.read(...args)) })
}

test('the result of an ended run is read from its last two entries, whatever its length', async () => {
  const open = await endedRuns()
  let entries = 0
  const counted = reading(open(), (runs) => {
    for (const { count } of runs) entries += count
    return runs
  })
  const rp = createEngine({ store: counted })
  expect(await workflows(rp).of(many).get('good').result()).toEqual({ count: 40 })
  expect(entries).toBe(2)
  await expect(workflows(rp).of(many).get('bad').result()).rejects.toThrow('too many')
  expect(entries).toBe(4)
  await rp.close()
})

test.each([
  [
    'another end',
    (run: EntryRun) => ({ ...run, bytes: run.bytes.map((byte, i) => (i === run.bytes.length - 1 ? byte ^ 1 : byte)) }),
  ],
  ['an end with another digest', (run: EntryRun) => ({ ...run, digest: run.digest.map((byte) => byte ^ 1) })],
])('a store that gives %s is not believed: the run is read whole, and says what is wrong', async (_, damage) => {
  const open = await endedRuns()
  const damaged = reading(open(), (runs) => runs.map((run) => (run.first + run.count - 1 === 42 ? damage(run) : run)))
  const rp = createEngine({ store: damaged })
  await expect(workflows(rp).of(many).get('good').result()).rejects.toMatchObject({ code: 'HISTORY_DAMAGED' })
  await rp.close()
})
