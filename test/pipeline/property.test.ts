// For any random pipeline, with failures and restarts anywhere, the sink shows the output of a plain loop over all records,
// each result once.

import fc from 'fast-check'
import { expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import {
  carries,
  collectSink,
  count,
  every,
  type KeyedStream,
  list,
  listState,
  mapState,
  pipeline,
  reducingState,
  type Source,
  session,
  sliding,
  sum,
  tumbling,
  valueSource,
} from '../../src/layers/pipeline/index.ts'

interface Event {
  readonly key: string
  readonly at: number
  readonly n: number
}

const jitterMs = 40
const event = fc.record({
  key: fc.constantFrom('a', 'b', 'c', 'd'),
  jitter: fc.nat(jitterMs),
  n: fc.integer({ min: -9, max: 9 }),
})
const events = fc
  .array(event, { minLength: 1, maxLength: 120 })
  .map((all): Event[] => all.map(({ key, jitter, n }, i) => ({ key, n, at: 1000 + i * 10 + jitter })))

interface Shape {
  readonly name: string
  draw(stream: KeyedStream<Event>): KeyedStream<unknown>
  plain(all: readonly Event[]): unknown[]
}

const byKey = (all: readonly Event[]) => {
  const groups = new Map<string, Event[]>()
  for (const each of all) groups.set(each.key, [...(groups.get(each.key) ?? []), each])
  return groups
}
const sumOf = (all: readonly Event[]) => all.reduce((total, { n }) => total + n, 0)

function fixed(name: string, lengthMs: number, stepMs: number): Shape {
  return {
    name,
    draw: (stream) => stream.window('windows', sliding(lengthMs, stepMs)).aggregate(sum(({ n }) => n)),
    plain(all) {
      const results: unknown[] = []
      for (const [key, own] of byKey(all)) {
        const starts = new Set<number>()
        for (const { at } of own) {
          for (let start = Math.floor(at / stepMs) * stepMs; start > at - lengthMs; start -= stepMs) starts.add(start)
        }
        for (const start of starts) {
          const inside = own.filter(({ at }) => at >= start && at < start + lengthMs)
          results.push({ key, start, end: start + lengthMs, value: sumOf(inside) })
        }
      }
      return results
    },
  }
}

const shapes: readonly Shape[] = [
  fixed('tumbling', 100, 100),
  fixed('sliding', 100, 30),
  {
    name: 'session',
    draw: (stream) => stream.window('windows', session(35)).aggregate(sum(({ n }) => n)),
    plain(all) {
      const results: unknown[] = []
      for (const [key, own] of byKey(all)) {
        let current: Event[] = []
        const end = () => {
          if (current.length === 0) return
          results.push({ key, start: current[0]!.at, end: current.at(-1)!.at + 35, value: sumOf(current) })
          current = []
        }
        for (const each of [...own].sort((a, b) => a.at - b.at)) {
          if (current.length > 0 && each.at - current.at(-1)!.at > 35) end()
          current.push(each)
        }
        end()
      }
      return results
    },
  },
  {
    name: 'count',
    draw: (stream) => stream.window('windows', every(3)).aggregate(list()),
    plain(all) {
      const results: unknown[] = []
      for (const [key, own] of byKey(all)) {
        for (let i = 0; i < own.length; i += 3) results.push({ key, value: own.slice(i, i + 3) })
      }
      return results
    },
  },
  {
    name: 'process',
    draw: (stream) =>
      stream.process('kept', {
        emits: carries<unknown>(),
        state: { all: listState<number>(), signs: mapState<number>(), total: reducingState<number>((a, b) => a + b) },
        onRecord({ n }: Event, { key, state, emit }) {
          state.all.add(n)
          state.signs.set(String(Math.sign(n)), (state.signs.get(String(Math.sign(n))) ?? 0) + 1)
          state.total.add(n)
          emit([key, [...state.all.get()], [...state.signs.entries()].sort(), state.total.get()])
        },
      }),
    plain(all) {
      const results: unknown[] = []
      for (const [key, own] of byKey(all)) {
        const signs = new Map<string, number>()
        own.forEach(({ n }, i) => {
          signs.set(String(Math.sign(n)), (signs.get(String(Math.sign(n))) ?? 0) + 1)
          const seen = own.slice(0, i + 1)
          results.push([key, seen.map((each) => each.n), [...signs].sort(), sumOf(seen)])
        })
      }
      return results
    },
  },
  {
    name: 'timers',
    draw: (stream) =>
      stream.process('timed', {
        emits: carries<unknown>(),
        onRecord: ({ at }: Event, { setTimer }) => setTimer(at + 55),
        onTimer: (time, { key, emit }) => emit([key, time]),
      }),
    plain: (all) =>
      [...byKey(all)].flatMap(([key, own]) => [...new Set(own.map(({ at }) => at + 55))].map((time) => [key, time])),
  },
  {
    name: 'second key',
    draw: (stream) =>
      stream
        .window('windows', tumbling(100))
        .aggregate(sum(({ n }) => n))
        .keyBy(({ start }) => start)
        .window('of-all', tumbling(100))
        .aggregate(sum(({ value }) => value)),
    plain(all) {
      const starts = [...new Set(all.map(({ at }) => Math.floor(at / 100) * 100))]
      return starts.map((start) => {
        const inside = all.filter(({ at }) => at >= start && at < start + 100)
        return { key: start, start, end: start + 100, value: sumOf(inside) }
      })
    },
  },
  {
    name: 'running',
    draw: (stream) => stream.aggregate('running', count()),
    plain: (all) => [...byKey(all)].flatMap(([key, own]) => own.map((_, i) => ({ key, value: i + 1 }))),
  },
]

/** Records with an even number on the left, the others on the right. */
function sides(stream: KeyedStream<Event>) {
  const of = (isEven: boolean) => stream.filter(({ n }) => (n % 2 === 0) === isEven).keyBy(({ key }) => key)
  return { left: of(true), right: of(false) }
}
const numbers = (a: Event | undefined, b: Event | undefined) => [a?.n ?? null, b?.n ?? null]

/** Every pair that matches and, by `outer`, the records that are in none. */
function pairs(all: readonly Event[], outer: 'left' | 'full', matches: (left: Event, right: Event) => boolean) {
  return [...byKey(all).values()].flatMap((own) => {
    const left = own.filter(({ n }) => n % 2 === 0)
    const right = own.filter(({ n }) => n % 2 !== 0)
    const joined = left.flatMap((a) => right.filter((b) => matches(a, b)).map((b) => numbers(a, b)))
    const alone = left.filter((a) => !right.some((b) => matches(a, b))).map((a) => numbers(a, undefined))
    const other = right.filter((b) => !left.some((a) => matches(a, b))).map((b) => numbers(undefined, b))
    return [...joined, ...alone, ...(outer === 'full' ? other : [])]
  })
}

function outerShapes(outer: 'left' | 'full'): Shape[] {
  const windowOf = ({ at }: Event) => Math.floor(at / 50)
  const near = (a: Event, b: Event) => b.at - a.at >= -20 && b.at - a.at <= 35
  const after = (a: Event, b: Event) => b.at - a.at >= 10 && b.at - a.at <= 60
  const interval = (stream: KeyedStream<Event>, from: number, to: number) => {
    const { left, right } = sides(stream)
    return left.joinInterval('joined', right, { from, to }, numbers as () => unknown, { outer })
  }
  return [
    {
      name: `${outer} join of windows`,
      draw(stream) {
        const { left, right } = sides(stream)
        return left.joinWindow('joined', right, tumbling(50), numbers as () => unknown, { outer })
      },
      plain: (all) => pairs(all, outer, (a, b) => windowOf(a) === windowOf(b)),
    },
    {
      name: `${outer} join of an interval`,
      draw: (stream) => interval(stream, -20, 35),
      plain: (all) => pairs(all, outer, near),
    },
    {
      name: `${outer} join of a later interval, counted in a window behind it`,
      // A late result would be missing in the window.
      draw: (stream) => interval(stream, 10, 60).window('counted', tumbling(1_000_000)).aggregate(count()),
      plain(all) {
        const counts = [...byKey(all)].map(([key, own]) => ({ key, value: pairs(own, outer, after).length }))
        return counts.filter(({ value }) => value > 0).map((each) => ({ start: 0, end: 1_000_000, ...each }))
      },
    },
    {
      name: `${outer} join of changes`,
      draw(stream) {
        const keyed = (isEven: boolean) =>
          stream
            .filter(({ n }) => (n % 2 === 0) === isEven)
            .keyBy(
              ({ key }) => key,
              (each) => (Math.abs(each.n) > 5 ? null : each),
            )
        return keyed(true)
          .joinChanges('joined', keyed(false), numbers as () => unknown, { outer })
          .process('seen', { emits: carries<unknown>(), onRecord: (row, { key, emit }) => emit([key, row]) })
      },
      plain: (all) =>
        [...byKey(all)].flatMap(([key, own]) => {
          let [left, right]: (Event | undefined)[] = []
          const isThere = () => left !== undefined || (outer === 'full' && right !== undefined)
          return own.flatMap((each): unknown[] => {
            const had = isThere()
            const row = Math.abs(each.n) > 5 ? undefined : each
            if (each.n % 2 === 0) left = row
            else right = row
            if (isThere()) return [[key, numbers(left, right)]]
            return had ? [[key, null]] : []
          })
        }),
    },
  ]
}

const two: Shape = {
  name: 'process of two streams',
  draw(stream) {
    const { left, right } = sides(stream)
    return left.processBoth('both', right, {
      emits: carries<unknown>(),
      state: { all: listState<number>() },
      onLeft: ({ n }, { state }) => state.all.add(n),
      onRight({ n }, { key, state, emit, setTimer, time }) {
        state.all.add(n)
        setTimer(time! + 30)
        emit([key, ...state.all.get()])
      },
      onTimer: (time, { key, emit }) => emit([key, time]),
    })
  },
  plain: (all) =>
    [...byKey(all)].flatMap(([key, own]) => {
      const odd = own.filter(({ n }) => n % 2 !== 0)
      const seen = own.flatMap(({ n }, i) => (n % 2 === 0 ? [] : [[key, ...own.slice(0, i + 1).map((each) => each.n)]]))
      return [...seen, ...[...new Set(odd.map(({ at }) => at + 30))].map((time) => [key, time])]
    }),
}

const allShapes = [...shapes, ...outerShapes('left'), ...outerShapes('full'), two]

/** Gives few at a time, and fails once at each of these places. */
function failing(all: readonly Event[], failures: Set<number>, batch: number): Source<Event> {
  const inner = valueSource(all)
  return {
    async open(from, context) {
      const reader = await inner.open(from, context)
      let at = Number(from?.get('') ?? 0)
      return {
        partitions: () => reader.partitions(),
        close: () => reader.close(),
        async read() {
          const due = [...failures].find((place) => place <= at)
          // Checkpoints get enough time, so that most runs resume in the middle.
          for (let i = 0; i < (due === undefined ? 1 : 20); i++) await new Promise((resolve) => setImmediate(resolve))
          if (due !== undefined) {
            failures.delete(due)
            throw new Error('the source failed')
          }
          const read = await reader.read(batch)
          at += read?.values.length ?? 0
          return read
        },
      }
    },
  }
}

/** A restored record has its fields in another order. */
function text(results: readonly unknown[]): string[] {
  const sorted = (_: string, value: unknown) =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort())
      : value
  return results.map((result) => JSON.stringify(result, sorted)).sort()
}

