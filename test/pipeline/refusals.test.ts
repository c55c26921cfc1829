// Errors of pipelines and their advice, each beside the place that throws it; and the last batch of a source.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import {
  collectSink,
  count,
  every,
  generatedSource,
  type KeyedStream,
  lineSource,
  list,
  pipeline,
  rowSink,
  sendSink,
  session,
  sqlSink,
  sum,
  tumbling,
  valueSource,
} from '../../src/layers/pipeline/index.ts'
import { declareKinds } from '../../src/operations/known-models.ts'
import { lettersOf } from '../../src/operations/letters.ts'
import { newFolder, removeFolder } from '../crash/support.ts'
import { at, startServer } from '../server/support.ts'

const folder = newFolder()
afterAll(() => removeFolder(folder))

const drawn = (draw: (timed: KeyedStream<number>, untimed: KeyedStream<number>) => unknown) => async () => {
  const rp = await open('memory:')
  try {
    const definition = pipeline('refused', (p) => {
      const keyed = (name: string, time?: (n: number) => number) =>
        p.from(name, valueSource([1]), time ? { time } : {}).keyBy((n) => n)
      draw(
        keyed('timed', (n) => n),
        keyed('untimed'),
      )
    })
    await rp.run(definition).result()
  } finally {
    await rp.close()
  }
}

it.each([
  ['1m', /window w needs windows such as tumbling\(\).* \(got '1m'\)/],
  [undefined, /window w needs windows such as/],
])('window refuses %s by name', async (windows, why) => {
  await expect(drawn((keyed) => keyed.window('w', windows as never))()).rejects.toThrow(why)
})

it('joins name the fault: the windows, the side of the interval, the stream without times', async () => {
  const refused = (draw: Parameters<typeof drawn>[0], why: RegExp) => expect(drawn(draw)()).rejects.toThrow(why)
  await refused((a) => a.joinWindow('j', a, session(5) as never, (n) => n), /joinWindow j needs .*\(got session\)/)
  await refused(
    (a) => a.joinInterval('j', a, { from: '5m' as never, to: 0 }, (n) => n),
    /joinInterval j: from must be a whole number of milliseconds \(got '5m'\)/,
  )
  await refused(
    (a) => a.joinInterval('j', a, { from: 5, to: 1 }, (n) => n),
    /from \(5\) must not be greater than to \(1\)/,
  )
  await refused((a, b) => a.joinWindow('j', b, tumbling(5), (n) => n), /time of each record of the second stream/)
  await refused((a, b) => b.joinWindow('j', a, tumbling(5), (n) => n), /time of each record of the first stream/)
  await refused((a) => a.aggregate('a', { add: () => 1 } as never), /a needs an aggregation .*initial is missing/)
})

it.each<[string, (timed: KeyedStream<number>, other: KeyedStream<number>) => unknown]>([
  ['map#1 needs a function (got undefined)', (s) => s.map(undefined as never).to('out', collectSink())],
  ["filter#1 needs a function (got 'n > 1')", (s) => s.filter('n > 1' as never).to('out', collectSink())],
  ["keyBy#3 needs a function (got 'user')", (s) => s.keyBy('user' as never).to('out', collectSink())],
  ['the function of sum() needs a function', (s) => s.aggregate('a', sum('cents' as never)).to('out', collectSink())],
  ['call() needs a function', (s) => s.call('geo', undefined as never).to('out', collectSink())],
  [
    'process(): the state last must come from valueState()',
    (s) =>
      s.process('p', { state: { last: { initial: 0 } }, onRecord: () => undefined } as never).to('out', collectSink()),
  ],
  ['process(): onRecord needs a function', (s) => s.process('p', {} as never).to('out', collectSink())],
  ['latest needs a function', (s, o) => s.joinLatest('latest', o, undefined as never).to('out', collectSink())],
  ['open() of the sink out needs a function', (s) => s.to('out', undefined as never)],
  ['sendSink() needs a function', (s) => s.to('out', sendSink(undefined as never))],
  [
    'latest: the second stream has no keys',
    (s, o) => s.joinLatest('latest', o.map((n) => n) as never, (n) => n).to('out', collectSink()),
  ],
])('what would make a dead letter of each record, or join nothing, is refused: %s', async (message, draw) => {
  await expect(drawn(draw)).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: expect.stringContaining(message),
  })
})

