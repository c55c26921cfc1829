// A record takes effect as a whole or not at all. A function that throws anywhere leaves no state, no timer and no result
// behind; a redriven record acts as if it had arrived then for the first time.

import { expect, it } from 'vitest'
import { open, RetryLater } from '../../src/index.ts'
import {
  type Aggregation,
  carries,
  collectSink,
  every,
  type KeyedStream,
  listState,
  mapState,
  pipeline,
  reducingState,
  type Source,
  type Stream,
  session,
  sliding,
  tumbling,
  valueState,
} from '../../src/layers/pipeline/index.ts'

interface Item {
  readonly at: number
  readonly n: number
}

/** Gives these, waits until it may end, and ends. */
function gated(all: readonly Item[], mayEnd: Promise<unknown>): Source<Item> {
  return {
    async open(from) {
      let isRead = from !== null
      return {
        partitions: () => [''],
        close: async () => undefined,
        async read() {
          if (isRead) return await mayEnd.then(() => null)
          isRead = true
          return { partition: '', values: all, position: all.length }
        },
      }
    },
  }
}

/** Throws once for the number 3, at the so-manieth call for it. */
class Fault {
  #calls = 0
  readonly #at: number

  constructor(at: number) {
    this.#at = at
  }

  check(n: number): void {
    if (n === 3 && ++this.#calls === this.#at) throw new Error('three is bad')
  }
}

function summed(fault: Fault): Aggregation<Item, number, number> {
  return {
    initial: () => 0,
    add(total, { n }) {
      fault.check(n)
      return total + n
    },
    merge: (a, b) => a + b,
    result: (total) => total,
  }
}

/** Changes its accumulator in place, as `copy` allows. */
function listed(fault: Fault): Aggregation<Item, number[], readonly number[]> {
  return {
    initial: () => [],
    add(all, { n }) {
      fault.check(n)
      all.push(n)
      return all
    },
    merge: (a, b) => [...a, ...b],
    result: (all) => [...all],
    copy: (all) => [...all],
  }
}

type Shape = (keyed: KeyedStream<Item>, fault: Fault, all: Stream<Item>) => Stream<unknown>

function inProcess(throwAt: 'end' | 'later'): Shape {
  return (keyed, fault) => {
    const processed = keyed.process('p', {
      emits: carries<unknown>(),
      sides: { odd: carries<unknown>() },
      state: {
        value: valueState<number>(),
        cleared: valueState<number>(),
        brief: valueState<number>({ ttl: '1h' }),
        list: listState<number>(),
        briefList: listState<number>({ ttl: '1h' }),
        map: mapState<number>(),
        total: reducingState<number>((a, b) => a + b),
      },
      onRecord({ n, at }: Item, { state, emit, side, setTimer, deleteTimer }) {
        fault.check(n)
        state.value.set((state.value.get() ?? 0) + n)
        if (n === 3) state.cleared.clear()
        else state.cleared.set(n)
        state.brief.set(n)
        state.list.add(n)
        state.list.add(-n)
        state.briefList.add(n)
        state.briefList.add(-n)
        state.map.set('last', n)
        state.map.set(`of ${n}`, n)
        state.map.delete('of 1')
        state.total.add(n)
        setTimer(at + 1000)
        if (n === 3) deleteTimer(1001)
        emit(['result', n])
        side('odd', ['side', n])
        try {
          fault.check(n)
        } catch (error) {
          throw throwAt === 'later' ? new RetryLater(1) : error
        }
      },
      onTimer(time, { state, emit }) {
        const { value, cleared, list, briefList, map, total } = state
        const maps = [...map.entries()].sort()
        emit([time, value.get(), cleared.get() ?? null, list.get(), briefList.get(), maps, total.get()])
      },
    })
    return processed.union(processed.side('odd'))
  }
}

/** By name: the shape, and at which call for the record it throws. */
const shapes: readonly (readonly [string, Shape, number])[] = [
  ['process', inProcess('end'), 2],
  ['process that asks for later', inProcess('later'), 2],
  ['running', (keyed, fault) => keyed.aggregate('a', summed(fault)), 1],
  [
    'running, whose result throws',
    (keyed, fault) => {
      const result = (total: number) => {
        fault.check(total === 6 ? 3 : 0)
        return total
      }
      return keyed.aggregate('a', { ...summed(new Fault(0)), result })
    },
    1,
  ],
  ['tumbling', (keyed, fault) => keyed.window('w', tumbling(1000)).aggregate(summed(fault)), 1],
  ['sliding, in its second window', (keyed, fault) => keyed.window('w', sliding(30, 10)).aggregate(summed(fault)), 2],
  ['sliding in place', (keyed, fault) => keyed.window('w', sliding(30, 10)).aggregate(listed(fault)), 3],
  ['session', (keyed, fault) => keyed.window('w', session(20)).aggregate(summed(fault)), 1],
  ['session in place', (keyed, fault) => keyed.window('w', session(20)).aggregate(listed(fault)), 1],
  ['count', (keyed, fault) => keyed.window('w', every(4)).aggregate(listed(fault)), 1],
  [
    'flatMap',
    (_keyed, fault, all) =>
      all.flatMap(function* ({ n }) {
        yield n
        fault.check(n)
        yield -n
      }),
    1,
  ],
  [
    'joinLatest',
    (keyed, fault) =>
      keyed.joinLatest('j', keyed, (a, b) => {
        fault.check(a.n)
        return [a.n, b === undefined]
      }),
    1,
  ],
]

async function results(shape: Shape, items: readonly Item[], at: number | null) {
  const rp = await open('memory:')
  const out = collectSink<unknown>()
  let end: () => void = () => undefined
  const mayEnd = new Promise<void>((resolve) => {
    end = resolve
  })
  const drawn = pipeline('tried', (p) => {
    const all = p.from('items', gated(items, mayEnd), { time: (item) => item.at, outOfOrder: 500 })
    shape(
      all.keyBy(() => 'k'),
      new Fault(at ?? 0),
      all,
    ).to('out', out)
  })
  const run = await rp.run(drawn, { checkpoint: { every: 1 } }).started()
  while (run.status().records < items.length) await new Promise((resolve) => setTimeout(resolve, 1))
  const letters = await run.deadLetters()
  await run.redrive()
  end()
  await run.result()
  await rp.close()
  return { out: out.values, letters: letters.length }
}

it.each(shapes)('%s: a record that threw leaves nothing behind, and is sent back whole', async (name, shape, at) => {
  const items = [1, 2, 3, 4].map((n) => ({ n, at: n }))
  const last = [...items.filter(({ n }) => n !== 3), items[2]!]
  const wanted = await results(shape, last, null)
  const tried = await results(shape, items, at)
  expect(tried.letters).toBe(name.includes('later') ? 0 : 1)
  expect(tried.out).toEqual(wanted.out)
})
