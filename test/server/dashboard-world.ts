// A store with events of every model, for the tests of the dashboard. The models themselves make all of its data.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { type Reprise, timeline } from '../../src/index.ts'
import { agent, tool } from '../../src/layers/agent/index.ts'
import { config } from '../../src/layers/config/index.ts'
import { aggregate, projection } from '../../src/layers/events/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { memo } from '../../src/layers/memo/index.ts'
import { migrations } from '../../src/layers/migrate/index.ts'
import {
  collectSink,
  count as counted,
  jsonLineSource,
  pipeline,
  rowSink,
  type Source,
  tumbling,
} from '../../src/layers/pipeline/index.ts'
import { resource } from '../../src/layers/resource/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { table } from '../../src/layers/table/index.ts'
import { schedule, workflow } from '../../src/layers/workflow/index.ts'
import { pause } from '../support/until.ts'

interface Order {
  readonly cents: number
  readonly fails?: 'always' | 'for-good' | 'undo'
}

export const checkout = workflow('checkout', async (ctx, order: Order) => {
  await ctx.step('reserve', () => ({ warehouse: 'north', items: 2 }), {
    compensate: () => {
      if (order.fails === 'undo') throw new Error('the warehouse does not take it back')
    },
    compensateRetry: { attempts: 1 },
  })
  const payment = await ctx.step(
    'charge-card',
    () => {
      if (order.fails === 'always') throw new Error('503 from the bank: try again later')
      return { id: 'pay_81', cents: order.cents }
    },
    { retry: { attempts: 5, backoff: '10m', backoffMax: '1h' } },
  )
  if (order.fails === 'for-good') {
    await ctx.step('ship', () => Promise.reject(new Error('no courier for this address')), { retry: { attempts: 1 } })
  }
  if (order.fails === 'undo') throw new Error('out of stock after all')
  const decision = await ctx.signal<{ by: string }>('approve')
  await ctx.step('ship', () => ({ parcel: 'P-7', payment: payment.id }))
  return decision
})

/** Goes back to its second step, and is cancelled then: everything in it is done and undone twice. */
export const trip = workflow('trip', async (ctx) => {
  await ctx.step('flight', () => ({ seat: '12A' }), { compensate: () => undefined })
  await ctx.step('hotel', () => ({ nights: 3 }), { compensate: () => undefined })
  return await ctx.signal('go')
})

let openGate: () => void = () => undefined
const untilOpen = new Promise<void>((resolve) => {
  openGate = resolve
})
export const gate = { open: () => openGate() }

/** Its step ends on request of the test. */
export const gated = workflow('gated', async (ctx) => await ctx.step('wait', () => untilOpen))

/** One entry per step: a journal of thousands of rows. */
export const long = workflow('long', async (ctx, steps: number) => {
  for (let n = 0; n < steps; n += 1) await ctx.step(`step-${n}`, () => n)
  return steps
})

/** The form of its input is known. */
export const greet = workflow(
  'greet',
  async (ctx, { name, times, tone }) =>
    await ctx.step('say', () => `${tone === 'loud' ? 'HELLO' : 'hello'} ${name}`.repeat(times)),
  {
    input: z.object({
      name: z.string().min(2, 'a name has two letters at least').describe('who is greeted'),
      times: z.number().int().default(1),
      tone: z.enum(['calm', 'loud']),
    }),
  },
)

export const papers = job('papers', {
  source: ['10.1/a', '10.1/b', '10.1/c', '10.1/gone', '10.1/d'],
  key: (doi: string) => doi,
  retry: { attempts: 1 },
  each: async (doi) => {
    if (doi.endsWith('gone')) throw new Error('404 for that paper')
  },
})

export const schema = migrations('schema', { steps: [{ id: '001-users', run: async () => undefined }] })

export const account = aggregate('account', {
  initial: () => ({ balance: 0, last: '' }),
  evolve: {
    deposited: (s, e: { amount: number; by: string }) => ({ balance: s.balance + e.amount, last: e.by }),
  },
  decide: { deposit: (_s, c: { amount: number; by: string }) => ({ type: 'deposited', ...c }) },
})

export const totals = projection('totals', {
  from: [account],
  initial: () => new Map<string, number>(),
  on: { deposited: (m, e, at) => void m.set(at.id, (m.get(at.id) ?? 0) + e.amount) },
})

export const counter = timeline('counter', {
  initial: () => ({ total: 0, last: { by: 0, even: true } }),
  apply: (state, entry: { type: 'added'; by: number }) => {
    const total = state.total + entry.by
    return { total, last: { by: entry.by, even: total % 2 === 0 } }
  },
})

const sessions = table<{ user: string }>('sessions')
const weights = save<{ step: number; weights: Float64Array }>('training', { keep: 5 })

export const support = agent('support', {
  initial: () => ({ order: 'order-42' }),
  settings: { prompt: 'Be careful with money.' },
  model: ({ messages }) => {
    const usage = { inputTokens: 214, outputTokens: 22, cost: 0.0011 }
    if (messages.some(({ role }) => role === 'tool')) return { content: 'I refunded your order.', usage }
    return { content: '', requests: [{ tool: 'refund', args: { cents: 1999 } }], usage }
  },
  tools: {
    refund: tool({
      kind: 'irreversible',
      approve: () => true,
      run: (args: { cents: number }) => ({ refunded: args.cents }),
    }),
  },
})

const revenueOf = (file: string) =>
  pipeline('revenue', (p) => {
    p.from('orders', jsonLineSource<{ customer: string; cents: number }>(file)).to(
      'totals',
      rowSink({
        table: 'revenue',
        row: ({ customer, cents }) => ({ customer, cents }),
        setup: 'CREATE TABLE IF NOT EXISTS revenue (customer TEXT, cents BIGINT)',
      }),
    )
  })

