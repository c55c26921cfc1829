// The kit on every model: virtual time, and a crash at each boundary, after which the model ends as without one.

import { describe, expect, it } from 'vitest'
import { agent, tool } from '../layers/agent/index.ts'
import { job } from '../layers/job/index.ts'
import { pipeline, tableSink, valueSource } from '../layers/pipeline/index.ts'
import { type Transaction, table } from '../layers/table/index.ts'
import { TestKit } from './test-kit.ts'
import type { WorkflowKit } from './workflow.ts'
import { crashEverywhere } from './workflow-crash.ts'

/** Runs the program undisturbed and with a crash at every point, and compares what it returns. */
async function sweep(program: (kit: WorkflowKit) => Promise<unknown>) {
  const { undisturbed, crashes } = await crashEverywhere(program)
  for (const { at, outcome } of crashes) expect(outcome, JSON.stringify(at)).toEqual(undisturbed)
  expect(crashes.length).toBeGreaterThan(4)
  return undisturbed
}

describe('D7: the test kit', () => {
  it('lets the pauses of a job pass in no time', async () => {
    const kit = new TestKit()
    const began = kit.now()
    let tries = 0
    const flaky = job('flaky', {
      source: [1],
      key: String,
      retry: { attempts: 3, backoff: '5m', backoffMax: '1h' },
      each: () => {
        tries += 1
        if (tries < 3) throw new Error('busy')
      },
    })
    const report = await kit.survive((rp) => rp.run(flaky).result())
    expect(report).toMatchObject({ done: 1, failed: 0 })
    expect(kit.now() - began).toBeGreaterThan(300_000)
    await kit.close()
  })

  it('kills a job at each commit and each effect: no item is skipped, and each keeps its key', async () => {
    const outcome = await sweep(async (kit) => {
      const made = new Map<string, string>()
      const copy = job('copy', {
        source: [1, 2, 3],
        key: String,
        concurrency: 1,
        each: (item, ctx) => kit.effect(() => void made.set(ctx.idempotencyKey, `copied ${item}`)),
      })
      const { done, failed } = await kit.survive((rp) => rp.run(copy).result())
      return { failed, isDone: done <= 3, made: [...made.values()].sort() }
    })
    expect(outcome).toEqual({ failed: 0, isDone: true, made: ['copied 1', 'copied 2', 'copied 3'] })
  })

  it('kills a table at each commit: a transaction exists as a whole or not at all', async () => {
    const outcome = await sweep(async (kit) => {
      const stock = table<number>('stock')
      await kit.survive(async (rp) => {
        const open = await rp.open(stock)
        for (const n of [1, 2, 3]) {
          await open.transaction((tx) => {
            tx.set('a', n)
            tx.set('b', -n)
          })
        }
      })
      return await kit.survive(async (rp) => {
        const open = await rp.open(stock)
        return [open.get('a'), open.get('b')]
      })
    })
    expect(outcome).toEqual([3, -3])
  })

  it('kills an agent at each commit and each call: a turn runs once, and a payment once per key', async () => {
    const outcome = await sweep(async (kit) => {
      const paid = new Map<string, number>()
      const clerk = agent('clerk', {
        model: ({ messages }) =>
          messages.at(-1)!.role === 'tool'
            ? { content: 'paid' }
            : { content: '', requests: [{ tool: 'pay', args: { cents: 7 } }] },
        tools: {
          pay: tool({
            kind: 'idempotent',
            run: ({ cents }: { cents: number }, { key }) => kit.effect(() => void paid.set(key, cents)),
          }),
        },
      })
      const { content, status } = await kit.survive(async (rp) => {
        const session = await rp.open(clerk, 's')
        return await session.turn('pay 7', { key: 'request-1' })
      })
      return { content, status, paid: [...paid.values()] }
    })
    expect(outcome).toEqual({ content: 'paid', status: 'completed', paid: [7] })
  })

  it('kills a pipeline at each commit: every record counts once', async () => {
    const outcome = await sweep(async (kit) => {
      const sums = table<number>('sums')
      const add = tableSink({
        table: sums,
        write: (tx: Transaction<number>, n: number) => {
          const key = n % 2 === 0 ? 'even' : 'odd'
          tx.set(key, (tx.get(key) ?? 0) + n)
        },
      })
      const counting = pipeline('counting', (p) => void p.from('numbers', valueSource([1, 2, 3, 4])).to('sums', add))
      const { status } = await kit.survive((rp) => rp.run(counting).result())
      return await kit.survive(async (rp) => {
        const open = await rp.open(sums)
        return { status, odd: open.get('odd'), even: open.get('even') }
      })
    })
    expect(outcome).toEqual({ status: 'completed', odd: 4, even: 6 })
  })
})
