// A pipeline that joins numbers with a row of a table that another process changes, and is killed from outside.
// node pipeline-joined.mjs '{"url": "sqlite:file.db", "records": 10000}'

import { setTimeout as sleep } from 'node:timers/promises'
import { open } from '../../lib/index.js'
import { generatedSource, pipeline, rowSink } from '../../lib/layers/pipeline/index.js'
import { table } from '../../lib/layers/table/index.js'

const { url, records } = JSON.parse(process.argv[2])
const numbers = generatedSource((n) => n, { count: records })

/** A few at a time, so that a kill finds it at work. */
const slowly = {
  async open(from, context) {
    const reader = await numbers.open(from, context)
    return {
      partitions: () => reader.partitions(),
      close: () => reader.close(),
      async read() {
        await sleep(1)
        return reader.read(10)
      },
    }
  },
}

const joined = pipeline('joined', (p) => {
  p.from('numbers', slowly)
    .joinTable(
      table('settings'),
      () => 'current',
      (n, version) => ({ n, version }),
    )
    .to(
      'seen',
      rowSink({
        table: 'seen',
        row: ({ n, version }) => ({ n, version }),
        setup: 'CREATE TABLE IF NOT EXISTS seen (n BIGINT, version BIGINT)',
      }),
    )
})

const rp = await open(url)
const run = await rp.run(joined, { checkpoint: { every: '30ms' }, wait: '30s' }).started()
console.log('READY')
console.log(`DONE ${JSON.stringify(await run.result())}`)
await rp.close()
