// Errors that a job does not count as failures of the service, and its reaction to a failing source.

import { expect, it } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { hostOf } from '../../src/engine/host/host.ts'
import { failureOf } from '../../src/engine/storage/failure-notes.ts'
import { consumer, GiveUp, job, keyRange, readLetters, redriveLetters } from '../../src/layers/job/index.ts'
import { jobFold } from '../../src/layers/job/state.ts'
import { onEveryStore } from '../support/worlds.ts'

const numbers = (count: number) => Array.from({ length: count }, (_, i) => i)

onEveryStore('a job', (world) => {
  it('does not pause for items whose errors are final', async () => {
    const engine = await (await world()).engine()
    const work = job('missing', {
      source: numbers(40),
      concurrency: 4,
      retry: { attempts: 1, giveUpOn: (error) => error instanceof RangeError },
      breaker: { failures: 3, pause: '1h' },
      each: async (item: number) => {
        if (item % 2 === 0) throw new GiveUp(`404: ${item}`)
        throw new RangeError(`410: ${item}`)
      },
    })
    expect(await (await engine.run(work)).result()).toMatchObject({ done: 0, failed: 40 })
    const keys = (await readLetters(engine, 'job/missing')).map((letter) => letter.key)
    await redriveLetters(engine, 'job/missing', keys)
    expect(await (await engine.run(work)).result()).toMatchObject({ done: 0, failed: 40 })
  })

  it('takes a request for its dead letters while another process is becoming its owner', async () => {
    const { engine: another } = await world()
    const [sender, owner] = [await another(), await another()]
    const work = job('taken', {
      source: [1],
      retry: { attempts: 1 },
      each: async () => {
        throw new GiveUp('404')
      },
    })
    await (await owner.run(work)).result()
    const [letter] = await readLetters(sender, 'job/taken')
    // The head as the sender read it, just before the other process became the owner.
    const host = hostOf(sender)
    const before = await host.head('job/taken')
    const open = await hostOf(owner).openTimeline(timelineId('job/taken'), jobFold())
    host.head = async () => before
    await redriveLetters(sender, 'job/taken', [letter!.key])
    expect(await open.inbox()).toHaveLength(1)
    await open.close()
  })

  it('uses the next item as a probe if a probe proves nothing about the service', async () => {
    const engine = await (await world()).engine()
    let isUp = false
    const work = job('probes', {
      source: numbers(30),
      concurrency: 3,
      retry: { attempts: 20, backoff: 1, backoffMax: 5 },
      breaker: { failures: 3, pause: 20, pauseMax: 40 },
      each: async (item: number) => {
        if (item >= 3 && item < 10) {
          isUp = true
          throw new GiveUp(`404: ${item}`)
        }
        if (!isUp) throw new Error('503')
      },
    })
    const run = await engine.run(work)
    // The first three fail until one of the next is tried: they keep the breaker open, and the probes prove nothing.
    setTimeout(() => {
      isUp = true
    }, 100)
    expect(await run.result()).toMatchObject({ done: 23, failed: 7 })
  })

  it('reads a page again that failed, after a pause, and does no item twice', async () => {
    const engine = await (await world()).engine()
    const asked: number[] = []
    const seen: number[] = []
    const failures: string[] = []
    const work = job('flaky-pages', {
      source: async (cursor: number = 0) => {
        asked.push(cursor)
        if (cursor === 2 && asked.filter((each) => each === 2).length < 3) throw new Error('502')
        return { items: numbers(10).map((i) => cursor * 10 + i), next: cursor < 4 ? cursor + 1 : null }
      },
      concurrency: 4,
      retry: { attempts: 3, backoff: 2 },
      each: (item: number) => void seen.push(item),
    })
    const run = await engine.run(work)
    run.watch((event) => void (event.type === 'source-failure' && failures.push(`${event.next} ${event.attempt}`)))
    expect(await run.result()).toMatchObject({ status: 'completed', done: 50, skipped: 0, failed: 0 })
    expect(seen.sort((a, b) => a - b)).toEqual(numbers(50))
    expect(asked).toEqual([0, 1, 2, 2, 2, 3, 4])
    expect(failures).toEqual(['retry 1', 'retry 2'])
  })

  it('opens a generator again at its last cursor when it throws, and silently skips items it has already yielded', async () => {
    const engine = await (await world()).engine()
    const begun: unknown[] = []
    const seen: number[] = []
    let isBroken = true
    const work = job('flaky-generator', {
      source: async function* (from: number = 0, ctx: { cursor(next: unknown): void }) {
        begun.push(from)
        for (let i = from; i < 30; i++) {
          if (i === 17 && isBroken) {
            isBroken = false
            throw new Error('connection reset')
          }
          yield i
          if (i % 5 === 4) ctx.cursor(i + 1)
        }
      },
      concurrency: 3,
      retry: { backoff: 2 },
      each: (item: number) => void seen.push(item),
    })
    const report = await (await engine.run(work)).result()
    expect(report).toMatchObject({ status: 'completed', done: 30, skipped: 0 })
    expect(begun).toEqual([0, 15])
    expect(seen.sort((a, b) => a - b)).toEqual(numbers(30))
  })

  it('tries key ranges again, and ends with the error of the source once its attempts are used up', async () => {
    const engine = await (await world()).engine()
    let calls = 0
    const rows = (failAt: number) =>
      keyRange<number, number>({
        limit: 5,
        key: (row) => row,
        after: async (key = -1) => {
          calls += 1
          if (calls >= failAt) throw new Error('the database is away')
          return numbers(20)
            .filter((row) => row > key)
            .slice(0, 5)
        },
      })
    const seen: number[] = []
    const make = (failAt: number) =>
      job('rows', { source: rows(failAt), retry: { attempts: 3, backoff: 1 }, each: (row) => void seen.push(row) })
    await expect((await engine.run(make(3))).result()).rejects.toThrow('the database is away')
    expect(calls).toBe(5)
    const report = await (await engine.run(make(Number.POSITIVE_INFINITY))).result()
    expect(report).toMatchObject({ status: 'completed', done: 10 })
    expect(seen).toEqual(numbers(20))
  })

  it('does not retry a final error of the source, nor an iterator that cannot be read twice', async () => {
    const engine = await (await world()).engine()
    let pages = 0
    const final = job('final', {
      source: async () => {
        pages += 1
        throw new GiveUp('401')
      },
      retry: { backoff: '1h' },
      each: () => undefined,
    })
    await expect((await engine.run(final)).result()).rejects.toThrow('401')
    expect(pages).toBe(1)
    const broken = (async function* () {
      yield 1
      throw new Error('the stream broke')
    })()
    const once = job('once', { source: broken, retry: { backoff: '1h' }, each: () => undefined })
    await expect((await engine.run(once)).result()).rejects.toThrow('the stream broke')
  })

  it('counts attempts at a source that gives the same items and then fails each time, and ends as failed with the reason', async () => {
    const engine = await (await world()).engine()
    const attempts: number[] = []
    let isMended = false
    const seen: number[] = []
    const broken = job('broken', {
      source: async function* () {
        yield 1
        yield 2
        if (!isMended) throw new Error('page 3 cannot be read')
        yield 3
      },
      retry: { attempts: 4, backoff: 1 },
      each: (item) => void seen.push(item),
    })
    const run = await engine.run(broken)
    run.watch((event) => event.type === 'source-failure' && attempts.push(event.attempt))
    await expect(run.result()).rejects.toThrow('page 3 cannot be read')
    expect(attempts).toEqual([1, 2, 3, 4])
    const [head] = await engine.list({ prefix: 'job/broken' })
    const failure = failureOf(hostOf(engine).kernel.sealer, head!)
    expect(head).toMatchObject({ status: 'failed' })
    expect(failure).toMatchObject({ reason: 'page 3 cannot be read' })
    // A process that works on the job waits as long as it has failed so far, and at least a second.
    expect(head!.wakeup! - failure!.at).toBeGreaterThanOrEqual(1000)
    isMended = true
    expect(await engine.run(broken).result()).toMatchObject({ status: 'completed' })
    expect(seen).toEqual([1, 2, 3])
    expect(await engine.list({ prefix: 'job/broken' })).toMatchObject([{ status: 'completed' }])
  })

  it('stops at once while it waits to read the source again', async () => {
    const engine = await (await world()).engine()
    const work = job('waiting', {
      source: async () => {
        throw new Error('503')
      },
      retry: { backoff: '1h', backoffMax: '1h' },
      each: () => undefined,
    })
    const run = await engine.run(work)
    await new Promise<void>((resolve) => run.watch((event) => event.type === 'source-failure' && resolve()))
    expect(await run.stop()).toMatchObject({ status: 'stopped' })
  })

  it('counts the dead letters that are left, those of earlier runs too', async () => {
    const engine = await (await world()).engine()
    const work = job('leaves', {
      source: numbers(6),
      shards: 2,
      retry: { attempts: 1 },
      each: (item: number) => {
        if (item % 3 === 0) throw new Error('no')
      },
    })
    expect(await (await engine.run(work)).result()).toMatchObject({ done: 4, failed: 2, dead: 2 })
    expect(await (await engine.run(work)).result()).toMatchObject({ done: 0, failed: 0, dead: 2 })
  })

  it('consumers have the same patience', async () => {
    const engine = await (await world()).engine()
    const seen: string[] = []
    const work = job('source', { source: ['a', 'b'], each: () => undefined })
    await (await engine.run(work)).result()
    const reads = consumer('reads', {
      from: ['job/source'],
      types: ['done'],
      follow: false,
      breaker: { failures: 1, pause: '1h' },
      each: (entry) => {
        seen.push(entry.type)
        throw new GiveUp('not mine')
      },
    })
    const report = await (await engine.run(reads)).result()
    expect(report.failed).toBe(seen.length)
    expect(seen.length).toBeGreaterThan(0)
  })
})
