// The determinism check: recorded input from a checkpoint, replayed separately. Each planted fault is found with its operator
// and its first record; sound operators are never blamed; and the check changes nothing.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { generator, queries } from '../../bench/support/nexmark.mjs'
import { timelineId } from '../../src/core/coordinate.ts'
import type { Engine } from '../../src/engine/model/definition.ts'
import { open } from '../../src/index.ts'
import * as lib from '../../src/layers/pipeline/index.ts'
import { cli, json, workFolder } from '../cli/support.ts'
import { hostOf } from '../support/host.ts'

const { carries, checkPipelines, collectSink, count, pipeline, sum, valueSource, valueState } = lib

interface Visit {
  readonly n: number
  readonly user: string
  readonly at: number
}

const visits: readonly Visit[] = Array.from({ length: 60 }, (_, n) => ({ n, user: `u${n % 7}`, at: n * 100 }))

/** A pipeline of which one function is given. */
function drawn(draw: (all: lib.Stream<Visit>) => lib.Stream<unknown>, source: lib.Source<Visit> = valueSource(visits)) {
  return pipeline('visits', (p) => {
    draw(p.from('visits', source, { time: ({ at }) => at })).to('out', collectSink())
  })
}

const seen = new Map<string, number>()

const faults: readonly (readonly [string, string, string, (all: lib.Stream<Visit>) => lib.Stream<unknown>])[] = [
  ['chance', 'map#1', 'Math.random', (all) => all.map((v) => ({ ...v, chance: Math.random() }))],
  ['the clock', 'map#1', 'Date.now', (all) => all.map((v) => ({ ...v, day: Math.floor(Date.now() / 86_400_000) }))],
  ['a new Date', 'filter#1', 'Date', (all) => all.filter((v) => new Date().getFullYear() % 2 === v.n % 2)],
  ['a random id', 'flatMap#1', 'crypto.randomUUID', (all) => all.flatMap((v) => [v.n, crypto.randomUUID()])],
  [
    'a request',
    'map#2',
    'requests',
    (all) => all.map((v) => v.n).map((n) => ({ n, rate: fetch('http://localhost/') })),
  ],
  [
    'a key that depends on chance',
    'keyBy#1',
    'Math.random',
    (all) => all.keyBy((v) => (Math.random() < 0.5 ? v.user : 'x')).aggregate('counts', count()),
  ],
  [
    'a map outside of the pipeline, and its order',
    'map#1',
    'besides the record',
    (all) =>
      all.map(({ user }) => {
        seen.set(user, (seen.get(user) ?? 0) + 1)
        return [...seen].sort(([, a], [, b]) => b - a)[0]
      }),
  ],
  [
    'a variable of the drawing, lost in a restart',
    'map#1',
    'after a restart',
    (all) => {
      let number = 0
      return all.map((v) => ({ ...v, number: number++ }))
    },
  ],
  [
    'state that does not come back as it was',
    'guard',
    'after a restart',
    (all) => {
      const known = new WeakSet<Visit>()
      return all
        .keyBy((v) => v.user)
        .process('guard', {
          emits: carries<boolean>(),
          state: { last: valueState<Visit>() },
          onRecord(visit: Visit, { state, emit }) {
            emit(known.has(state.last.get() ?? visit))
            known.add(visit)
            state.last.set(visit)
          },
        })
    },
  ],
]

