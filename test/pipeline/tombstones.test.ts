// Tombstones: a null in a stream with keys deletes the key. Every test compares with a plain loop over the same records.

import fc from 'fast-check'
import { afterAll, expect, inject, it } from 'vitest'
import { open } from '../../src/index.ts'
import {
  collectSink,
  count,
  every,
  json,
  type KeyedStream,
  keyValue,
  list,
  pipeline,
  rowSink,
  type Source,
  session,
  sliding,
  sum,
  tumbling,
  valueSource,
} from '../../src/layers/pipeline/index.ts'
import { newSchemaName, query } from '../support/schema.ts'
import { onEveryStore } from '../support/worlds.ts'

interface Change {
  readonly of: 'price' | 'order'
  readonly key: string
  readonly at: number
  readonly value: number | null
}

const changes = fc
  .array(
    fc.record({
      of: fc.constantFrom('price' as const, 'order' as const),
      key: fc.constantFrom('a', 'b', 'c'),
      value: fc.oneof({ weight: 2, arbitrary: fc.nat(9) }, { weight: 1, arbitrary: fc.constant(null) }),
    }),
    { minLength: 1, maxLength: 60 },
  )
  .map((all): Change[] => all.map((each, i) => ({ ...each, at: 1000 + i * 7 })))
const sizes = fc.array(fc.integer({ min: 1, max: 20 }), { maxLength: 10 })

/** Gives batches of these sizes, then one with the rest, and fails once before the batch of this number. */
function inBatches(all: readonly Change[], cuts: readonly number[], failBefore = -1): Source<Change> {
  let hasFailed = false
  return {
    async open(from) {
      let [at, turn] = [(from?.get('') as number | undefined) ?? 0, 0]
      return {
        partitions: () => [''],
        close: async () => undefined,
        read() {
          if (at === all.length) return null
          if (turn === failBefore && !hasFailed) {
            hasFailed = true
            throw new Error('the source is away')
          }
          const batch = all.slice(at, at + (cuts[turn++] ?? all.length))
          at += batch.length
          return { partition: '', values: batch, position: at }
        },
      }
    },
  }
}

it('joinLatest deletes a key at its tombstone, for every cut of batches and across a failure', async () => {
  const rp = await open('memory:')
  let id = 0
  const property = async (all: readonly Change[], cuts: readonly number[], failBefore: number) => {
    const plain: [string, number | null, number | undefined][] = []
    const prices = new Map<string, number>()
    for (const { of, key, value } of all) {
      if (of === 'order') plain.push([key, value, prices.get(key)])
      else if (value === null) prices.delete(key)
      else prices.set(key, value)
    }
    const out = collectSink<[string, number | null, number | undefined]>()
    const source = inBatches(all, cuts, failBefore)
    const drawn = pipeline('priced', (p) => {
      const read = p.from('changes', source)
      const price = read
        .filter(({ of }) => of === 'price')
        .keyBy(
          ({ key }) => key,
          ({ value }) => value,
        )
      const order = read.filter(({ of }) => of === 'order').keyBy(({ key }) => key)
      // The type of the right side has no null: a deleted key is undefined.
      order
        .joinLatest('price', price, ({ key, value }, found: number | undefined): (typeof plain)[number] => [
          key,
          value,
          found,
        ])
        .to('out', out)
    })
    id += 1
    const options = { id: String(id), checkpoint: { every: 1 } }
    await rp
      .run(drawn, options)
      .result()
      .catch(() => undefined)
    await rp.run(drawn, options).result()
    expect(out.values).toEqual(plain)
  }
  await fc.assert(fc.asyncProperty(changes, sizes, fc.integer({ min: -1, max: 6 }), property), { numRuns: 60 })
  await rp.close()
})

const gathering: Readonly<Record<string, (stream: KeyedStream<number | null>) => KeyedStream<unknown>>> = {
  count: (stream) => stream.aggregate('it', count()),
  sum: (stream) =>
    stream.aggregate(
      'it',
      sum((n) => n),
    ),
  tumbling: (stream) => stream.window('it', tumbling(30)).aggregate(list()),
  sliding: (stream) => stream.window('it', sliding(30, 10)).aggregate(sum((n) => n)),
  session: (stream) => stream.window('it', session(15)).aggregate(list()),
  every: (stream) => stream.window('it', every(3)).aggregate(list()),
  joinWindow: (stream) => stream.joinWindow('it', stream, tumbling(30), (a: number, b: number) => [a, b]),
  joinInterval: (stream) => stream.joinInterval('it', stream, { from: -9, to: 9 }, (a: number, b: number) => [a, b]),
}

