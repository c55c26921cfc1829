// Examples of `reprise/amqp`. They need a broker, and are compiled: test/queues/brokers.test.ts runs on a real one.

import { amqpBroker, amqpQueue } from 'reprise/amqp'
import { job, json, queueSource } from 'reprise/job'
import { example } from './example.ts'

interface Order {
  readonly id: string
}

declare function ship(order: Order, idempotencyKey: string): Promise<void>

export default [
  example(
    ['amqpQueue'],
    async (rp) => {
      const shipping = job('shipping', {
        source: amqpQueue({ url: 'amqp://localhost', queue: 'orders', decode: json<Order>() }),
        key: (order) => order.id,
        concurrency: 16,
        each: async (order, ctx) => await ship(order, ctx.idempotencyKey),
      })
      await rp.run(shipping, { signals: true }).result()
    },
    'compiled',
  ),
  example(
    ['amqpBroker'],
    async () => {
      const broker = amqpBroker({ url: 'amqp://localhost', queue: 'orders' })
      queueSource(broker, { untilEmptyFor: '30s' })
    },
    'compiled',
  ),
]