it.each(allShapes)(
  'B7: $name gives what a plain loop gives, each result once, divided anew at every restart',
  async ({ draw, plain }) => {
    const rp = await open('memory:')
    let id = 0
    const failures = fc.uniqueArray(fc.nat(120), { maxLength: 4 })
    const numbers = { batch: fc.integer({ min: 1, max: 30 }), interval: fc.integer({ min: 1, max: 40 }) }
    const parallelism = fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 5, maxLength: 5 })
    await fc.assert(
      fc.asyncProperty(events, failures, numbers.batch, numbers.interval, parallelism, async (...drawnAs) => {
        const [all, places, batch, interval, scales] = drawnAs
        id += 1
        const out = collectSink<unknown>()
        const left = new Set(places)
        const drawn = pipeline('drawn', (p) => {
          const stream = p.from('events', failing(all, left, batch), { time: ({ at }) => at, outOfOrder: jitterMs })
          draw(stream.keyBy(({ key }) => key)).to('out', out)
        })
        for (let run = 0; ; run++) {
          const options = { id: String(id), checkpoint: { every: interval }, parallelism: scales[run]! }
          const ended = await rp
            .run(drawn, options)
            .result()
            .catch((error: Error) => error.message)
          if (typeof ended === 'object') break
          expect(ended).toBe('the source failed')
        }
        expect(text(out.values)).toEqual(text(plain(all)))
      }),
      { numRuns: Number(process.env.REPRISE_PIPELINE_CASES ?? 25) },
    )
    await rp.close()
  },
)
