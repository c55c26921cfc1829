// Nexmark's queries, run with failures and another parallelism at every restart, beside a plain evaluation in memory.

import { expect, it } from 'vitest'
import { generator, type NexmarkEvent, type NexmarkQuery, queries } from '../../bench/support/nexmark.mjs'
import { open } from '../../src/index.ts'
import * as lib from '../../src/layers/pipeline/index.ts'

const count = 4000
const failsAt = [1100, 2700]
/** Slower than published, so that few events fill several windows. */
const { event, events } = generator(100)

/** Fails once at each of these places, after its checkpoints had their time. */
function failing(): lib.Source<NexmarkEvent> {
  const left = new Set(failsAt)
  const inner = lib.generatedSource(event, { count })
  return {
    async open(from, context) {
      const reader = await inner.open(from, context)
      let at = Number(from?.get('') ?? 0)
      return {
        ...{ partitions: () => reader.partitions(), close: () => reader.close() },
        async read() {
          const due = [...left].find((place) => place <= at)
          for (let i = 0; i < (due === undefined ? 1 : 20); i++) await new Promise((resolve) => setImmediate(resolve))
          if (due !== undefined) {
            left.delete(due)
            throw new Error('the source failed')
          }
          const read = await reader.read(300)
          at += read?.values.length ?? 0
          return read
        },
      }
    },
  }
}

type Results = readonly Readonly<Record<string, unknown>>[]

/** The compared part of the results of a query, sorted. */
function compared({ last, sums }: NexmarkQuery, results: Results): string[] {
  if (sums) {
    const totals = new Map<unknown, number>()
    for (const [key, value] of results.map(sums)) totals.set(key, (totals.get(key) ?? 0) + value)
    return texts([...totals].map(([key, value]) => ({ key, value })))
  }
  return texts(last ? [...new Map(results.map((result) => [last(result), result])).values()] : results)
}

function texts(results: Results): string[] {
  return results.map((result) => JSON.stringify(Object.fromEntries(Object.entries(result).sort()))).sort()
}

it('Nexmark has the published proportions', () => {
  const all = generator().events(50_000) as (NexmarkEvent & Readonly<Record<string, number>>)[]
  const of = (kind: NexmarkEvent['kind']) => all.filter((each) => each.kind === kind)
  expect([of('person').length, of('auction').length, of('bid').length]).toEqual([1000, 3000, 46_000])
  expect(all.at(-1)!.at - all[0]!.at).toBe(4999)
  const share = (some: readonly unknown[], every: readonly unknown[]) => Math.round((100 * some.length) / every.length)
  // Half of the bids are for the hot auctions, three quarters by the hot bidders, three quarters of auctions by hot sellers.
  expect(
    share(
      of('bid').filter(({ auction }) => auction! % 100 === 0),
      of('bid'),
    ),
  ).toBeGreaterThanOrEqual(50)
  expect(
    share(
      of('bid').filter(({ auction }) => auction! % 100 === 0),
      of('bid'),
    ),
  ).toBeLessThan(53)
  expect(
    share(
      of('bid').filter(({ bidder }) => bidder! % 100 === 1),
      of('bid'),
    ),
  ).toBeGreaterThanOrEqual(74)
  expect(
    share(
      of('auction').filter(({ seller }) => seller! % 100 === 0),
      of('auction'),
    ),
  ).toBeGreaterThanOrEqual(74)
  // Some bids come before their auction, and prices are even by their digits.
  const known = new Map(of('auction').map((each) => [each.id, each.at]))
  expect(of('bid').some(({ auction, at }) => (known.get(auction!) ?? Number.POSITIVE_INFINITY) > at)).toBe(true)
  const dear = of('bid').filter(({ price }) => price! >= 100_000)
  expect(share(dear, of('bid'))).toBeGreaterThanOrEqual(49)
  expect(share(dear, of('bid'))).toBeLessThanOrEqual(51)
})

it('q7 gives every bid that shares the highest price, and q8 each new seller once', () => {
  const bid = (price: number, bidder: number) => ({ kind: 'bid', at: 1_000_000, auction: 1, bidder, price }) as never
  expect(queries.q7!.plain([bid(5, 1), bid(9, 2), bid(9, 3)])).toHaveLength(2)
  const found = queries.q8!.plain(events(count)).map(({ id, start }) => `${id} ${start}`)
  expect(new Set(found).size).toBe(found.length)
})

it.each(Object.keys(queries))(
  'Nexmark %s gives what a plain evaluation gives, over failures and rescaling',
  async (name) => {
    const query = queries[name]!
    const rp = await open('memory:')
    const out = lib.collectSink<Readonly<Record<string, unknown>>>()
    const source = failing()
    const drawn = lib.pipeline(name, (p) => {
      const all = p.from('events', source, {
        time: query.time?.bind(query) ?? (({ at }) => at),
        outOfOrder: query.time ? '1m' : 0,
      })
      query.draw(lib, all).to('out', out)
    })
    const wanted = compared(query, query.plain(events(count)))
    for (let run = 0; ; run++) {
      // The last ten of a seller are in the order of time, which only one instance keeps.
      const parallelism = name === 'q6' ? 1 : [3, 1, 4][run % 3]!
      const ended = await rp
        .run(drawn, { parallelism, checkpoint: { every: 400 } })
        .result()
        .catch((error: Error) => error.message)
      if (typeof ended === 'object') break
      expect(ended).toBe('the source failed')
    }
    expect(wanted.length).toBeGreaterThan(2)
    expect(compared(query, out.values)).toEqual(wanted)
    await rp.close()
  },
)
