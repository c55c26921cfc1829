// A pipeline that is killed from outside: a generator, a window per key, and rows in the user's tables. It says READY when
// records flow, and DONE when it came to its end.
// node pipeline-killed.mjs '{"url": "sqlite:file.db", "records": 10000}'

import { setTimeout as sleep } from 'node:timers/promises'
import { open } from '../../dist/index.js'
import { generated, pipeline, rows, sum, tumbling } from '../../dist/layers/pipeline/index.js'

const { url, tables = '', records, takeover = false } = JSON.parse(process.argv[2])

/** A few records at a time, so that a kill finds it at work. */
function slowly(source) {
  return {
    async open(from, context) {
      const reader = await source.open(from, context)
      return {
        ...reader,
        partitions: () => reader.partitions(),
        published: async () => undefined,
        close: () => reader.close(),
        async read() {
          await sleep(1)
          return reader.read(20)
        },
      }
    },
  }
}

export const audited = pipeline('audited', (p) => {
  const numbers = p.from(
    'numbers',
    slowly(generated((n) => ({ n, at: n * 7 + ((n * 31) % 50) }), { count: records })),
    {
      time: ({ at }) => at,
      outOfOrder: 50,
    },
  )
  numbers.to(
    'seen',
    rows({
      table: `seen${tables}`,
      row: ({ n }) => ({ n }),
      setup: `CREATE TABLE IF NOT EXISTS seen${tables} (n BIGINT)`,
    }),
  )
  numbers
    .keyBy(({ n }) => `key-${n % 13}`)
    .window('per-second', tumbling('1s'))
    .aggregate(sum(({ n }) => n))
    .to(
      'totals',
      rows({
        table: `totals${tables}`,
        row: ({ key, start, value }) => ({ name: key, start_ms: start, total: value }),
        setup: `CREATE TABLE IF NOT EXISTS totals${tables} (name TEXT, start_ms BIGINT, total BIGINT)`,
      }),
    )
})

const rp = await open(url, { lease: '2s' })
const run = await rp.run(audited, {}, { checkpoint: { every: '15ms' }, takeover, wait: '20s' })
await run.started()
process.stdout.write('READY\n')
try {
  const report = await run.result()
  process.stdout.write(`DONE ${JSON.stringify(report)}\n`)
  await rp.close()
} catch (error) {
  process.stdout.write(`FAILED ${error.code}\n`)
  await rp.close().catch(() => undefined)
}
