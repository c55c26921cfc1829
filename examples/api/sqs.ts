// Examples of `reprise/sqs`. They need a queue, and are compiled: test/queues/brokers.test.ts runs on a real server.

import { job, json, queueSource } from 'reprise/job'
import { sqsBroker, sqsQueue } from 'reprise/sqs'
import { example } from './example.ts'

interface Order {
  readonly id: string
}

declare function ship(order: Order, idempotencyKey: string): Promise<void>

export default [
  example(
    ['sqsQueue'],
    async (rp) => {
      const url = 'https://sqs.eu-west-1.amazonaws.com/123456789012/orders'
      const shipping = job('shipping', {
        source: sqsQueue({ url, decode: json<Order>(), holdFor: '1m' }),
        key: (order) => order.id,
        concurrency: 16,
        each: async (order, ctx) => await ship(order, ctx.idempotencyKey),
      })
      await rp.run(shipping, { signals: true }).result()
    },
    'compiled',
  ),
  example(
    ['sqsBroker'],
    async () => {
      const broker = sqsBroker({ url: 'https://sqs.eu-west-1.amazonaws.com/123456789012/orders' })
      queueSource(broker, { untilEmptyFor: '30s' })
    },
    'compiled',
  ),
]
