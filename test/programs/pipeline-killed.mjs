// Pipelines that are killed from outside, several in one process: each a generator, a window per key, and rows in the user's
// tables. It prints READY when records flow in all of them, and DONE when all have ended. node pipeline-killed.mjs '{"url":
// "sqlite:file.db", "records": 10000, "pipelines": 5}'

import { openSync, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { open } from '../../lib/index.js'
import { generatedSource, pipeline, rowSink, sendSink, sum, tumbling } from '../../lib/layers/pipeline/index.js'

const { url, tables: suffix = '', records, pipelines, sent } = JSON.parse(process.argv[2])

/** Where calls to the outside are noted, with their keys: the first pipeline sends some of its records, too. */
const calls = sent ? openSync(sent, 'a') : null

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

const audited = (number) =>
  pipeline(`audited-${number}`, (p) => {
    const tables = `_${number}${suffix}`
    const numbers = p.from(
      'numbers',
      slowly(generatedSource((n) => ({ n, at: n * 7 + ((n * 31) % 50) }), { count: records })),
      {
        time: ({ at }) => at,
        outOfOrder: 50,
      },
    )
    numbers.to(
      'seen',
      rowSink({
        table: `seen${tables}`,
        row: ({ n }) => ({ n }),
        setup: `CREATE TABLE IF NOT EXISTS seen${tables} (n BIGINT)`,
      }),
    )
    if (calls !== null && number === 0) {
      numbers
        .filter(({ n }) => n % 5 === 0)
        .to(
          'sent',
          sendSink(({ n }, { key }) => void writeSync(calls, `${key} ${n}\n`)),
        )
    }
    numbers
      .keyBy(({ n }) => `key-${n % 13}`)
      .window('per-second', tumbling('1s'))
      .aggregate(sum(({ n }) => n))
      .to(
        'totals',
        rowSink({
          table: `totals${tables}`,
          row: ({ key, start, value }) => ({ name: key, start_ms: start, total: value }),
          setup: `CREATE TABLE IF NOT EXISTS totals${tables} (name TEXT, start_ms BIGINT, total BIGINT)`,
        }),
      )
  })

const rp = await open(url, { lease: '2s' })
// They meet a kill in different places: their checkpoints do not lie together.
const runs = Array.from({ length: pipelines }, (_, number) =>
  rp.run(audited(number), { checkpoint: { every: `${10 + 7 * number}ms` }, wait: '20s' }),
)
try {
  await Promise.all(runs.map((run) => run.started()))
  process.stdout.write('READY\n')
  const reports = await Promise.all(runs.map((run) => run.result()))
  process.stdout.write(`DONE ${JSON.stringify(reports.map(({ status }) => status))}\n`)
  await rp.close()
} catch (error) {
  process.stdout.write(`FAILED ${error.code}\n`)
  await rp.close().catch(() => undefined)
}
