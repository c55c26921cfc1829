// The batches of a source do not affect the result: every operator, every pair of branches that meet again, and every order of
// times produces the same output with batches of 1,000 as with batches of 1, in the same order.

import fc from 'fast-check'
import { expect, it } from 'vitest'
import { open, type Reprise } from '../../src/index.ts'
import {
  carries,
  collectSink,
  count,
  every,
  type KeyedStream,
  list,
  listState,
  max,
  type PipelineBuilder,
  pipeline,
  reduce,
  type Source,
  type Stream,
  session,
  sliding,
  sum,
  tumbling,
  valueState,
} from '../../src/layers/pipeline/index.ts'

interface Event {
  readonly kind: 'order' | 'price'
  readonly key: string
  readonly at: number
  readonly n: number
}

/** Gives batches of these sizes, and then one with the rest. */
function inBatches(all: readonly Event[], sizes: readonly number[]): Source<Event> {
  return {
    async open() {
      let [at, turn] = [0, 0]
      return {
        partitions: () => [''],
        close: async () => undefined,
        read() {
          if (at === all.length) return null
          const size = sizes[turn++] ?? all.length
          const batch = all.slice(at, at + size)
          at += batch.length
          return { partition: '', values: batch, position: at }
        },
      }
    },
  }
}

type Keyed = KeyedStream<Event>
interface Parts {
  readonly all: Stream<Event>
  readonly keyed: Keyed
  readonly orders: Keyed
  readonly prices: Keyed
}

const n = (each: Event) => each.n
const keyOf = (each: Event) => each.key
const poison = (each: Event) => {
  if (each.n === 7) throw new Error('seven')
  return each.n
}
const late = (streams: Stream<unknown>[]) => ({ lateTo: (stream: Stream<Event>) => void streams.push(stream) })

