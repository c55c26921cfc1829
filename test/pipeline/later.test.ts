// Records that an operator could not process, or not yet: when they come back, where they come back to, and what waits for them.

import { describe, expect, it } from 'vitest'
import { systemClock } from '../../src/engine/base/platform.ts'
import { open, RetryLater } from '../../src/index.ts'
import {
  carries,
  collectSink,
  count,
  list,
  pipeline,
  reduce,
  type Source,
  type Stream,
  tumbling,
  valueSource,
  valueState,
  type WindowResult,
} from '../../src/layers/pipeline/index.ts'
import { newGate } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

interface Visit {
  readonly at: number
  readonly who: string
}

const visits: readonly Visit[] = Array.from({ length: 6 }, (_, n) => ({ at: n * 1000, who: n % 2 ? 'ann' : 'bob' }))

/** Throws for one record, so often. */
function throwing(what: () => unknown, times: number, isIt: (visit: Visit) => boolean = ({ at }) => at === 1000) {
  const calls = { made: 0 }
  const check = (visit: Visit) => {
    if (!isIt(visit)) return visit
    calls.made += 1
    if (calls.made <= times) throw what()
    return visit
  }
  return { calls, check }
}

const pause = () => new Promise((resolve) => setTimeout(resolve, 5))

/** Returns these once it is released, and never ends by itself. */
function gated<T>(given: readonly T[], open: Promise<void> = Promise.resolve()): Source<T> {
  return {
    async open(_, { signal }) {
      let isGiven = false
      return {
        partitions: () => [''],
        close: async () => undefined,
        async read() {
          await open
          if (!isGiven) {
            isGiven = true
            return { partition: '', values: given, position: given.length }
          }
          return await new Promise<null>((resolve) => {
            if (signal.aborted) resolve(null)
            signal.addEventListener('abort', () => resolve(null), { once: true })
          })
        },
      }
    },
  }
}

const later = () => new RetryLater(30)
/** Longer than a test takes, and than a checkpoint. */
const muchLater = () => new RetryLater('1h')

describe('a function that throws RetryLater', () => {
  const whole = [
    { key: 'ann', value: 1 },
    { key: 'ann', value: 1 },
    { key: 'ann', value: 1 },
    { key: 'bob', value: 1 },
    { key: 'bob', value: 1 },
    { key: 'bob', value: 1 },
  ]
  const kinds: Readonly<Record<string, (stream: Stream<Visit>, check: (visit: Visit) => Visit) => Stream<Visit>>> = {
    map: (stream, check) => stream.map(check),
    filter: (stream, check) => stream.filter((visit) => check(visit) === visit),
    flatMap: (stream, check) => stream.flatMap((visit) => [check(visit)]),
    process: (stream, check) =>
      stream
        .keyBy(({ who }) => who)
        .process('checked', {
          emits: carries<Visit>(),
          state: { seen: valueState<number>() },
          onRecord: (visit, { emit }) => emit(check(visit)),
        }),
    broadcast: (stream, check) => stream.broadcast('beside', stream, count<Visit>(), (visit: Visit) => check(visit)),
  }

  it.each(Object.keys(kinds))('gets its record again then, and no window misses it: %s', async (kind) => {
    const rp = await open('memory:')
    const { calls, check } = throwing(later, 3)
    const out = collectSink<WindowResult<number>>()
    const drawn = pipeline('again', (p) => {
      kinds[kind]!(p.from('visits', valueSource(visits), { time: ({ at }) => at }), check)
        .keyBy(({ who }) => who)
        .window('per-second', tumbling('1s'))
        .aggregate(count())
        .to('out', out)
    })
    const report = await rp.run(drawn).result()
    expect([report.status, report.deadLetters, calls.made]).toEqual(['completed', 0, 4])
    const given = out.values.map(({ key, value }) => ({ key, value }))
    expect(given.sort((a, b) => String(a.key).localeCompare(String(b.key)))).toEqual(whole)
    await rp.close()
  })

  it('in the aggregate of a window keeps that window open', async () => {
    const rp = await open('memory:')
    const { calls, check } = throwing(later, 2)
    const out = collectSink<WindowResult<readonly Visit[]>>()
    const gathered = list<Visit>()
    const drawn = pipeline('open', (p) => {
      p.from('visits', valueSource(visits), { time: ({ at }) => at })
        .keyBy(({ who }) => who)
        .window('per-second', tumbling('1s'))
        .aggregate({ ...gathered, add: (all, visit: Visit) => gathered.add(all, check(visit)) })
        .to('out', out)
    })
    const report = await rp.run(drawn).result()
    expect([report.deadLetters, calls.made]).toEqual([0, 3])
    expect(out.values.map(({ value }) => value.length)).toEqual([1, 1, 1, 1, 1, 1])
    await rp.close()
  })

  onEveryStore(
    'a pause',
    (world) => {
      it('outlives its process: the next one calls it at that time', async () => {
        const w = await world()
        const rp = await w.engine()
        const out = collectSink<Visit>()
        const { calls, check } = throwing(muchLater, 1)
        const define = () => pipeline('goes-on', (p) => p.from('visits', valueSource(visits)).map(check).to('out', out))
        const run = await rp.run(define()).started()
        while (run.status().records < visits.length) await pause()
        const stopped = await run.stop()
        // It waits, so it is not a dead letter, and the pipeline is not done.
        expect([stopped.status, stopped.deadLetters, out.values.length]).toEqual(['stopped', 0, 5])
        const early = await rp.run(define()).started()
        expect(await early.deadLetters()).toEqual([])
        expect((await early.stop()).status).toBe('stopped')
        expect(calls.made).toBe(1)
        await rp.close({ grace: 0 })
        const ahead = { ...systemClock, now: () => systemClock.now() + 7_200_000 }
        const next = await w.engine({ ports: { clock: ahead } })
        expect((await next.run(define(), {}).result()).status).toBe('completed')
        expect([calls.made, out.values.length]).toEqual([2, 6])
      })
    },
    ['memory'],
  )

  it('for every record stops the reading, and all come out when it no longer does', async () => {
    const rp = await open('memory:')
    const many = Array.from({ length: 3000 }, (_, n) => n)
    const seen = new Set<number>()
    const out = collectSink<number>()
    const drawn = pipeline('busy', (p) => {
      p.from('numbers', valueSource(many))
        .map((n) => {
          if (seen.has(n)) return n
          seen.add(n)
          throw new RetryLater(1)
        })
        .to('out', out)
    })
    const report = await rp.run(drawn, { checkpoint: { every: 1 } }).result()
    expect([report.status, report.deadLetters]).toEqual(['completed', 0])
    expect([...out.values].sort((a, b) => a - b)).toEqual(many)
    await rp.close()
  })
})

