// Consumers: the machinery of jobs over the feed of the kernel.

import { expect, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { timeline } from '../../src/index.ts'
import { aggregate, processManager, projection } from '../../src/layers/events/index.ts'
import { consumer, consumerLag } from '../../src/layers/job/index.ts'
import { pause } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

onEveryStore(
  'a job',
  (world) => {
    it('consumes a feed by a named cursor that retention waits for (A6.4)', async () => {
      const engine = await (await world()).engine()
      const account = timeline('account', {
        initial: () => ({ total: 0 }),
        apply: (state, entry: { type: 'added'; by: number }) => ({ total: state.total + entry.by }),
      })
      const alice = await engine.open(account, 'alice')
      const bob = await engine.open(account, 'bob')
      for (let i = 1; i <= 5; i++) await alice.append({ type: 'added', by: i })
      await bob.append({ type: 'added', by: 100 })
      const seen: string[] = []
      const make = () =>
        consumer('sums', {
          from: [account],
          follow: false,
          concurrency: 3,
          retry: { attempts: 1 },
          each: (entry) => {
            seen.push(`${entry.timeline}@${entry.seq}`)
            if (entry.seq === 3) throw new Error('poison')
          },
        })
      expect(await (await engine.run(make())).result()).toMatchObject({ done: 5, failed: 1 })
      expect(seen).toHaveLength(6)
      const [cursor] = (await hostOf(engine).kernel.store.cursors()).filter((row) => row.name === 'consumer/sums')
      expect(cursor?.owner).toBe('job/sums')
      await alice.append({ type: 'added', by: 6 })
      expect(await consumerLag(engine, make())).toEqual({ runs: 1, isMore: false })
      expect(await (await engine.run(make())).result()).toMatchObject({ done: 1, skipped: 0 })
      expect(seen[6]).toBe('account/alice@6')
      // Keys below the cursor are not stored.
      const { state } = await engine.at(make(), '', { seq: (await engine.head('job/sums'))!.seq })
      expect([state.ahead.size, state.finished.size]).toEqual([0, 0])
    })

    it('E3: a consumer whose process died before its first entry begins in the next process', async () => {
      const engine = await (await world()).engine()
      const log = timeline('log', { initial: () => 0, apply: (state, _entry: { type: 'line' }) => state + 1 })
      const seen: number[] = []
      const tail = consumer('tail', { from: [log], each: (entry) => void seen.push(entry.seq) })
      // The process died after it had created the timeline.
      await (await hostOf(engine).openTimeline(timelineId('job/tail'), tail.fold)).close()
      expect(await engine.head('job/tail')).toMatchObject({ seq: 0 })
      engine.work([tail])
      await engine.open(log, 'a').append({ type: 'line' })
      await expect.poll(() => seen).toEqual([1])
    })

    it('a following consumer sees later entries', async () => {
      const engine = await (await world()).engine()
      const log = timeline('log', { initial: () => 0, apply: (state, _entry: { type: 'line' }) => state + 1 })
      const lines = await engine.open(log, 'a')
      const seen: number[] = []
      const run = await engine.run(consumer('tail', { from: ['log/'], each: (entry) => void seen.push(entry.seq) }))
      await lines.append({ type: 'line' })
      await lines.append({ type: 'line' })
      await expect.poll(() => seen.length).toBe(2)
      expect((await run.stop()).status).toBe('stopped')
      expect(seen).toEqual([1, 2])
    })
  },
  ['memory', 'sqlite'],
)

onEveryStore(
  'work()',
  (world) => {
    const account = aggregate('account', {
      initial: () => ({ n: 0 }),
      decide: { add: (_: { n: number }, by: number) => ({ type: 'added' as const, by }) },
      evolve: { added: ({ n }: { n: number }, { by }: { by: number }) => ({ n: n + by }) },
    })

    it('begins consumers, projections and process managers that never ran, at the start, and shares them', async () => {
      const w = await world()
      const engine = await w.engine()
      const alice = await engine.open(account, 'alice')
      await alice.do('add', 1)
      await alice.do('add', 2)
      const seen: number[] = []
      const reacted: number[] = []
      const reads = consumer('reads', { from: [account], each: ({ event }) => void seen.push(event.by) })
      const sums = projection('sums', {
        from: [account],
        initial: () => new Map<string, number>(),
        on: { added: (state, event, { id }) => void state.set(id, (state.get(id) ?? 0) + event.by) },
      })
      const reacts = processManager('reacts', { from: [account], on: { added: ({ by }) => void reacted.push(by) } })
      engine.work([reads, sums, reacts])
      const other = await w.engine()
      other.work([reads, sums, reacts])
      await alice.do('add', 3)
      await expect.poll(() => seen).toEqual([1, 2, 3])
      // An item that two processes started at once is committed once, and may be called twice.
      await expect.poll(() => [...new Set(reacted)]).toEqual([1, 2, 3])
      const handle = await engine.open(sums)
      await handle.catchUp()
      expect(handle.state.get('alice')).toBe(6)
      // The remaining process continues.
      await engine.close()
      const bob = await other.open(account, 'bob')
      await bob.do('add', 4)
      await expect.poll(() => seen).toEqual([1, 2, 3, 4])
    })

    it('leaves a consumer alone that has read all it wanted', async () => {
      const engine = await (await world()).engine()
      await (await engine.open(account, 'alice')).do('add', 1)
      const seen: number[] = []
      const once = consumer('once', { from: [account], follow: false, each: ({ event }) => void seen.push(event.by) })
      await engine.run(once).result()
      await (await engine.open(account, 'alice')).do('add', 2)
      engine.work([once])
      await pause(50)
      expect([seen, (await engine.head('job/once'))!.status]).toEqual([[1], 'completed'])
    })
  },
  ['sqlite', 'postgres'],
)