describe('the check', () => {
  it.each(faults)('finds %s', async (_, operator, because, draw) => {
    const rp = await open('memory:')
    const definition = drawn(draw)
    const { ok, checked } = await checkPipelines(rp, [definition])
    expect({ ok, step: checked[0]!.step }).toEqual({ ok: false, step: operator })
    expect(checked[0]!.problem).toContain(because)
    await rp.close()
  })

  it('finds times that are not those of the records', async () => {
    const rp = await open('memory:')
    let clock = 0
    const definition = pipeline('ticking', (p) => {
      p.from('visits', valueSource(visits), { time: () => clock++ }).to('out', collectSink())
    })
    const [checked] = (await checkPipelines(rp, [definition])).checked
    expect(checked).toMatchObject({ ok: false, step: 'visits' })
    expect(checked!.problem).toMatch(/\}: .*at 0, then .*at 60; it depends/)
    await rp.close()
  })

  it('names the first record that differs, and its results', async () => {
    const rp = await open('memory:')
    const definition = drawn((all) =>
      all
        .filter((v) => v.n > 3)
        .map((v) => (v.n < 40 ? v : { ...v, late: Date.now() }))
        .keyBy((v) => v.user)
        .aggregate(
          'newest',
          lib.reduce((_, b) => b),
        ),
    )
    const [checked] = (await checkPipelines(rp, [definition])).checked
    expect(checked).toMatchObject({ ok: false, step: 'map#1', from: null, records: 60 })
    expect(checked!.problem).toContain('record 41, from visits: {"n":40,"user":"u5","at":4000}')
    expect(checked!.problem).toMatch(/\}: \{.*"late":\d+,.*\}.*, then \{.*"late":\d+,.*\}.*; it uses Date\.now$/)
    await rp.close()
  })

  // The times of q12 are those of the clock.
  it.each(Object.keys(queries).filter((name) => name !== 'q12'))('blames nothing in Nexmark %s', async (name) => {
    const query = queries[name]!
    const rp = await open('memory:')
    const definition = pipeline(name, (p) => {
      const all = p.from('events', lib.generatedSource(generator(100).event, { count: 400 }), {
        time: query.time?.bind(query) ?? (({ at }) => at),
        outOfOrder: query.time ? '1m' : 0,
      })
      query.draw(lib, all).to('out', collectSink())
    })
    expect((await checkPipelines(rp, [definition])).checked).toMatchObject([{ ok: true, records: 400, problem: null }])
    await rp.close()
  })

  it('blames neither timers, side outputs, sessions, joins nor dead letters, in partitions and with parallelism', async () => {
    const rp = await open('memory:')
    const definition = pipeline(
      'all-of-them',
      (p) => {
        const all = p.from(
          'visits',
          lib.generatedSource((n) => ({ ...visits[n % 60]!, n, at: n * 97 }), { count: 80, partitions: 3 }),
          {
            time: ({ at }) => at,
            outOfOrder: '1s',
          },
        )
        const byUser = all.keyBy((v) => v.user)
        byUser
          .window('sessions', lib.session('300ms'), { late: '1s', early: '10ms' })
          .aggregate(lib.list())
          .to('a', collectSink())
        byUser.window('fives', lib.every(5), { within: '1m' }).aggregate(count()).to('b', collectSink())
        byUser
          .joinInterval(
            'near',
            byUser.map((v) => v).keyBy((v) => v.user),
            { from: -200, to: 200 },
            (a, b) => [a.n, b.n],
          )
          .to('c', collectSink())
        const processed = byUser.process('timers', {
          emits: carries<string>(),
          state: { pages: lib.mapState<number>({ ttl: '1d' }), total: lib.reducingState<number>((a, b) => a + b) },
          sides: { odd: carries<number>() },
          onRecord(v: Visit, { state, emit, side, setTimer, setClockTimer, now }) {
            if (v.n === 77) throw new Error('cannot')
            state.pages.set(`p${v.n % 3}`, v.n)
            state.total.add(v.n)
            if (v.n % 2) side('odd', v.n)
            setTimer(v.at + 500)
            setClockTimer(now() + 60_000)
            emit([...state.pages.entries()].join(' '))
          },
          onTimer: (_, { state, emit }) => emit(`timer ${state.total.get()}`),
          onClock: (_, { state, emit }) => emit(`clock ${state.pages.size}`),
        })
        processed.to('d', collectSink())
        processed
          .side('odd')
          .keyBy((n) => n % 5)
          .dedupe('once', { within: '2s' })
          .to('e', collectSink())
        all
          .broadcast(
            'told',
            all.filter((v) => v.n % 10 === 0),
            sum((v) => v.n),
            (v, told) => [v.n, told],
          )
          .to('f', collectSink())
      },
      { parallelism: 2 },
    )
    await rp.run(definition, { parallelism: 2, checkpoint: { every: '1h' } }).result()
    expect((await checkPipelines(rp, [definition])).checked).toMatchObject([{ ok: true, records: 240, problem: null }])
    await rp.close()
  })

  it('begins from the state and the positions of a checkpoint, and changes nothing', async () => {
    const rp = await open('memory:')
    const source = new Growing(visits.slice(0, 35))
    const definition = drawn(
      (all) =>
        all
          .keyBy((v) => v.user)
          // Only with the state of the checkpoint does a count reach this value within the records after it.
          .aggregate('counts', { ...count(), result: (total: number) => (total > 7 ? total + Math.random() : total) }),
      source,
    )
    const run = await rp.run(definition).started()
    while (run.status().records < 35) await new Promise((resolve) => setTimeout(resolve, 2))
    const { checkpoint } = await run.stop()
    source.all.push(...visits.slice(35))
    const looked = async () => JSON.stringify([await hostOf(rp).head('pipeline/visits'), await checkpointsOf(rp)])
    const before = await looked()
    const [checked] = (await checkPipelines(rp, [definition], { quiet: 50 })).checked
    expect(checked).toMatchObject({ ok: false, step: 'counts', from: checkpoint, records: 25 })
    expect(checked!.problem).toContain('first at record 15, from visits: {"n":49,')
    expect(await looked()).toBe(before)
    // And from its beginning if there is nothing behind it.
    source.all.length = 35
    const fewer = await checkPipelines(rp, [definition], { quiet: 50 })
    expect(fewer.checked).toMatchObject([{ ok: true, from: null, records: 35 }])
    await rp.close()
  })

  it('lists the parts it cannot check: calls, sources with one reader, no input', async () => {
    const rp = await open('memory:')
    const called = (all: lib.Stream<Visit>) =>
      all.call('geo', async (v) => v.n * Math.random()).map((n) => ({ n, chance: Math.random() }))
    const [unmade] = (await checkPipelines(rp, [drawn(called)])).checked
    expect(unmade).toMatchObject({ ok: true, notes: [expect.stringContaining('the operators after geo')] })
    const stood = await checkPipelines(rp, [drawn(called)], { calls: { geo: (v: Visit) => v.n } })
    expect(stood.checked).toMatchObject([{ ok: false, step: 'map#1' }])

    const exclusive = { ...valueSource(visits), isExclusive: true }
    const random = (all: lib.Stream<Visit>) => all.map(() => Math.random())
    const [closed] = (await checkPipelines(rp, [drawn(random, exclusive)])).checked
    expect(closed).toMatchObject({ ok: true, records: 0, notes: [expect.stringContaining('--input visits=FILE')] })
    const inputs = { visits: valueSource(visits.slice(0, 5)) }
    const given = await checkPipelines(rp, [drawn(random, exclusive)], { inputs })
    expect(given.checked).toMatchObject([{ ok: false, records: 5 }])

    const [none] = (await checkPipelines(rp, [drawn(random, valueSource([]))])).checked
    expect(none).toMatchObject({ ok: true, notes: ['not checked: there was no input to replay'] })
    await expect(checkPipelines(rp, [drawn(random)], { inputs: { visit: valueSource([]) } })).rejects.toThrow('visits')
    await rp.close()
  })

  it('reports code that does not match its checkpoint, and checks each task of a shared pipeline', async () => {
    const rp = await open('memory:')
    await rp.run(drawn((all) => all.keyBy((v) => v.user).aggregate('counts', count()))).result()
    const renamed = drawn((all) => all.keyBy((v) => v.user).aggregate('tallies', count()))
    const [checked] = (await checkPipelines(rp, [renamed])).checked
    expect(checked).toMatchObject({ ok: false, problem: expect.stringContaining('the operator tallies is new') })

    const shared = pipeline('shared', (p) => {
      p.from(
        'visits',
        lib.generatedSource((n) => visits[n]!, { count: 20, partitions: 2 }),
      )
        .map((v) => ({ ...v, chance: v.n === 15 ? Math.random() : 0 }))
        .to('out', collectSink())
    })
    rp.work([shared])
    const tasks = async () =>
      (await hostOf(rp).list({ prefix: 'pipeline/shared/' })).filter(({ status }) => status === 'completed')
    while ((await tasks()).length < 2) await new Promise((resolve) => setTimeout(resolve, 10))
    expect((await checkPipelines(rp, [shared])).checked).toMatchObject([
      { timeline: 'pipeline/shared/@0', ok: false, records: 20 },
      { timeline: 'pipeline/shared/@1', ok: false, records: 20 },
    ])
    await rp.close()
  })

  it('leaves the clock and chance as they were', async () => {
    const before = [Date, Math.random, fetch, performance.now, crypto.randomUUID]
    const rp = await open('memory:')
    await checkPipelines(rp, [drawn((all) => all.map(() => new Date()))])
    expect([Date, Math.random, fetch, performance.now, crypto.randomUUID]).toEqual(before)
    expect(Object.hasOwn(performance, 'now')).toBe(false)
    await rp.close()
  })
})

