// A pipeline from Kafka to Kafka that is killed from outside: it counts records by key, and writes each count. It prints READY
// when records flow, MADE when a checkpoint is made, and DONE when all of them were counted. node kafka-killed.mjs '{"url":
// "sqlite:file.db", "brokers": [], "from": "a", "to": "b", "total": 10}'

import { setTimeout as sleep } from 'node:timers/promises'
import { kafkaSink, kafkaSource } from '../../lib/adapters/kafka/index.js'
import { open } from '../../lib/index.js'
import { count, json, pipeline } from '../../lib/layers/pipeline/index.js'

const { url, brokers, from, to, total, every = '20ms' } = JSON.parse(process.argv[2])

/** A few records at a time, so that a kill finds it at work; and it ends when all of them were read. */
function slowly(source) {
  return {
    async open(from, context) {
      const reader = await source.open(from, context)
      const positions = new Map(from)
      const isAtEnd = () => reader.partitions().every((name) => (positions.get(name) ?? 0) >= total / 2)
      return {
        partitions: () => reader.partitions(),
        close: () => reader.close(),
        async read() {
          if (isAtEnd()) return null
          await sleep(1)
          const batch = await reader.read(10)
          if (batch) positions.set(batch.partition, batch.position)
          return batch
        },
      }
    },
  }
}

const counted = pipeline('counted', (p) => {
  p.from('numbers', slowly(kafkaSource({ brokers, topic: from })), { decode: json() })
    .keyBy((n) => n % 7)
    .aggregate('per-key', count())
    .to(
      'counts',
      kafkaSink({
        ...{ brokers, topic: to, transactionalId: `counted-${to}` },
        message: ({ key, value }) => ({ key: String(key), value: String(key * 10_000_000 + value) }),
      }),
    )
})

const rp = await open(url, { lease: '2s' })
const run = await rp.run(counted, { checkpoint: { every }, wait: '2m' })
await run.started()
process.stdout.write('READY\n')
// Those of earlier processes are known as well.
const newest = () => run.status().checkpoints.recent.at(-1)?.checkpoint
const before = newest()
const watch = setInterval(() => {
  if (newest() === before) return
  process.stdout.write('MADE\n')
  clearInterval(watch)
}, 2)
watch.unref()
try {
  const { status } = await run.result()
  await rp.close()
  process.stdout.write(`${status.toUpperCase()}\n`)
} catch (error) {
  process.stdout.write(`FAILED ${error.stack}\n`)
  // The parent waits for its end, which must not depend on connections that stay open.
  await rp.close().catch(() => undefined)
  process.exitCode = 1
}
