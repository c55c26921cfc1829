// Retention and consumers: history is trimmed for real, again and again, and never ahead of a named cursor (A6.4, G10).

import { expect, it } from 'vitest'
import { retain } from '../../src/engine/checkpoint/retain.ts'
import { timeline } from '../../src/index.ts'
import { consumer, releaseConsumer } from '../../src/layers/job/index.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const account = timeline('account', {
  initial: () => ({ total: 0 }),
  apply: (state, entry: { type: 'added'; by: number }) => ({ total: state.total + entry.by }),
  retain: { checkpoints: 2, history: 'needed' },
})

onEveryStore(
  'retention',
  (world) => {
    it('B1, G10: never outruns a cursor: several consumers, one lags, one is released, trims in between', async () => {
      const at = await world()
      const engine = await at.engine({ worker: 'writer' })
      const seen = new Map<string, number[]>()
      const reader = (name: string) =>
        consumer(name, {
          from: [account],
          follow: false,
          concurrency: 4,
          each: (entry) => {
            seen.set(name, [...(seen.get(name) ?? []), entry.seq])
          },
        })
      // Each time in an engine of its own, as a process that starts and ends.
      const consume = async (name: string) => {
        const own = await at.engine({ worker: name })
        await (await own.run(reader(name))).result()
        await own.close()
      }
      const last = (name: string) => Math.max(0, ...(seen.get(name) ?? []))
      const alice = await engine.open(account, 'alice')
      const grow = async (count: number) => {
        for (let i = 0; i < count; i++) await alice.append({ type: 'added', by: 1 })
        await alice.checkpoint()
      }
      const trim = async (held: readonly string[]) => {
        await engine.collect()
        const { floor } = (await engine.head('account/alice'))!
        for (const name of held) expect(floor, `history that ${name} has not seen`).toBeLessThanOrEqual(last(name))
        return floor
      }

      await grow(6)
      for (const name of ['fast', 'slow', 'gone']) await consume(name)
      for (let round = 0; round < 4; round++) {
        await grow(5)
        await consume('fast')
        if (round % 2 === 1) await consume('slow')
        await trim(['fast', 'slow', 'gone'])
      }
      // Held by the one that is furthest behind, which has not read since the beginning, and only by it.
      const heldByGone = await trim(['fast', 'slow', 'gone'])
      expect([last('gone'), heldByGone]).toEqual([6, 6])
      expect(last('slow')).toBe(26)

      await releaseConsumer(engine, reader('gone'))
      await grow(5)
      await grow(5)
      await consume('fast')
      const heldBySlow = await trim(['fast', 'slow'])
      expect(heldBySlow).toBe(26)

      await consume('slow')
      await grow(5)
      await consume('fast')
      const heldByCheckpoints = await trim(['fast', 'slow'])
      expect(heldByCheckpoints).toBeGreaterThan(26)

      await consume('slow')
      // Whatever was trimmed in between: nothing missed, nothing twice.
      const all = Array.from({ length: 41 }, (_, i) => i + 1)
      for (const name of ['fast', 'slow']) expect([...seen.get(name)!].sort((a, b) => a - b)).toEqual(all)
      expect((await hostOf(engine).kernel.store.cursors()).map((row) => row.name).sort()).toEqual([
        'consumer/fast',
        'consumer/slow',
      ])
    })

    it('G10: a collection trims up to the cursor, and the store itself refuses more', async () => {
      const engine = await (await world()).engine()
      const bob = await engine.open(account, 'bob')
      for (let i = 0; i < 4; i++) await bob.append({ type: 'added', by: 1 })
      await bob.checkpoint()
      const slow = consumer('slow', { from: [account], follow: false, each: () => undefined })
      await (await engine.run(slow)).result()
      for (let i = 0; i < 4; i++) await bob.append({ type: 'added', by: 1 })
      await bob.checkpoint()
      await bob.append({ type: 'added', by: 1 })
      await bob.checkpoint()
      const report = await engine.collect()
      const row = report.timelines.find((each) => each.timeline === 'account/bob')!
      expect(row).toMatchObject({ floor: { seq: 4, because: expect.stringContaining('cursor') }, refused: [] })
      const head = (await engine.head('account/bob'))!
      expect(head.floor).toBe(4)
      // A retention that ignores cursors is refused.
      const { refused } = await retain(
        hostOf(engine).kernel,
        head,
        { checkpoints: 2, history: 'needed' },
        account.fold.version,
      )
      expect(refused.join()).toContain('cursor')
    })
  },
  ['sqlite', 'postgres'],
)
