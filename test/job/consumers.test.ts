// Consumers: the machinery of jobs over the feed of the kernel.

import { expect, it } from 'vitest'
import { timeline } from '../../src/index.ts'
import { consumer, consumerLag } from '../../src/layers/job/index.ts'
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
      // What the cursor has passed is not remembered by key.
      const { state } = await engine.at(make(), '', { seq: (await engine.head('job/sums'))!.seq })
      expect([state.ahead.size, state.finished.size]).toEqual([0, 0])
    })

    it('a consumer that follows sees what comes later', async () => {
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
