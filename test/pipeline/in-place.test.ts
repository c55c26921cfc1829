// Functions that change a value in place instead of replacing it stop the pipeline with a code: otherwise a dead letter would
// leave partial changes, and a checkpoint in progress would contain later records.

import { afterEach, beforeEach, expect, it } from 'vitest'
import { open, type Reprise } from '../../src/index.ts'
import {
  type Aggregation,
  carries,
  collectSink,
  type KeyedStream,
  mapState,
  pipeline,
  reducingState,
  type Stream,
  session,
  sliding,
  tumbling,
  valueSource,
  valueState,
} from '../../src/layers/pipeline/index.ts'

interface Item {
  readonly n: number
  readonly at: number
}
interface All {
  readonly list: number[]
}
type Added = Aggregation<Item, All, readonly number[]>
type Shape = (keyed: KeyedStream<Item>, add: Added) => Stream<unknown>

let rp: Reprise
beforeEach(async () => {
  rp = await open('memory:')
})
afterEach(() => rp.close())

const items = Array.from({ length: 300 }, (_, i): Item => ({ n: i + 1, at: i * 10 }))
const unchanged: Omit<Added, 'add'> = {
  initial: () => ({ list: [] }),
  merge: (a, b) => ({ list: [...a.list, ...b.list] }),
  result: ({ list }) => [...list],
}
const replaces = ({ list }: All, { n }: Item): All => ({ list: [...list, n] })
const changes = (all: All, { n }: Item): All => {
  all.list.push(n)
  return all
}

async function run(shape: Shape, aggregation: Added = { ...unchanged, add: replaces }) {
  const out = collectSink<unknown>()
  const drawn = pipeline('p', (p) => {
    shape(
      p.from('items', valueSource(items), { time: ({ at }) => at }).keyBy(() => 'k'),
      aggregation,
    ).to('out', out)
  })
  const { deadLetters } = await rp.run(drawn).result()
  return { deadLetters, last: out.values.at(-1) }
}

const aggregates: Record<string, Shape> = {
  aggregate: (keyed, add) => keyed.aggregate('a', add),
  tumbling: (keyed, add) => keyed.window('w', tumbling('1h')).aggregate(add),
  sliding: (keyed, add) => keyed.window('w', sliding('2h', '1h')).aggregate(add),
  session: (keyed, add) => keyed.window('w', session('1h')).aggregate(add),
}

for (const [name, shape] of Object.entries(aggregates)) {
  const refused = (message: RegExp) =>
    expect.objectContaining({ code: 'INVALID_ARGUMENT', message: expect.stringMatching(message) })

  it(`${name}: an accumulator that is changed in place stops the pipeline`, async () => {
    await expect(run(shape, { ...unchanged, add: changes })).rejects.toEqual(
      refused(/^add of \w+ changed its accumulator in place: return a new one, or declare copy/),
    )
  })

  it(`${name}: one that is changed only before a failure stops it too`, async () => {
    const add = (all: All, item: Item) => {
      if (item.n === 40) all.list.push(0)
      if (item.n >= 39 && item.n <= 40) throw new Error('forty is bad')
      return replaces(all, item)
    }
    await expect(run(shape, { ...unchanged, add })).rejects.toEqual(refused(/threw after it changed its accumulator/))
  })

  it(`${name}: with copy it may change, and with a new accumulator a dead letter leaves nothing`, async () => {
    const expected = items.map(({ n }) => n)
    const copy = ({ list }: All) => ({ list: [...list] })
    const changed = await run(shape, { ...unchanged, add: changes, copy })
    expect(changed.last).toMatchObject({ value: expected })
    await rp.close()
    rp = await open('memory:')
    const add = (all: All, item: Item) => {
      if (item.n % 100 === 3) throw new Error('bad')
      return replaces(all, item)
    }
    const replaced = await run(shape, { ...unchanged, add })
    expect(replaced.deadLetters).toBe(3)
    expect(replaced.last).toMatchObject({ value: expected.filter((n) => n % 100 !== 3) })
  })
}

const states: Record<string, Shape> = {
  'valueState()': (keyed) =>
    keyed.process('p', {
      emits: carries<unknown>(),
      state: { seen: valueState<All>() },
      onRecord({ n }, { state }) {
        const seen = state.seen.get() ?? { list: [] }
        seen.list.push(n)
        state.seen.set(seen)
      },
    }),
  'mapState()': (keyed) =>
    keyed.process('p', {
      emits: carries<unknown>(),
      state: { seen: mapState<All>() },
      onRecord({ n }, { state }) {
        const seen = state.seen.get('x') ?? { list: [] }
        seen.list.push(n)
        if (n === 3) throw new Error('three is bad')
        state.seen.set('x', seen)
      },
    }),
  'reducingState()': (keyed) =>
    keyed.process('p', {
      emits: carries<unknown>(),
      state: {
        seen: reducingState<All>((a, b) => {
          a.list.push(...b.list)
          return a
        }),
      },
      onRecord: ({ n }, { state }) => void state.seen.add({ list: [n] }),
    }),
}

for (const [name, shape] of Object.entries(states)) {
  it(`a value of ${name} that is changed in place stops the pipeline`, async () => {
    await expect(run(shape)).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringMatching(/^onRecord of p changed a value of the state seen in place: set a new value/),
    })
  })
}

it('an async generator where a function must return at once stops the pipeline', async () => {
  async function* later({ n }: Item) {
    yield n
  }
  // @ts-expect-error: it must return an iterable
  await expect(run((keyed) => keyed.flatMap(later))).rejects.toMatchObject({ code: 'ASYNC_CALLBACK' })
})
