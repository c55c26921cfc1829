// Examples of `reprise/redis`. They need a server, and are compiled: test/queues/brokers.test.ts runs on a real one.

import { job, json, queueSource } from 'reprise/job'
import { redisBroker, redisQueue } from 'reprise/redis'
import { example } from './example.ts'

interface Order {
  readonly id: string
}

declare function ship(order: Order, idempotencyKey: string): Promise<void>

export default [
  example(
    ['redisQueue'],
    async (rp) => {
      const shipping = job('shipping', {
        source: redisQueue({
          url: 'redis://localhost',
          stream: 'orders',
          group: 'shipping',
          decode: json<Order>(),
        }),
        key: (order) => order.id,
        concurrency: 16,
        each: async (order, ctx) => await ship(order, ctx.idempotencyKey),
      })
      await rp.run(shipping, { signals: true }).result()
    },
    'compiled',
  ),
  example(
    ['redisBroker'],
    async () => {
      const broker = redisBroker({ url: 'redis://localhost', stream: 'orders', group: 'shipping' })
      queueSource(broker, { untilEmptyFor: '30s' })
    },
    'compiled',
  ),
]