it('sources and sinks refuse options that they do not know', () => {
  expect(() => generatedSource((n) => n, { cuont: 5 } as never)).toThrow('did you mean count?')
  expect(() => rowSink({ table: 't', rwo: () => ({}) } as never)).toThrow('did you mean row?')
  expect(() => sqlSink({ writ: () => undefined } as never)).toThrow('did you mean write?')
})

it('too many dead letters advise to mend the operator, and each letter names it', async () => {
  const rp = await open('memory:')
  await declareKinds(rp)
  const failing = pipeline('failing', (p) => {
    p.from('numbers', valueSource([1, 2, 3]))
      .map((n): number => {
        throw new TypeError(`not ${n}`)
      })
      .to('out', collectSink())
  })
  const failure = rp.run(failing, { id: 'few', deadLettersMax: 1 }).result()
  await expect(failure).rejects.toMatchObject({
    code: 'LIMIT_EXCEEDED',
    hint: expect.stringMatching(/Fix the operator.*deadLettersMax/),
  })
  await rp.run(failing).result()
  const letters = await lettersOf(rp, [(await rp.head('pipeline/failing'))!])
  const named = [1, 2, 3].map((n) => `in map#1: not ${n}`)
  expect(letters.map(({ error }) => error.message)).toEqual(named)
  const here = await startServer({ rp, definitions: [failing] })
  for (const path of [`${at('pipeline/failing')}/dead-letters`, '/v1/dead-letters']) {
    const { value } = await here.ask(path)
    const listed = value.letters.filter(({ timeline }: { timeline: string }) => timeline === 'pipeline/failing')
    expect(listed.map(({ error }: { error: Error }) => error.message)).toEqual(named)
  }
  await here.close()
})

it('a file that is missing, or was cut short, has advice about files', async () => {
  const rp = await open('memory:')
  const path = join(folder, 'input.txt')
  const reading = pipeline('reading', (p) =>
    p.from('in', lineSource(path, { follow: '10ms' })).to('out', collectSink()),
  )
  await expect(rp.run(reading).result()).rejects.toMatchObject({
    code: 'NOT_FOUND',
    hint: expect.stringContaining('Check the path'),
  })
  writeFileSync(path, 'one\ntwo\nthree\n')
  const run = await rp.run(reading, { checkpoint: { every: 1 } }).started()
  while (run.status().records < 3) await new Promise((resolve) => setTimeout(resolve, 5))
  await run.stop()
  writeFileSync(path, 'one\n')
  await expect(rp.run(reading).result()).rejects.toMatchObject({
    code: 'POSITION_GONE',
    hint: expect.stringContaining('Restore the original file'),
  })
  await rp.close()
})

it('every(n) gives the rest of each key when its source is at its end', async () => {
  const rp = await open('memory:')
  const results = async (id: string, time?: (n: number) => number) => {
    const out = collectSink<unknown>()
    const counting = pipeline('rest', (p) =>
      p
        .from('numbers', valueSource([1, 2, 3, 4, 5]), time ? { time } : {})
        .keyBy((n) => n % 2)
        .window('twos', every(2))
        .aggregate(list())
        .map(({ value }) => value)
        .to('out', out),
    )
    await rp.run(counting, { id }).result()
    return out.values
  }
  const wanted = [[1, 3], [2, 4], [5]]
  expect(await results('untimed')).toEqual(wanted)
  expect(await results('timed', (n) => n)).toEqual(wanted)
  await rp.close()
})

it('the rest of every(n) is in time for windows behind it', async () => {
  const rp = await open('memory:')
  const out = collectSink<number>()
  const counting = pipeline('behind', (p) =>
    p
      .from('numbers', valueSource([1, 2, 3]), { time: (n) => n })
      .keyBy(() => 'k')
      .window('twos', every(2))
      .aggregate(count())
      .window('all', tumbling(100))
      .aggregate(sum(({ value }) => value))
      .map(({ value }) => value)
      .to('out', out),
  )
  await rp.run(counting).result()
  expect(out.values).toEqual([3])
  await rp.close()
})
