// The types of every model: a wrong event, command, input, value or option does not compile, and the right one has the right
// type. Lines that must not compile are marked; `npm run types` checks them. Workflows: test/workflow/types.test.ts.

import { expect, expectTypeOf, it } from 'vitest'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { timeline } from '../../src/engine/api/timeline-definition.ts'
import { agent, type Tool, tool } from '../../src/layers/agent/index.ts'
import { aggregate, commandTo, projection, sendCommand } from '../../src/layers/events/index.ts'
import { consumer, type JobOptions, job } from '../../src/layers/job/index.ts'
import { migrations } from '../../src/layers/migrate/index.ts'
import { csvSource, generatedSource, lineSource } from '../../src/layers/pipeline/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { table } from '../../src/layers/table/index.ts'
import { type ScheduleOptions, schedule, workflow } from '../../src/layers/workflow/index.ts'

type Counted = { readonly type: 'added'; readonly by: number } | { readonly type: 'reset' }
const counter = timeline<number, Counted>('counter', {
  initial: () => 0,
  apply: (n, e) => (e.type === 'added' ? n + e.by : 0),
})
const account = aggregate('account', {
  initial: () => ({ cents: 0 }),
  evolve: { paid: (s: { cents: number }, e: { cents: number }) => ({ cents: s.cents + e.cents }) },
  decide: {
    pay: (_: { cents: number }, input: { cents: number }) => ({ type: 'paid' as const, cents: input.cents }),
    close: () => ({ type: 'paid' as const, cents: 0 }),
  },
})
const greet = workflow<string, number>('greet', async (_, name) => name.length)
const plain = workflow('plain', async () => 1)
const people = table<{ readonly name: string }>('people')
const model = save<{ readonly weights: number[] }>('model')