describe('a dead letter goes back to where it came from', () => {
  it('to the broadcast stream, not to the records that meet it', async () => {
    const rp = await open('memory:')
    let isMended = false
    const { opened, open: release } = newGate()
    const out = collectSink<readonly [number, number | undefined]>()
    const sum = reduce<number>((a, b) => {
      if (b === 5 && !isMended) throw new Error('five is bad')
      return a + b
    })
    const drawn = pipeline('told', (p) => {
      const rules = p.from('rules', valueSource([1, 5]))
      p.from('numbers', gated([1, 2], opened))
        .broadcast('beside', rules, sum, (n, told) => [n, told] as const)
        .to('out', out)
    })
    const run = await rp.run(drawn, { checkpoint: { every: 1 } }).started()
    while (run.status().deadLetters < 1) await pause()
    isMended = true
    expect(await run.redrive()).toBe(1)
    release()
    while (run.status().records < 4) await pause()
    await run.stop()
    expect(out.values).toEqual([
      [1, 6],
      [2, 6],
    ])
    await rp.close()
  })

  it.each(['window', 'interval'] as const)('a pair of a join by %s is joined again', async (kind) => {
    const rp = await open('memory:')
    let isMended = false
    const out = collectSink<string>()
    const pair = (a: Visit, b: Visit, window?: { readonly start: number; readonly end: number }) => {
      if (a.at === 1000 && !isMended) throw new Error('not this one')
      return `${a.who} ${a.at} ${b.at}${window ? ` in ${window.start}-${window.end}` : ''}`
    }
    const drawn = pipeline('pairs', (p) => {
      const time = { time: ({ at }: Visit) => at }
      const left = p.from('left', gated([visits[1]!, visits[5]!]), time).keyBy(({ who }) => who)
      const right = p.from('right', gated([visits[1]!, visits[5]!]), time).keyBy(({ who }) => who)
      const joined =
        kind === 'window'
          ? left.joinWindow('pairs', right, tumbling('1s'), pair)
          : left.joinInterval('pairs', right, { from: 0, to: 0 }, (a, b) => pair(a, b))
      joined.to('out', out)
    })
    const run = await rp.run(drawn, { checkpoint: { every: 1 } }).started()
    while (run.status().deadLetters < 1) await pause()
    isMended = true
    expect(await run.redrive()).toBe(1)
    await run.stop()
    expect(await run.deadLetters().catch(() => [])).toEqual([])
    expect(out.values).toContain(kind === 'window' ? 'ann 1000 1000 in 1000-2000' : 'ann 1000 1000')
    await rp.close()
  })
})