/** Emits a record, and ends, on request of the test. */
export class Faucet {
  #given = 0
  #isOver = false
  #wake: () => void = () => undefined

  give(): void {
    this.#given += 1
    this.#wake()
  }

  end(): void {
    this.#isOver = true
    this.#wake()
  }

  readonly source: Source<{ readonly at: number; readonly room: string }> = {
    open: async (from, { signal }) => {
      let read = Number(from?.get('') ?? 0)
      signal.addEventListener('abort', () => this.#wake(), { once: true })
      return {
        partitions: () => [''],
        close: async () => undefined,
        read: async () => {
          while (read >= this.#given && !this.#isOver && !signal.aborted) {
            await new Promise<void>((resolve) => {
              this.#wake = resolve
            })
          }
          if (read >= this.#given) return null
          read += 1
          return { partition: '', values: [{ at: Date.now(), room: `room-${read % 2}` }], position: read }
        },
      }
    },
  }
}

/** A pipeline with two ways through it. */
export const visitsOf = (name: string, faucet: Faucet) =>
  pipeline(name, (p) => {
    const visits = p.from('visits', faucet.source, { time: ({ at }) => at })
    visits
      .keyBy(({ room }) => room)
      .window('per-minute', tumbling('1m'))
      .aggregate(counted())
      .to('counts', collectSink())
    visits.map(({ room }) => room).to('rooms', collectSink())
  })

export const square = memo('square', { version: 1, run: (side: number) => side * side })

const nightly = schedule('nightly', { workflow: long, cron: '0 3 * * *', input: 1 })

/** Two clients have its first version; one refused the second. */
export const flags = config<{ limit: number }>('flags')
export const sites = resource<{ replicas: number }>('sites')

export const definitions: readonly unknown[] = [
  flags,
  checkout,
  trip,
  gated,
  long,
  greet,
  papers,
  schema,
  account,
  totals,
  counter,
  support,
]

export async function fillWorld(rp: Reprise, folder: string): Promise<void> {
  rp.work([checkout, trip, gated, long, greet, nightly, account])
  const orders: readonly (readonly [string, Order])[] = [
    ['order-1001', { cents: 4900 }],
    ['order-1002', { cents: 1250 }],
    ['order-1003', { cents: 9900, fails: 'always' }],
    ['order-1004', { cents: 300, fails: 'for-good' }],
    ['order-1005', { cents: 2100, fails: 'undo' }],
  ]
  const runs = new Map<string, Awaited<ReturnType<typeof start>>>()
  const start = (id: string, order: Order) => rp.run(checkout, order, { id, attributes: { customer: 'ann' } })
  for (const [id, order] of orders) runs.set(id, await start(id, order))
  await runs.get('order-1002')!.signal('approve', { by: 'bob' })
  await runs.get('order-1002')!.result()
  await runs
    .get('order-1004')!
    .result()
    .catch(() => undefined)
  await backAndForth(rp)
  await rp.run(papers).result()
  await rp.run(schema).result()
  for (const amount of [10, 20, 5]) await (await rp.open(account, 'alice')).do('deposit', { amount, by: 'till' })
  const visits = await rp.open(counter, 'visits')
  for (let by = 1; by <= 9; by += 1) await visits.append({ type: 'added', by })
  await visits.checkpoint()
  await visits.append({ type: 'added', by: 10 })
  await visits.checkpoint()
  await visits.close()
  await rp.fork({ timeline: 'counter/visits', seq: 6 }, 'counter/what-if')
  await rp.rollback({ to: { timeline: 'counter/visits', seq: 8 } })
  const kept = await rp.open(sessions)
  await kept.transaction((tx) => {
    tx.set('s1', { user: 'ann' })
    tx.set('s2', { user: 'bob' })
  })
  await (await rp.open(square)).call(7)
  await (await rp.open(sites)).create({ name: 'web', spec: { replicas: 2 } })
  await pushFlags(rp)
  const training = await rp.open(weights)
  for (let step = 1; step <= 4; step += 1) await training.put({ step, weights: new Float64Array(2000).fill(step) })
  const session = await rp.open(support, 'ticket-7')
  await session.turn('My parcel never came.')
  await session.close()
  const file = join(folder, 'orders.jsonl')
  writeFileSync(file, ['ann', 'bob', 'ann'].map((customer) => `${JSON.stringify({ customer, cents: 100 })}\n`).join(''))
  await rp.run(revenueOf(file)).result()
}

async function pushFlags(rp: Reprise): Promise<void> {
  const push = await rp.open(flags)
  const [one, two] = [await push.client('edge-1'), await push.client('edge-2')]
  await push.set({ limit: 10 })
  for (const stream of [one, two]) await stream.ack((await stream.next())!.nonce)
  await push.set({ limit: -1 })
  await two.nack((await two.next())!.nonce, 'a limit must be positive')
  await one.close()
  await two.close()
}

async function backAndForth(rp: Reprise): Promise<void> {
  const run = await rp.run(trip, { id: 't-1' })
  const reaches = async (status: string, seq: number) => {
    for (;;) {
      const head = await rp.head(run.timeline)
      if (head?.status === status && head.seq >= seq) return
      await pause(10)
    }
  }
  await reaches('waiting', 4)
  await run.rollback({ to: 'hotel' })
  await reaches('waiting', 9)
  await run.cancel({ reason: 'no holiday after all' })
  await reaches('cancelled', 12)
}