/** Every operator, alone and where branches meet. Each returns the streams that end in a sink. */
const shapes: Readonly<Record<string, (parts: Parts) => Stream<unknown>[]>> = {
  'map, filter, flatMap': ({ all }) => [
    all
      .map(n)
      .filter((each) => each > 2)
      .flatMap((each) => [each, -each]),
  ],
  running: ({ keyed }) => [keyed.aggregate('running', sum(poison))],
  'running list': ({ keyed }) => [keyed.aggregate('running', list())],
  tumbling: ({ keyed }) => {
    const lates: Stream<unknown>[] = []
    return [keyed.window('w', tumbling(20), late(lates)).aggregate(sum(poison)), ...lates]
  },
  'sliding, late allowed': ({ keyed }) => {
    const lates: Stream<unknown>[] = []
    return [keyed.window('w', sliding(30, 10), { late: 25, ...late(lates) }).aggregate(list()), ...lates]
  },
  session: ({ keyed }) => {
    const lates: Stream<unknown>[] = []
    return [keyed.window('w', session(8), late(lates)).aggregate(sum(poison)), ...lates]
  },
  'session, late allowed': ({ keyed }) => [keyed.window('w', session(8), { late: 30 }).aggregate(list())],
  'count window': ({ keyed }) => [keyed.window('w', every(3)).aggregate(list())],
  dedupe: ({ keyed }) => [keyed.dedupe('d', { within: 12 })],
  process: ({ keyed }) => [
    keyed.process('p', {
      emits: carries<unknown>(),
      state: { seen: listState<number>(), last: valueState<number>() },
      onRecord(each: Event, ctx) {
        ctx.state.seen.add(each.n)
        ctx.setTimer(each.at + 9)
        ctx.emit(['record', each.n, ctx.watermark, ctx.state.last.get() ?? null])
        ctx.state.last.set(poison(each))
      },
      onTimer(time, { emit, key, state }) {
        emit(['timer', key, time, [...state.seen.get()]])
        state.seen.clear()
      },
    }),
  ],
  'side outputs that meet': ({ keyed }) => {
    const split = keyed.process('p', {
      emits: carries<Event>(),
      sides: { odd: carries<Event>() },
      onRecord(each: Event, ctx) {
        if (each.n % 2 === 1) ctx.side('odd', each)
        else ctx.emit(each)
      },
    })
    return [
      split
        .union(split.side('odd'))
        .keyBy(keyOf)
        .aggregate(
          'met',
          reduce((_, b) => b),
        ),
    ]
  },
  'late records that meet results': ({ keyed }) => {
    const lates: Stream<Event>[] = []
    const windows = keyed
      .window('w', tumbling(20), { lateTo: (stream) => void lates.push(stream) })
      .aggregate(count())
      .map(({ key, value }) => [key, value] as const)
    const others = lates[0]!.map((each) => [each.key, -each.n] as const)
    return [
      windows
        .union(others)
        .keyBy(([key]) => key)
        .aggregate('met', list()),
    ]
  },
  joinLatest: ({ orders, prices }) => [orders.joinLatest('latest', prices, (a, b) => [a.n, b?.n ?? null])],
  'joinLatest with itself': ({ keyed }) => [
    keyed.joinLatest('latest', keyed, (a, b) => [a.key, a.n, b?.key ?? null, b?.n ?? null]),
  ],
  'joinLatest behind a second key': ({ orders, prices }) => [
    orders
      .map((each) => ({ ...each, n: each.n * 10 }))
      .keyBy((each) => each.key)
      .joinLatest('latest', prices.filter((each) => each.n > 3).keyBy(keyOf), (a, b) => [a.n, b?.n ?? null]),
  ],
  'joinLatest with tombstones': ({ orders, all }) => [
    orders.joinLatest(
      'latest',
      all.filter(({ kind }) => kind === 'price').keyBy(keyOf, (each) => (each.n > 4 ? null : each.n)),
      (a, b) => [a.n, b ?? null],
    ),
  ],
  'tombstones that windows, joins and aggregates skip': ({ all, orders }) => {
    const present = all.keyBy(keyOf, (each) => (each.n > 4 ? null : { at: each.at, n: each.n }))
    return [
      present.window('w', session(8), { late: 10 }).aggregate(list()),
      present.joinInterval('j', orders, { from: -10, to: 10 }, (a, b) => [a.n, b.n]),
      present.aggregate('running', count()).union(present.window('c', every(3)).aggregate(count())),
    ]
  },
  broadcast: ({ orders, prices }) => [orders.broadcast('rules', prices, max(n), (a, told) => [a.n, told ?? null])],
  union: ({ orders, prices }) => [orders.union(prices).keyBy(keyOf).aggregate('order-of', list())],
  'union without keys': ({ all }) => [all.map(n).union(all.map((each) => -each.n))],
  'union of windows and records': ({ keyed }) => [
    keyed
      .window('w', tumbling(20))
      .aggregate(sum(n))
      .map(({ key, value }) => [key, value] as const)
      .union(keyed.map((each) => [each.key, each.n] as const))
      .keyBy(([key]) => key)
      .process('sequence', {
        emits: carries<unknown>(),
        state: { all: listState<number>() },
        onRecord([, value]: readonly [string | number, number], { state, emit }) {
          state.all.add(value)
          emit([...state.all.get()])
        },
      }),
  ],
  'three branches that meet one after the other': ({ all }) => [
    all
      .flatMap((each) => [each.n, each.n + 0.5])
      .union(all.map((each) => each.n * 100))
      .map((each) => -each)
      .union(all.filter((each) => each.n > 4).flatMap((each) => [each.n * 1000, each.n * 2000])),
  ],
  'branches with state that meet': ({ keyed, prices }) => {
    const seen = keyed.process('seen', {
      emits: carries<number>(),
      onRecord(each: Event, { emit }) {
        emit(each.n)
        emit(poison(each) + 0.5)
      },
    })
    const running = keyed.aggregate('running', sum(poison)).map(({ value }) => value)
    const deduped = prices.dedupe('d', { within: 12 }).map((each) => each.n * 100)
    return [seen.union(running, deduped), running.map((each) => -each)]
  },
  'joins that meet': ({ orders, prices }) => [
    orders
      .joinLatest('latest', prices, (a, b) => [a.key, a.n * 10 + (b?.n ?? 0)] as const)
      .union(prices.map((each) => [each.key, each.n] as const))
      .keyBy(([key]) => key)
      .aggregate('met', list()),
  ],
  'branches that meet behind a place where branches met': ({ orders, prices }) => {
    const met = orders.joinLatest('latest', prices, (a, b) => ({ key: a.key, n: a.n * 10 + (b?.n ?? 0) }))
    const sums = met
      .aggregate(
        'sums',
        sum(({ n }) => n),
      )
      .map(({ key, value }) => ({ key: String(key), n: value }))
    return [
      met
        .union(sums)
        .keyBy(({ key }) => key)
        .aggregate('met', list()),
    ]
  },
  'a branch that goes around the place where the others meet': ({ orders, prices }) => {
    const left = orders.map((each) => ({ key: each.key, n: -each.n })).keyBy(({ key }) => key)
    const joined = left.joinLatest('latest', prices, (a, b) => ({ key: a.key, n: a.n * 10 - (b?.n ?? 0) }))
    return [
      joined
        .union(left)
        .keyBy(({ key }) => key)
        .aggregate('met', list()),
    ]
  },
  joinWindow: ({ orders, prices }) => [orders.joinWindow('j', prices, tumbling(20), (a, b) => [a.n, b.n])],
  joinInterval: ({ orders, prices }) => [
    orders.joinInterval('j', prices, { from: -10, to: 10 }, (a, b) => [poison(a), b.n]),
  ],
  'outer joins of windows': ({ orders, prices }) => [
    orders.joinWindow('l', prices, tumbling(20), (a, b) => [poison(a), b?.n ?? null], { outer: 'left' }),
    orders.joinWindow('f', prices, sliding(20, 10), (a, b) => [a?.n ?? null, b?.n ?? null], { outer: 'full' }),
  ],
  'outer joins of intervals': ({ orders, prices }) => [
    orders.joinInterval('l', prices, { from: -10, to: 10 }, (a, b) => [a.n, b?.n ?? null], { outer: 'left' }),
    orders.joinInterval('f', prices, { from: 5, to: 30 }, (a, b) => [a?.n ?? null, b?.n ?? null], { outer: 'full' }),
    orders.joinInterval('b', prices, { from: -30, to: -5 }, (a, b) => [a?.n ?? null, b?.n ?? null], { outer: 'full' }),
  ],
  'a window behind an outer join of intervals': ({ orders, prices }) => [
    orders
      .joinInterval('j', prices, { from: -10, to: 10 }, (a, b) => (a?.n ?? 0) * 10 + (b?.n ?? 0), { outer: 'full' })
      .window('w', tumbling(15))
      .aggregate(list()),
  ],
  'joinChanges, inner and outer': ({ orders, prices }) => {
    const rows = orders.keyBy(keyOf, (each) => (each.n > 6 ? null : each))
    const others = prices.keyBy(keyOf, (each) => (each.n > 4 ? null : each))
    return [
      rows.joinChanges('inner', others, (a, b) => [poison(a), b.n]),
      rows.joinChanges('left', others, (a, b) => [a.n, b?.n ?? null], { outer: 'left' }),
      rows.joinChanges('full', others, (a, b) => [a?.n ?? null, b?.n ?? null], { outer: 'full' }),
    ]
  },
  processBoth: ({ orders, prices }) => [
    orders.processBoth('both', prices, {
      emits: carries<unknown>(),
      state: { all: listState<number>() },
      onLeft(each, { state, emit, setTimer }) {
        state.all.add(poison(each))
        setTimer(each.at + 7)
        emit(['left', ...state.all.get()])
      },
      onRight(each, { state, emit }) {
        state.all.add(-each.n)
        emit(['right', ...state.all.get()])
      },
      onTimer: (time, { key, state, emit }) => emit([key, time, ...state.all.get()]),
    }),
  ],
  'window behind a window': ({ keyed }) => [
    keyed
      .window('w', tumbling(10), { late: 20 })
      .aggregate(sum(n))
      .keyBy(({ start }) => start % 3)
      .window('of-all', session(15))
      .aggregate(list()),
  ],
  'timers behind a window': ({ keyed }) => [
    keyed
      .window('w', tumbling(10))
      .aggregate(sum(n))
      .process('p', {
        emits: carries<unknown>(),
        state: { total: valueState<number>() },
        onRecord({ end, value }, ctx) {
          ctx.state.total.set((ctx.state.total.get() ?? 0) + value)
          ctx.setTimer(end + 5)
        },
        onTimer: (time, { key, emit, state }) => emit([key, time, state.total.get()]),
      }),
  ],
}