it.each(Object.entries(gathering))('%s skips tombstones, for every cut of batches', async (_, draw) => {
  const rp = await open('memory:')
  let id = 0
  const results = async (all: readonly Change[], cuts: readonly number[]) => {
    const out = collectSink<unknown>()
    const drawn = pipeline('gathered', (p) => {
      const stream = p.from('changes', inBatches(all, cuts), { time: ({ at }) => at, outOfOrder: 0 }).keyBy(
        ({ key }) => key,
        ({ value }) => value,
      )
      draw(stream).to('out', out)
    })
    id += 1
    await rp.run(drawn, { id: String(id) }).result()
    return out.values
  }
  await fc.assert(
    fc.asyncProperty(changes, sizes, async (all, cuts) => {
      const present = all.filter(({ value }) => value !== null)
      // The end of a source closes open windows, so event time that only tombstones advanced changes no result.
      expect(await results(all, cuts)).toEqual(await results(present, Array(present.length).fill(1)))
    }),
    { numRuns: 25 },
  )
  await rp.close()
})

it('keyValue() passes a tombstone as null with its key; a record without a key is a dead letter, as is a tombstone for json()', async () => {
  const rp = await open('memory:')
  const bytes = (text: string | null) => (text === null ? null : new TextEncoder().encode(text))
  const records = [
    { key: bytes('a'), value: bytes('1') },
    { key: bytes('a'), value: null },
    { key: null, value: bytes('2') },
    { key: bytes('b'), value: bytes('no json') },
  ]
  const [changed, plain] = [collectSink<{ key: string; value: number | null }>(), collectSink<number>()]
  const drawn = pipeline('decoded', (p) => {
    p.from('changed', valueSource(records), { decode: keyValue(json<number>()) }).to('changed-out', changed)
    p.from('plain', valueSource(records), { decode: json<number>() }).to('plain-out', plain)
  })
  const run = await rp.run(drawn)
  await run.result()
  expect(changed.values).toEqual([
    { key: 'a', value: 1 },
    { key: 'a', value: null },
  ])
  expect(plain.values).toEqual([1, 2])
  const letters = (await run.deadLetters()).map(({ operator, error }) => [
    operator,
    error.replace(/ in JSON.*|, ".*/, ''),
  ])
  expect(letters.filter(([operator]) => operator === 'changed').map(([, error]) => error)).toEqual([
    'TypeError: the record has no key',
    expect.stringContaining('SyntaxError'),
  ])
  expect(letters.filter(([operator]) => operator === 'plain').map(([, error]) => error)).toEqual([
    'TypeError: the record has no value: it deletes its key; keyValue() reads such records',
    expect.stringContaining('SyntaxError'),
  ])
  await rp.close()
})

const table = `prices_${newSchemaName()}`
afterAll(() => query(inject('postgresUrl'), `DROP TABLE IF EXISTS ${table}`))

onEveryStore(
  'rows',
  (world) => {
    it('deletes the row of a tombstone, and of a result that `deletes` names, in the order of the results', async () => {
      const rp = await (await world()).engine()
      const setup = `CREATE TABLE IF NOT EXISTS ${table} (shop INTEGER, sku TEXT, cents INTEGER, PRIMARY KEY (shop, sku))`
      const many = Array.from({ length: 700 }, (_, i) => ({ key: `k${i}`, value: i as number | null }))
      const given = [
        ...many,
        ...many.slice(1).map(({ key }) => ({ key, value: null })),
        ...[
          { key: 'a', value: 1 },
          { key: 'a', value: null },
          { key: 'b', value: 2 },
          { key: 'b', value: null },
          { key: 'b', value: 3 },
          { key: 'never', value: null },
        ],
      ]
      const sink = { table, key: ['shop', 'sku'], setup }
      const drawn = pipeline(`priced-${table}`, (p) => {
        const read = p.from('changes', valueSource(given))
        read
          .keyBy(
            ({ key }) => key,
            ({ value }) => value,
          )
          .to('keyed', rowSink<number | null>({ ...sink, row: (cents, sku) => ({ shop: 1, sku, cents }) }))
        read.to(
          'named',
          rowSink<(typeof given)[number]>({
            ...sink,
            row: ({ key, value }) => ({ shop: 2, sku: key, cents: value }),
            deletes: ({ value }) => value === null || value === 3,
          }),
        )
      })
      expect((await rp.run(drawn).result()).status).toBe('completed')
      const found = await rp.sql(`SELECT shop, sku, cents FROM ${table} ORDER BY shop, sku`)
      expect(found.map(({ shop, sku, cents }) => [Number(shop), sku, Number(cents)])).toEqual([
        [1, 'b', 3],
        [1, 'k0', 0],
        [2, 'k0', 0],
      ])
    })
  },
  ['sqlite', 'postgres'],
)

it('rows refuses `deletes` without `key`', () => {
  const deletes = () => true
  expect(() => rowSink<number>({ table: 't', row: (n) => ({ n }), deletes })).toThrow(
    expect.objectContaining({ code: 'INVALID_ARGUMENT' }),
  )
})
