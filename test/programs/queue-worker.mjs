// A process of a job over a queue of a real broker, killed from outside. Every start of an item is one line in a file outside the
// store: node queue-worker.mjs KIND PORT QUEUE HOLD_MS URL CONCURRENCY LEDGER

import { openSync, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { amqpQueue } from '../../lib/adapters/amqp/index.js'
import { kafkaQueue } from '../../lib/adapters/kafka/index.js'
import { natsQueue } from '../../lib/adapters/nats/index.js'
import { redisQueue } from '../../lib/adapters/redis/index.js'
import { sqsQueue } from '../../lib/adapters/sqs/index.js'
import { open } from '../../lib/index.js'
import { GiveUp, job, json } from '../../lib/layers/job/index.js'

const [kind, port, name, holdMs, url, concurrency, ledger] = process.argv.slice(2)
const file = openSync(ledger, 'a')
const reading = { decode: json(), untilEmptyFor: 2 * Number(holdMs), awayFor: '2m' }
const holdFor = Number(holdMs)
const queues = {
  sqs: () =>
    sqsQueue({
      ...{ url: `http://127.0.0.1:${port}/000000000000/${name}`, holdFor, ...reading },
      credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    }),
  amqp: () => amqpQueue({ url: `amqp://guest:guest@127.0.0.1:${port}`, queue: name, ...reading }),
  redis: () =>
    redisQueue({ url: `redis://127.0.0.1:${port}`, stream: name, group: 'test', holdFor, remove: true, ...reading }),
  kafka: () =>
    kafkaQueue({
      ...{ brokers: [`127.0.0.1:${port}`], topic: name, group: 'test', awayFor: '2m', decode: json() },
      untilEmptyFor: 2000,
    }),
  nats: () => natsQueue({ servers: `127.0.0.1:${port}`, stream: name, consumer: 'test', ...reading }),
}

const work = job(name, {
  source: queues[kind](),
  concurrency: Number(concurrency),
  retry: { attempts: 2, backoff: 1 },
  crashesMax: 1000,
  key: ({ id }) => id,
  each: async ({ id, isPoison }) => {
    writeSync(file, `${id}\n`)
    await sleep(Math.random() * 4)
    if (isPoison) throw new GiveUp('poison')
  },
})

const rp = await open(url, { lease: '3s' })
const report = await (await rp.run(work)).result()
await rp.close()
process.stdout.write(JSON.stringify(report))