const event = fc.record({
  kind: fc.constantFrom('order' as const, 'price' as const),
  key: fc.constantFrom('a', 'b', 'c'),
  step: fc.nat(6),
  back: fc.oneof(fc.constant(0), fc.nat(60)),
  n: fc.nat(9),
})
const events = fc.array(event, { minLength: 1, maxLength: 60 }).map((all): Event[] => {
  let now = 1000
  return all.map(({ step, back, ...rest }) => {
    now += step
    return { ...rest, at: now - back }
  })
})

let id = 0
async function results(
  rp: Reprise,
  draw: (parts: Parts) => Stream<unknown>[],
  source: Source<Event>,
  outOfOrder: number,
  parallelism: number,
): Promise<unknown> {
  const outs = Array.from({ length: 3 }, () => collectSink<unknown>())
  const drawn = pipeline('cut', (p: PipelineBuilder) => {
    const all = p.from('events', source, { time: ({ at }) => at, outOfOrder })
    const of = (kind: Event['kind']) => all.filter((each) => each.kind === kind).keyBy(keyOf)
    const parts = { all, keyed: all.keyBy(keyOf), orders: of('order'), prices: of('price') }
    for (const [i, stream] of draw(parts).entries()) stream.to(`out-${i}`, outs[i]!)
  })
  id += 1
  const run = await rp.run(drawn, { id: String(id), parallelism, deadLettersMax: 1000 })
  await run.result()
  const letters = (await run.deadLetters()).map(({ operator, value, error }) => ({ operator, value, error }))
  // Several instances keep the order of each key, and no order among keys.
  const inOrder = (all: readonly unknown[]) =>
    parallelism === 1 ? [...all] : all.map((each) => JSON.stringify(each)).sort()
  return { outs: outs.map((out) => inOrder(out.values)), letters: inOrder(letters), late: run.status().lateRecords }
}

