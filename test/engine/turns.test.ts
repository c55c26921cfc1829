// Long work yields to the event loop: a store that answers synchronously would otherwise block it until all of a history, or
// all of the feed, is read. Each read of the clock advances the time; turns are counted.

import { expect, it } from 'vitest'
import { createEngine } from '../../src/engine/api/open.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { FeedReader } from '../../src/engine/feed/reader.ts'
import { feedStart, timeline } from '../../src/index.ts'
import { createWorld, openMemory } from '../../src/stores/memory/index.ts'
import { CostClock } from '../support/cost-clock.ts'
import { hostOf } from '../support/host.ts'

const notes = timeline('notes', {
  initial: () => ({ count: 0 }),
  apply: (state, _: { type: 'noted' }) => ({ count: state.count + 1 }),
})

function world() {
  const clock = new CostClock()
  const shared = createWorld()
  const turns = { count: 0 }
  const engine = () => {
    const store = openMemory({ namespace: 'default', hash: sha256, world: shared, clock: () => clock.now })
    const view = clock.view().clock
    const soon = (call: () => void) => {
      turns.count += 1
      view.soon(call)
    }
    return createEngine({ store, clock: { ...view, soon } }, { worker: 'test' })
  }
  return { clock, engine, turns }
}

it('a long history is replayed in slices, and a long feed is read in slices', async () => {
  const { clock, engine, turns } = world()
  const first = engine()
  const written = await first.open(notes, 'a')
  for (let i = 0; i < 100; i++) await written.append({ type: 'noted' })
  await first.close()
  const second = engine()
  clock.lookMs = 2
  turns.count = 0
  const read = await second.open(notes, 'a')
  expect(read.state.count).toBe(100)
  expect(turns.count).toBeGreaterThan(30)
  turns.count = 0
  const { entries } = await new FeedReader(hostOf(second).kernel, ['notes/']).page(feedStart)
  expect(entries.length).toBeGreaterThanOrEqual(100)
  expect(turns.count).toBeGreaterThan(30)
  clock.lookMs = 0
  await second.close()
})
