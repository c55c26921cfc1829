// One of several processes that share a pipeline by its partitions, and are killed from outside. It prints READY when it works,
// and DONE when every task has ended. node pipeline-shared.mjs '{"url": "sqlite:file.db", "records": 300, "partitions": 4}'

import { setTimeout as sleep } from 'node:timers/promises'
import { open } from '../../lib/index.js'
import { carries, generatedSource, pipeline, rowSink, valueState } from '../../lib/layers/pipeline/index.js'

const { url, records, partitions } = JSON.parse(process.argv[2])

/** A few records at a time, so that a kill finds it at work. */
function slowly(source) {
  return {
    partitions: (context) => source.partitions(context),
    async open(from, context) {
      const reader = await source.open(from, context)
      return {
        partitions: () => reader.partitions(),
        close: () => reader.close(),
        async read() {
          await sleep(2)
          return reader.read(7)
        },
      }
    },
  }
}

const shared = pipeline(
  'shared',
  (p) => {
    p.from('numbers', slowly(generatedSource((n, partition) => ({ n, partition }), { count: records, partitions })), {
      keyed: true,
    })
      .keyBy(({ n, partition }) => `${partition}/${n % 5}`)
      .process('numbered', {
        emits: carries(),
        state: { count: valueState() },
        onRecord({ n, partition }, { state, emit }) {
          const nth = (state.count.get() ?? 0) + 1
          state.count.set(nth)
          emit({ n, partition, nth })
        },
      })
      .to(
        'seen',
        rowSink({
          table: 'seen',
          row: ({ n, partition, nth }) => ({ n, part: partition, nth }),
          setup: 'CREATE TABLE IF NOT EXISTS seen (n BIGINT, part BIGINT, nth BIGINT)',
        }),
      )
  },
  { checkpoint: { every: '15ms' } },
)

const rp = await open(url)
rp.work([shared])
process.stdout.write('READY\n')
const tasks = Array.from({ length: partitions }, (_, i) => `pipeline/shared/@${i}`)
while (!(await Promise.all(tasks.map((id) => rp.head(id)))).every((head) => head?.status === 'completed'))
  await sleep(20)
await rp.close()
process.stdout.write('DONE\n')