it.each(Object.entries(shapes))('%s gives the same for every cut of batches', async (_, draw) => {
  const rp = await open('memory:')
  const sizes = fc.oneof(fc.constant([1000]), fc.array(fc.integer({ min: 1, max: 20 }), { maxLength: 10 }))
  await fc.assert(
    fc.asyncProperty(events, sizes, fc.constantFrom(0, 15), fc.constantFrom(1, 3), async (all, cuts, ooo, scale) => {
      const ones = inBatches(all, Array(all.length).fill(1))
      const single = await results(rp, draw, ones, ooo, scale)
      expect(await results(rp, draw, inBatches(all, cuts), ooo, scale)).toEqual(single)
    }),
    { numRuns: Number(process.env.REPRISE_PIPELINE_CASES ?? 30) },
  )
  await rp.close()
})

it('50,000 orders of one source meet the price before them', async () => {
  const rp = await open('memory:')
  const all: Event[] = Array.from({ length: 100_000 }, (_, i) => ({
    ...{ key: `k${Math.floor(i / 2) % 7}`, at: i, n: Math.floor(i / 2) },
    kind: i % 2 === 0 ? 'price' : 'order',
  }))
  const out = collectSink<boolean>()
  const drawn = pipeline('orders', (p) => {
    const source = p.from('events', inBatches(all, Array(100).fill(1000)))
    const of = (kind: Event['kind']) => source.filter((each) => each.kind === kind).keyBy(keyOf)
    of('order')
      .joinLatest('price', of('price'), (order, price) => order.n === price?.n)
      .to('out', out)
  })
  await rp.run(drawn).result()
  expect(out.values.filter(Boolean)).toHaveLength(50_000)
  await rp.close()
})
