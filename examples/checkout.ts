// A checkout as a durable workflow: it survives crashes at any point, undoes its steps when it fails, and waits for days without
// costing anything. The services are stand-ins; `runExample` plays a customer.

import { type Duration, open, type Reprise } from 'reprise'
import { workflow } from 'reprise/workflow'

interface Payment {
  readonly id: string
  readonly cents: number
}

/** The calls that the outside services received. */
export const seen: string[] = []

const bank = {
  async charge(cents: number, options: { readonly idempotencyKey: string }): Promise<Payment> {
    seen.push(`charge ${cents} (${options.idempotencyKey})`)
    return { id: `p-${cents}`, cents }
  },
  async refund(id: string): Promise<void> {
    seen.push(`refund ${id}`)
  },
}
const warehouse = {
  async label(order: string): Promise<string> {
    return `label of ${order}`
  },
}
const mail = {
  async invoice(order: string, payment: Payment): Promise<string> {
    return `invoice of ${order} over ${payment.cents}`
  },
}

export const checkout = workflow('checkout', async (ctx, order: { id: string; cents: number; pause?: Duration }) => {
  const payment = await ctx.step('charge', ({ key }) => bank.charge(order.cents, { idempotencyKey: key }), {
    retry: { attempts: 5, backoff: '200ms' },
    timeout: '30s',
    compensate: (p) => bank.refund(p.id), // runs in reverse order if the workflow fails or is rolled back
  })
  const [label, invoice] = await Promise.all([
    ctx.step('label', () => warehouse.label(order.id)),
    ctx.step('invoice', () => mail.invoice(order.id, payment)),
  ])
  await ctx.sleep(order.pause ?? '1h')
  const decision = await ctx.signal<'ship' | 'stop'>('decision', { timeout: '7d' })
  if (decision === 'stop') throw new Error('stopped by hand') // compensates
  await ctx.transaction('ledger', (db) => db.run('INSERT INTO ledger VALUES (?, ?)', order.id, order.cents)) // same database, same commit
  return { label, invoice }
})

const prepare = workflow('prepare', async (ctx) => {
  await ctx.transaction('table', (db) => db.run('CREATE TABLE IF NOT EXISTS ledger (order_id TEXT, cents INTEGER)'))
})

/** One order that is shipped and one that is stopped. */
export async function runExample(rp: Reprise): Promise<{ shipped: unknown; stopped: string }> {
  await rp.run(prepare).result()
  const run = await rp.run(checkout, { id: 'order-42', cents: 1999, pause: '50ms' }, { id: 'order-42' })
  seen.push(`asked: ${await run.query('status')}`)
  await run.signal('decision', 'ship')
  const shipped = await run.result()
  const other = await rp.run(checkout, { id: 'order-43', cents: 500, pause: '50ms' }, { id: 'order-43' })
  await other.signal('decision', 'stop')
  const stopped = await other.result().catch((error: Error) => error.message)
  return { shipped, stopped: String(stopped) }
}

if (process.argv[1]?.endsWith('checkout.ts')) {
  const rp = await open()
  console.log(await runExample(rp), seen)
  await rp.close()
}
