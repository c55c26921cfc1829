// Jobs through their public interface, on every store.

import { expect, it } from 'vitest'
import { job } from '../../src/layers/job/index.ts'
import { onEveryStore } from '../support/worlds.ts'

onEveryStore('a job', (world) => {
  it('does each item once and skips it for good in later runs (B1, C3)', async () => {
    const seen: string[] = []
    const letters = job('letters', {
      source: ['a', 'b', 'c'],
      each: (item: string) => void seen.push(item),
    })
    const at = await world()
    const first = await at.engine()
    const report = await (await first.run(letters)).result()
    expect(report).toMatchObject({ status: 'completed', done: 3, skipped: 0, failed: 0, resumedFrom: null, round: 1 })
    await first.close()

    const second = await at.engine()
    const again = await (await second.run(letters)).result()
    expect(again).toMatchObject({ status: 'completed', done: 0, skipped: 3, failed: 0, round: 2 })
    expect(seen).toEqual(['a', 'b', 'c'])
  })

  it('A2.1: resumes after a stop in the middle, from the cursor of its source', async () => {
    const starts: unknown[] = []
    const seen: number[] = []
    const pagesOf = 10
    let stopAt = 25
    const make = () =>
      job('paged', {
        source: async (cursor?: number) => {
          const page = cursor ?? 0
          starts.push(page)
          return {
            items: Array.from({ length: 10 }, (_, i) => page * 10 + i),
            next: page + 1 < pagesOf ? page + 1 : null,
          }
        },
        each: async (item: number) => {
          seen.push(item)
          if (item === stopAt) void run.stop()
        },
      })
    const engine = await (await world()).engine()
    let run = await engine.run(make())
    const report = await run.result()
    expect(report.status).toBe('stopped')
    expect(report.done).toBeGreaterThanOrEqual(26)
    stopAt = -1
    starts.length = 0
    run = await engine.run(make())
    const rest = await run.result()
    expect(rest).toMatchObject({ status: 'completed', failed: 0 })
    expect(rest.resumedFrom).toMatchObject({ timeline: 'job/paged' })
    expect(starts[0]).toBe(2)
    expect([...seen].sort((a, b) => a - b)).toEqual(Array.from({ length: 100 }, (_, i) => i))
  })

  it('tries again after a pause, and puts what never succeeds among the dead letters (B1)', async () => {
    const calls = new Map<string, number>()
    const flaky = job('flaky', {
      source: ['good', 'flaky', 'bad'],
      concurrency: 2,
      retry: { attempts: 3, backoff: 5 },
      each: async (item: string, { attempt }) => {
        calls.set(item, (calls.get(item) ?? 0) + 1)
        if (item === 'bad' || (item === 'flaky' && attempt < 3)) throw new Error(`no luck with ${item}`)
      },
    })
    const engine = await (await world()).engine()
    const report = await (await engine.run(flaky)).result()
    expect(report).toMatchObject({ status: 'completed', done: 2, failed: 1, retried: 4 })
    expect(Object.fromEntries(calls)).toEqual({ good: 1, flaky: 3, bad: 3 })
  })
})