/** Never called: it only has to compile, except for the marked lines. */
async function unchecked(rp: Reprise): Promise<void> {
  const c = await rp.open(counter, 'a')
  await c.append({ type: 'added', by: 1 })
  await c.append((n) => (n > 9 ? { type: 'reset' } : { type: 'added', by: 1 }), { key: 'once' })
  // @ts-expect-error no such event
  await c.append({ type: 'removed', by: 1 })
  // @ts-expect-error the event lacks a field
  await c.append({ type: 'added' })
  // @ts-expect-error an event of the wrong shape
  await c.append((n) => ({ type: 'added', by: `${n}` }))
  // @ts-expect-error options are an object
  await c.append({ type: 'reset' }, null)
  await rp.open(counter, 'b', { wait: '1.5 h' })
  // @ts-expect-error no such unit
  await rp.open(counter, 'b', { wait: '1 hourrr' })
  // @ts-expect-error it is called count
  generatedSource((n) => n, { cuont: 5 })
  // @ts-expect-error it is called follow
  lineSource('numbers.txt', { folow: true })
  // @ts-expect-error it is called separator
  csvSource('numbers.csv', { seperator: ';' })
  // @ts-expect-error a key is text
  await c.append({ type: 'reset' }, { key: 7 })
  expectTypeOf(c.state).toEqualTypeOf<number>()

  const a = await rp.open(account, 'ann')
  expectTypeOf((await a.do('pay', { cents: 1 })).state).toEqualTypeOf<{ cents: number }>()
  await a.do('close')
  await a.do('close', undefined, { key: 'once' })
  // @ts-expect-error no such command
  await a.do('withdraw', { cents: 1 })
  // @ts-expect-error the command needs its input
  await a.do('pay')
  // @ts-expect-error of that type
  await a.do('pay', { cents: 'one' })
  // @ts-expect-error it was called id once
  await a.do('pay', { cents: 1 }, { id: 'once' })
  await sendCommand(rp, commandTo(account, 'ann', 'pay', { cents: 1 }), { key: 'm1' })
  // @ts-expect-error a letter with no such command
  commandTo(account, 'ann', 'withdraw', { cents: 1 })
  // @ts-expect-error a letter with the wrong input
  commandTo(account, 'ann', 'pay', { cents: 'one' })
  aggregate('wrong', {
    initial: () => 0,
    evolve: { paid: (n: number, e: { cents: number }) => n + e.cents },
    // @ts-expect-error it decides on an event that it does not have
    decide: { pay: () => ({ type: 'payed' as const, cents: 1 }) },
  })
  projection('sums', { from: [account], initial: () => 0, on: { paid: (n: number, e) => n + e.cents } })
  // @ts-expect-error the event carries cents
  projection('sums', { from: [account], initial: () => 0, on: { paid: (n: number, e) => n + e.euros } })

  expectTypeOf(await rp.run(greet, 'ann').result()).toEqualTypeOf<number>()
  await rp.run(plain).result()
  // @ts-expect-error the workflow takes text
  void rp.run(greet, 7)
  // @ts-expect-error the workflow needs its input
  void rp.run(greet)

  job('papers', { source: ['a', 'b'], key: (paper) => paper, each: (paper) => void paper.toUpperCase() })
  // @ts-expect-error an item is text
  job('papers', { source: ['a', 'b'], key: (paper) => paper, each: (paper) => void paper.toFixed() })
  // @ts-expect-error a key is text or a number
  job('papers', { source: ['a', 'b'], key: (paper) => [paper], each: () => undefined })

  const t = await rp.open(people)
  await t.set('ann', { name: 'Ann' })
  // @ts-expect-error a row of the wrong shape
  await t.set('ann', { names: ['Ann'] })
  expectTypeOf(t.get('ann')).toEqualTypeOf<{ readonly name: string } | undefined>()

  const s = await rp.open(model)
  await s.put({ weights: [1] })
  // @ts-expect-error a value of the wrong shape
  await s.put({ weights: 'heavy' })
  expectTypeOf((await s.latest()).value).toEqualTypeOf<{ readonly weights: number[] }>()

  agent('guide', { model: () => ({ content: 'hi' }), tools: { look: tool({ kind: 'read-only', run: () => 1 }) } })
  // @ts-expect-error no such kind of tool
  tool({ kind: 'harmless', run: () => 1 })

  // Options that need each other, or exclude each other.
  tool({ kind: 'compensatable', run: () => 1, compensate: (_, result) => result.toFixed() })
  tool({ kind: 'idempotent', run: () => 1, compensate: () => undefined, compensateRetry: { attempts: 2 } })
  // @ts-expect-error a compensatable tool has a compensation
  tool({ kind: 'compensatable', run: () => 1 })
  // @ts-expect-error also where it is written without tool()
  agent('guide', { tools: { pay: { kind: 'compensatable', run: () => 1 } } })
  // @ts-expect-error what is irreversible has none
  tool({ kind: 'irreversible', run: () => 1, compensate: () => undefined })
  // @ts-expect-error how a compensation is tried again, without one
  tool({ kind: 'idempotent', run: () => 1, compensateRetry: { attempts: 2 } })
  // @ts-expect-error a job does something
  job('papers', { source: ['a'] })
  // @ts-expect-error one by one or several at once
  job('papers', { source: ['a'], each: () => undefined, eachBatch: () => undefined })
  // @ts-expect-error the size of batches, without batches
  job('papers', { source: ['a'], each: () => undefined, batch: { size: 2 } })
  // @ts-expect-error a consumer does something
  consumer('seen', { from: [account] })
  // @ts-expect-error steps in code or in a folder
  migrations('schema', { steps: [], folder: 'migrations' })
  // @ts-expect-error neither
  migrations('schema', {})
  // @ts-expect-error a step is SQL or code
  migrations('schema', { steps: [{ id: '001-users' }] })
  schedule('nightly', { workflow: plain, cron: '0 3 * * *', timezone: 'Europe/Berlin' })
  // @ts-expect-error at the times of a cron line or at an interval
  schedule('nightly', { workflow: plain, cron: '0 3 * * *', every: '1d' })
  // @ts-expect-error neither
  schedule('nightly', { workflow: plain })
  // @ts-expect-error an interval has no time zone
  schedule('nightly', { workflow: plain, every: '1d', timezone: 'Europe/Berlin' })
  workflow('steps', async (ctx) => {
    await ctx.step('pay', () => 1, { compensate: (cents) => cents.toFixed(), compensateRetry: { attempts: 2 } })
    await ctx.step('pay', () => 1, { undo: (_, cents) => cents?.toFixed() })
    // @ts-expect-error after its success or before the call
    await ctx.step('pay', () => 1, { compensate: () => undefined, undo: () => undefined })
    // @ts-expect-error how a compensation is tried again, without one
    await ctx.step('pay', () => 1, { compensateRetry: { attempts: 2 } })
  })

  // @ts-expect-error a timeline is opened, not run
  void rp.run(counter, 'a')
  // @ts-expect-error a job is run, not opened
  void rp.open(job('papers', { source: ['a'], key: (each) => each, each: () => undefined }))
}

it('a definition in JavaScript refuses the same as the compiler', async () => {
  const refused = (define: () => unknown, why: RegExp) => expect(define).toThrow(why)
  const bad = { kind: 'compensatable', run: () => 1 } as unknown as Tool
  refused(() => tool(bad), /a compensatable tool must have a compensation/)
  refused(() => agent('guide', { tools: { pay: bad } }), /a compensatable tool must have a compensation/)
  const retry = { kind: 'idempotent', run: () => 1, compensateRetry: { attempts: 2 } } as unknown as Tool
  refused(() => tool(retry), /compensateRetry must have a compensation/)
  const nothing = { source: ['a'] } as unknown as JobOptions<string>
  refused(() => job('papers', nothing), /either each or eachBatch/)
  const batch = { source: ['a'], each: () => 1, batch: { size: 2 } } as unknown as JobOptions<string>
  refused(() => job('papers', batch), /batch must come with eachBatch/)
  const both = { workflow: plain, every: '1d', timezone: 'UTC' } as unknown as ScheduleOptions<void>
  refused(() => schedule('nightly', both), /timezone requires cron/)
})

it('lines that must not compile are looked at by the compiler', () => {
  expect(typeof unchecked).toBe('function')
})
