// A function of a pipeline that must return its result at once refuses a promise by name, in the compiler and at run time:
// the run fails, and no record is lost, passed or stored as a promise.

import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { open, timeline } from '../../src/index.ts'
import {
  average,
  carries,
  collectSink,
  every,
  type FromOptions,
  fileSink,
  generatedSource,
  type KeyedStream,
  max,
  min,
  type PipelineBuilder,
  pipeline,
  printSink,
  reduce,
  reducingState,
  rowSink,
  type Stream,
  session,
  sliding,
  sum,
  tableSink,
  timelineSink,
  tumbling,
  valueSource,
  valueState,
} from '../../src/layers/pipeline/index.ts'
import { table } from '../../src/layers/table/index.ts'
import { newFolder, removeFolder } from '../crash/support.ts'

interface Item {
  readonly at: number
  readonly n: number
}

const items: readonly Item[] = [1, 2, 3].map((n) => ({ at: n * 10, n }))
const out = collectSink<unknown>()

/** Each draws one async function, and names it as the refusal does. */
const drawings: Record<string, (p: PipelineBuilder) => void> = {}

function drawing(
  place: string,
  draw: (keyed: KeyedStream<Item>, all: Stream<Item>, p: PipelineBuilder) => Stream<unknown>,
) {
  drawings[place] = (p) => {
    const all = p.from('items', valueSource(items), { time: ({ at }) => at })
    draw(
      all.keyBy(() => 'k'),
      all,
      p,
    ).to('out', out)
  }
}

// @ts-expect-error: refused by the compiler
drawing('map#1', (_, all) => all.map(async ({ n }) => n))
// @ts-expect-error: refused by the compiler
drawing('filter#1', (_, all) => all.filter(async () => false))
// @ts-expect-error: refused by the compiler
drawing('flatMap#1', (_, all) => all.flatMap(async ({ n }) => [n]))
// @ts-expect-error: refused by the compiler
drawing('keyBy#2', (_, all) => all.keyBy(async () => 'k'))
drawing('the function of sum()', (keyed) =>
  keyed.aggregate(
    'a',
    // @ts-expect-error: refused by the compiler
    sum(async ({ n }: Item) => n),
  ),
)
// @ts-expect-error: refused by the compiler
drawing('the function of min()', (keyed) => keyed.window('w', tumbling(10)).aggregate(min(async ({ n }: Item) => n)))
// @ts-expect-error: refused by the compiler
drawing('the function of max()', (keyed) => keyed.window('w', sliding(20, 10)).aggregate(max(async ({ n }: Item) => n)))
drawing('the function of average()', (keyed) =>
  // @ts-expect-error: refused by the compiler
  keyed.window('w', session(10)).aggregate(average(async ({ n }: Item) => n)),
)
drawing('the function of reduce()', (keyed) =>
  keyed.aggregate(
    'a',
    // @ts-expect-error: refused by the compiler
    reduce<Item>(async (a, b) => (a.n > b.n ? a : b)),
  ),
)
const whole = { initial: () => 0, merge: (a: number, b: number) => a + b, result: (total: number) => total }
// @ts-expect-error: refused by the compiler
drawing('add of a', (keyed) => keyed.aggregate('a', { ...whole, add: async (total: number, { n }: Item) => total + n }))
drawing('result of w', (keyed) =>
  keyed
    .window('w', every(2))
    .aggregate({ ...whole, add: (total, { n }: Item) => total + n, result: async (total) => total }),
)
// @ts-expect-error: refused by the compiler
drawing('j', (keyed) => keyed.joinLatest('j', keyed, async ({ n }) => n))
// @ts-expect-error: refused by the compiler
drawing('j2', (keyed) => keyed.joinWindow('j2', keyed, tumbling(10), async ({ n }) => n))
// @ts-expect-error: refused by the compiler
drawing('j3', (keyed) => keyed.joinInterval('j3', keyed, { from: -5, to: 5 }, async ({ n }) => n))
// @ts-expect-error: refused by the compiler
drawing('j4', (keyed) => keyed.joinChanges('j4', keyed, async ({ n }) => n))
drawing('onRight of p', (keyed) =>
  keyed.processBoth('p', keyed, {
    onLeft: () => undefined,
    // @ts-expect-error: refused by the compiler
    async onRight({ n }: Item, { emit }) {
      emit(n)
    },
  }),
)
drawing('b', (keyed, all) =>
  keyed.broadcast(
    'b',
    all,
    reduce<Item>((_, b) => b),
    // @ts-expect-error: refused by the compiler
    async ({ n }) => n,
  ),
)
drawing('onRecord of p', (keyed) =>
  keyed.process('p', {
    state: { seen: valueState<number>() },
    // @ts-expect-error: refused by the compiler
    async onRecord({ n }: Item, { state, emit }) {
      state.seen.set(n)
      emit(n)
    },
  }),
)
drawing('onTimer of p', (keyed) =>
  keyed.process('p', {
    onRecord: ({ at }: Item, { setTimer }) => setTimer(at),
    // @ts-expect-error: refused by the compiler
    async onTimer(_time, { emit }) {
      emit(1)
    },
  }),
)
drawing('the function of reducingState()', (keyed) =>
  keyed.process('p', {
    // @ts-expect-error: refused by the compiler
    state: { total: reducingState<number>(async (a, b) => a + b) },
    onRecord: ({ n }: Item, { state }) => state.total.add(n),
  }),
)