describe('reprise check', () => {
  const folder = workFolder()
  afterAll(() => folder.remove())

  const source = (change: string) => `import { collectSink, count, jsonLineSource, pipeline } from 'reprise/pipeline'
export const lines = pipeline('lines', (p) => {
  p.from('lines', jsonLineSource('lines.jsonl')).map((line) => ${change}).keyBy((line) => line.user).aggregate('counts', count()).to('out', collectSink())
})
`

  it('replays the input of the pipelines of a module, with exit code 9 if the output differs', async () => {
    const at = { cwd: folder.path }
    writeFileSync(join(folder.path, 'lines.jsonl'), visits.map((visit) => `${JSON.stringify(visit)}\n`).join(''))
    writeFileSync(join(folder.path, 'sound.mjs'), source('line'))
    writeFileSync(join(folder.path, 'unsound.mjs'), source('({ ...line, id: Math.random() })'))
    expect((await cli(['run', 'sound.mjs'], at)).code).toBe(0)
    expect(await json(['check', 'sound.mjs'], at)).toMatchObject({
      code: 0,
      value: { ok: true, checked: 1, pipelines: [{ timeline: 'pipeline/lines', records: 60 }] },
    })
    const ran = await json(['check', 'unsound.mjs', '--records', '7', '--input', 'lines=lines.jsonl'], at)
    expect(ran).toMatchObject({
      code: 9,
      value: { ok: false, diverging: [{ timeline: 'pipeline/lines', step: 'map#1' }], pipelines: [{ records: 7 }] },
    })
    expect(JSON.stringify(ran.value)).toContain(': {\\"at\\":0,')
    expect((await cli(['check', 'sound.mjs', '--input', 'line=lines.jsonl'], at)).code).toBe(2)
  })
})

/** Returns the existing records, and waits for more. */
class Growing implements lib.Source<Visit> {
  readonly all: Visit[]

  constructor(all: readonly Visit[]) {
    this.all = [...all]
  }

  async open(from: lib.Positions | null, { signal }: { readonly signal: AbortSignal }) {
    let at = Number(from?.get('') ?? 0)
    return {
      partitions: () => [''],
      close: async () => undefined,
      read: async () => {
        while (at >= this.all.length && !signal.aborted) await new Promise((resolve) => setTimeout(resolve, 2))
        const given = this.all.slice(at)
        at += given.length
        return given.length === 0 ? null : { partition: '', values: given, position: at }
      },
    }
  }
}

async function checkpointsOf(rp: Engine): Promise<unknown> {
  return (await hostOf(rp).kernel.store.checkpoints(timelineId('pipeline/visits'))).map(({ id, invalid }) => [
    id,
    invalid,
  ])
}
