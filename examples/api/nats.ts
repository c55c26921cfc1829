// Examples of `reprise/nats`. They need a server, and are compiled: test/pipeline/nats.test.ts runs both on a real one.

import { job, queueSource } from 'reprise/job'
import { natsBroker, natsQueue, natsSink, natsSource } from 'reprise/nats'
import { json, pipeline } from 'reprise/pipeline'
import { example } from './example.ts'

interface Order {
  readonly id: string
  readonly cents: number
}

declare function ship(order: Order, idempotencyKey: string): Promise<void>

export default [
  example(
    ['natsSource', 'natsSink'],
    async (rp) => {
      const servers = 'nats://localhost:4222'
      const paid = pipeline('paid', (p) => {
        p.from('orders', natsSource({ servers, stream: 'ORDERS', filter: 'orders.>' }), { decode: json<Order>() })
          .filter((order) => order.cents > 0)
          // The stream PAID has allow_atomic.
          .to(
            'paid',
            natsSink<Order>({
              servers,
              stream: 'PAID',
              message: (order) => ({ subject: `paid.${order.id}`, value: JSON.stringify(order) }),
            }),
          )
      })
      await rp.run(paid).result()
    },
    'compiled',
  ),
  example(
    ['natsQueue'],
    async (rp) => {
      const servers = 'nats://localhost:4222'
      const shipping = job('shipping', {
        source: natsQueue({ servers, stream: 'ORDERS', consumer: 'shipping', decode: json<Order>() }),
        key: (order) => order.id,
        concurrency: 16,
        each: async (order, ctx) => await ship(order, ctx.idempotencyKey),
      })
      await rp.run(shipping, { signals: true }).result()
    },
    'compiled',
  ),
  example(
    ['natsBroker'],
    async () => {
      const broker = natsBroker({ servers: 'nats://localhost:4222', stream: 'ORDERS', consumer: 'shipping' })
      queueSource(broker, { untilEmptyFor: '30s' })
    },
    'compiled',
  ),
]
