// A job among several engines, and one that is stopped and taken up again.

import { expect, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { job, stopJob } from '../../src/layers/job/index.ts'
import { pause } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const numbers = (count: number) => Array.from({ length: count }, (_, i) => i)

onEveryStore(
  'a job',
  (world) => {
    it('stops on a message, and continues with the next run', async () => {
      const at = await world()
      const engine = await at.engine()
      const other = await at.engine()
      const make = (ms: number) =>
        job('asked', {
          source: numbers(200),
          concurrency: 2,
          each: () => new Promise((resolve) => setTimeout(resolve, ms)),
        })
      let isAsked = false
      const run = await engine.run(make(10))
      run.watch((event) => {
        if (event.type === 'progress' && !isAsked) {
          isAsked = true
          void stopJob(other, 'job/asked', 'enough')
        }
      })
      const report = await run.result()
      expect(report.status).toBe('stopped')
      expect(report.done).toBeLessThan(200)
      const rest = await (await engine.run(make(0))).result()
      expect(rest).toMatchObject({ status: 'completed', done: 200 - report.done })
    })

    it('shares a job among engines by shards, each item done once', async () => {
      const at = await world()
      const seen: string[] = []
      const make = () =>
        job('shared', {
          source: numbers(300).map(String),
          shards: 4,
          concurrency: 2,
          each: async (item: string) => {
            seen.push(item)
            await pause(4)
          },
        })
      const engines = [await at.engine({ worker: 'one' }), await at.engine({ worker: 'two' })]
      const reports = await Promise.all(engines.map(async (engine) => (await engine.run(make())).result()))
      expect(seen.sort()).toEqual(numbers(300).map(String).sort())
      expect(reports.reduce((sum, report) => sum + report.done, 0)).toBe(300)
      for (const report of reports) expect(report.status).toBe('completed')
    })

    it('after a rollback it is no longer finished, and repeats the later items', async () => {
      const at = await world()
      const engine = await at.engine()
      const done: string[] = []
      const make = () =>
        job('undone', {
          source: numbers(40).map(String),
          shards: 2,
          concurrency: 1,
          each: (item: string) => void done.push(item),
        })
      await (await engine.run(make())).result()
      expect(done.length).toBe(40)
      const [before] = await hostOf(engine).kernel.store.head([timelineId('job/undone/0')])
      expect(before).toMatchObject({ status: 'completed', attributes: { round: 1 } })
      const { archive } = await engine.rollback({ to: { timeline: 'job/undone/0', seq: 1 } })
      const [after] = await hostOf(engine).kernel.store.head([timelineId('job/undone/0')])
      expect(after).toMatchObject({ status: 'stopped', attributes: { round: 1, done: 0 } })
      const undone = Number(before!.attributes.done)
      const report = await (await engine.run(make())).result()
      expect(report).toMatchObject({ status: 'completed', done: undone })
      expect(done.length).toBe(40 + undone)
      expect(archive).toBe('job/undone/0~1')
    })

    it('hands shards over to an engine that comes later, each item done once', async () => {
      const at = await world()
      const seen: string[] = []
      const make = (who: string) =>
        job('joined', {
          source: numbers(400).map(String),
          shards: 4,
          concurrency: 2,
          each: async (item: string) => {
            seen.push(item)
            by[who] = (by[who] ?? 0) + 1
            await pause(8)
          },
        })
      const by: Record<string, number> = {}
      const first = await (await at.engine({ worker: 'first' })).run(make('first'))
      await expect.poll(() => seen.length).toBeGreaterThan(10)
      const second = await (await at.engine({ worker: 'second' })).run(make('second'))
      const reports = await Promise.all([first.result(), second.result()])
      expect([...seen].sort()).toEqual(numbers(400).map(String).sort())
      expect(reports.map((report) => report.done)).toEqual([by.first, by.second])
      expect(by.second).toBeGreaterThan(0)
    })

    it('refuses to change its number of shards', async () => {
      const engine = await (await world()).engine()
      const make = (shards: number) => job('fixed', { source: ['a'], shards, each: () => undefined })
      await (await engine.run(make(2))).result()
      for (const shards of [1, 3]) {
        await expect((await engine.run(make(shards))).result()).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
      }
    })

    it('lets a second engine wait for the first, and take over when that one is fenced off', async () => {
      const at = await world()
      const first = await at.engine({ worker: 'first' })
      const second = await at.engine({ worker: 'second' })
      const make = () =>
        job('alone', { source: numbers(40), each: () => new Promise((resolve) => setTimeout(resolve, 5)) })
      const one = await first.run(make())
      const other = await second.run(make())
      const reports = await Promise.all([one.result(), other.result()])
      expect(reports.map((report) => report.done).sort((a, b) => a - b)).toEqual([0, 40])
    })

    it('is run by a worker in another process when it was left unfinished', async () => {
      const at = await world()
      const seen: number[] = []
      const make = (stopAfter: number) =>
        job('worked', {
          source: numbers(30),
          each: (item: number) => {
            seen.push(item)
            if (seen.length === stopAfter) void run?.stop()
          },
        })
      const starter = await at.engine({ worker: 'starter' })
      const run = await starter.run(make(10))
      await run.result()
      await starter.close()
      const worker = await at.engine({ worker: 'worker' })
      worker.work([make(-1)])
      await expect.poll(async () => (await worker.head('job/worked'))?.status).toBe('completed')
      expect([...seen].sort((a, b) => a - b)).toEqual(numbers(30))
    })
  },
  ['memory', 'sqlite'],
)
