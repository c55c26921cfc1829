// Nexmark's queries, run with failures and another parallelism at every restart, beside a plain evaluation in memory.

import { expect, it } from 'vitest'
import { event, events, type NexmarkEvent, type NexmarkQuery, queries } from '../../bench/support/nexmark.mjs'
import { open } from '../../src/index.ts'
import * as lib from '../../src/layers/pipeline/index.ts'

const count = 2100
const failsAt = [600, 1400]

/** Fails once at each of these places, after its checkpoints had their time. */
function failing(): lib.Source<NexmarkEvent> {
  const left = new Set(failsAt)
  const inner = lib.generated(event, { count })
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
          const read = await reader.read(100)
          at += read?.values.length ?? 0
          return read
        },
      }
    },
  }
}

type Results = readonly Readonly<Record<string, unknown>>[]

/** What is compared of the results of a query, in an order of its own. */
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

it.each(Object.keys(queries))(
  'Nexmark %s gives what a plain evaluation gives, over failures and rescaling',
  async (name) => {
    const query = queries[name]!
    const rp = await open('memory:')
    const out = lib.collect<Readonly<Record<string, unknown>>>()
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
        .run(drawn, {}, { parallelism, checkpoint: { every: 150 } })
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