/** Rejections of promises that are refused must not end the process. */
const refusal = async (): Promise<never> => Promise.reject(new Error('a refused promise'))
drawing('flatMap#1 ', (_, all) => all.flatMap(({ n }) => [n, refusal(), refusal()]))
drawing('emit of p', (keyed) =>
  keyed.process('p', {
    onRecord: (_item: Item, { emit }) => emit(refusal()),
  }),
)
drawing('side other of p', (keyed) =>
  keyed.process('p', {
    sides: { other: carries<unknown>() },
    onRecord: (_item: Item, { side }) => side('other', refusal()),
  }),
)

function sourceOf(options: FromOptions<Item, unknown>): (p: PipelineBuilder) => void {
  return (p) => void p.from('items', valueSource(items), options as FromOptions<Item, Item>).to('out', out)
}
// @ts-expect-error: refused by the compiler
drawings['time of items'] = sourceOf({ time: async () => 1 })
drawings['decode of items'] = (p) => {
  // @ts-expect-error: refused by the compiler
  const decoded = p.from('items', valueSource(items), { decode: async ({ n }) => n })
  decoded.to('out', out)
}
drawings['the function of generatedSource()'] = (p) => {
  const made = p.from(
    'items',
    // @ts-expect-error: refused by the compiler
    generatedSource(async (n: number) => n, { count: 3 }),
  )
  made.to('out', out)
}

const folder = newFolder()
afterAll(() => removeFolder(folder))
const rowsOf = table<number>('totals')
const journal = timeline<number, { readonly type: string }>('journal', {
  initial: () => 0,
  apply: (state) => state + 1,
})
drawings['line of fileSink()'] = (p) =>
  // @ts-expect-error: refused by the compiler
  p.from('items', valueSource(items)).to('out', fileSink({ folder, line: async () => 'x' }))
drawings['the function of printSink()'] = (p) =>
  p.from('items', valueSource(items)).to(
    'out',
    // @ts-expect-error: refused by the compiler
    printSink<Item>(async () => 'x'),
  )
drawings['row of rowSink()'] = (p) =>
  p.from('items', valueSource(items)).to(
    'out',
    rowSink<Item>({
      table: 'made',
      setup: 'CREATE TABLE IF NOT EXISTS made (n INTEGER)',
      // @ts-expect-error: refused by the compiler
      row: async ({ n }) => ({ n }),
    }),
  )
drawings['write of tableSink()'] = (p) =>
  p.from('items', valueSource(items)).to(
    'out',
    // @ts-expect-error: refused by the compiler
    tableSink({ table: rowsOf, write: async (tx, { n }: Item) => void tx.set('k', n) }),
  )
drawings['entry of timelineSink()'] = (p) =>
  p.from('items', valueSource(items)).to(
    'out',
    // @ts-expect-error: refused by the compiler
    timelineSink({ timeline: journal, id: () => 'k', entry: async () => ({ type: 'x' }) }),
  )

it.each(Object.entries(drawings))('%s refuses an async function by name', async (title, draw) => {
  const place = title.trim()
  const rp = await open(place === 'row of rowSink()' ? `sqlite:${join(folder, 'rows.db')}` : 'memory:')
  const failure: unknown = await rp
    .run(pipeline('tried', draw), {})
    .result()
    .catch((error: unknown) => error)
  const causes: unknown[] = []
  for (let at = failure; at instanceof Error; at = at.cause) causes.push(at)
  expect(causes).toContainEqual(
    expect.objectContaining({ code: 'ASYNC_CALLBACK', data: { place, instead: expect.stringContaining('use ') } }),
  )
  expect(out.values).toEqual([])
  await rp.close()
})
