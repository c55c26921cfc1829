// Examples of `reprise/kafka`. They need a broker, and are compiled: test/pipeline/kafka.test.ts runs both on a real one.

import { job } from 'reprise/job'
import { kafkaQueue, kafkaSink, kafkaSource } from 'reprise/kafka'
import { json, pipeline, sum, tumbling } from 'reprise/pipeline'
import { example } from './example.ts'

interface Order {
  readonly customer: string
  readonly cents: number
  readonly at: number
}

declare function ship(order: Order, idempotencyKey: string): Promise<void>

export default [
  example(
    ['kafkaSource', 'kafkaSink'],
    async (rp) => {
      const brokers = ['localhost:9092']
      const revenue = pipeline('revenue', (p) => {
        p.from('orders', kafkaSource({ brokers, topic: 'orders' }), {
          decode: json<Order>(),
          time: (order) => order.at,
          outOfOrder: '5s',
          idle: '30s',
        })
          .keyBy((order) => order.customer)
          .window('per-minute', tumbling('1m'))
          .aggregate(sum((order) => order.cents))
          .to(
            'totals',
            kafkaSink({
              brokers,
              topic: 'totals',
              message: ({ key, value }) => ({ key: String(key), value: String(value) }),
            }),
          )
      })
      // Committed with each checkpoint: readers of committed records see every total once.
      await rp.run(revenue, { checkpoint: { every: '1s' } }).result()
    },
    'compiled',
  ),
  example(
    ['kafkaQueue'],
    async (rp) => {
      const shipping = job('shipping', {
        source: kafkaQueue({ brokers: ['localhost:9092'], topic: 'orders', decode: json<Order>() }),
        concurrency: 16,
        each: async (order, ctx) => await ship(order, ctx.idempotencyKey),
      })
      await rp.run(shipping, { signals: true }).result()
    },
    'compiled',
  ),
]
