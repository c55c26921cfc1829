// The calls of an idle process to its shards, counted in virtual time.

import { expect, it } from 'vitest'
import { createEngine } from '../../src/engine/api/open.ts'
import { sha256, systemRandom } from '../../src/engine/base/platform.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { createWorld, openMemory } from '../../src/stores/memory/index.ts'
import { openSharded } from '../../src/stores/sharded/index.ts'
import { drain, Scheduler } from '../simulation/scheduler.mjs'

const shards = 8
const seconds = 20

it('an idle process asks each of eight shards for little, and none for more than the others', async () => {
  const scheduler = new Scheduler()
  const asked = new Array<number>(shards).fill(0)
  const clock = {
    now: () => 1_800_000_000_000 + Math.round(scheduler.now),
    elapsed: () => scheduler.now,
    after: (ms: number, call: () => void) => scheduler.after(ms, null, call),
    soon: (call: () => void) => void scheduler.after(0.01, null, call),
    next: (call: () => void) => void scheduler.after(0.01, null, call),
  }
  const sources = asked.map((_, i) => ({
    name: `memory ${i}`,
    open: async () => {
      const store = openMemory({ namespace: 'n', hash: sha256, clock: clock.now, world: createWorld() })
      return new Proxy(store, {
        get(target, name) {
          const value = Reflect.get(target, name, target) as unknown
          if (typeof value !== 'function') return value
          return (...given: unknown[]) => {
            if (name !== 'listen' && name !== 'close') asked[i]! += 1
            return (value as (...given: unknown[]) => unknown).apply(target, given)
          }
        },
      })
    },
  }))
  const store = await openSharded(sources, { timers: clock })
  const identity = { host: 'host', process: 'p' }
  const rp = createEngine({ store, clock, random: systemRandom, hash: sha256, identity, isGone: () => false }, {})
  rp.work([workflow('idle', async () => 1)])
  const pass = async (until: number) => {
    await drain()
    while (scheduler.now < until && (await scheduler.step()));
  }
  await pass(5000)
  asked.fill(0)
  await pass(5000 + seconds * 1000)
  const perSecond = asked.map((count) => count / seconds)
  for (const each of perSecond) expect(each).toBeLessThanOrEqual(2.5)
  expect(Math.min(...perSecond)).toBeGreaterThan(0)
  expect(Math.max(...perSecond) / Math.min(...perSecond)).toBeLessThan(1.5)
})
