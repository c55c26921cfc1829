// Commands for operators: queries and updates of runs, effects, projections, consumers, saves, schedules. A command of one
// model refuses a timeline of another with its code, and names the commands for it.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Live, live, workFolder } from './support.ts'
import { cli, json } from './warm.ts'

const folder = workFolder()
const at = { cwd: folder.path }
let worker: Live

beforeAll(async () => {
  writeFileSync(
    join(folder.path, 'app.mjs'),
    `import { open, timeline } from 'reprise'
import { agent, tool } from 'reprise/agent'
import { aggregate, projection } from 'reprise/events'
import { consumer, job } from 'reprise/job'
import { save } from 'reprise/save'
import { schedule, workflow } from 'reprise/workflow'

export const order = workflow('order', async (ctx, input) => {
  const state = { cents: 100, ...input }
  ctx.onQuery('total', (factor = 1) => state.cents * factor)
  ctx.onUpdate('add', (cents) => (state.cents += cents))
  return await ctx.signal('go')
})
export const brief = workflow('brief', async (ctx) => {
  ctx.onQuery('total', () => 7)
  ctx.onUpdate('add', (n) => n)
  return await ctx.step('pay', ({ key }) => (key ? 'paid' : 'unpaid'))
})
export const tick = workflow('tick', async () => 1)
export const nightly = schedule('nightly', { workflow: tick, cron: '0 3 * * *' })
export const few = job('few', { source: ['a', 'b'], each: () => undefined })
export const account = aggregate('account', {
  initial: () => ({ balance: 0 }),
  evolve: { deposited: (s, e) => ({ balance: s.balance + e.amount }) },
  decide: { deposit: (_s, c) => ({ type: 'deposited', amount: c.amount }) },
})
export const totals = projection('totals', {
  from: [account],
  initial: () => new Map(),
  on: { deposited: (state, event) => void state.set('all', (state.get('all') ?? 0) + event.amount) },
})
export const reads = consumer('reads', { from: ['job/few'], follow: false, each: () => undefined })
export const support = agent('support', { tools: { refund: tool({ kind: 'irreversible', approve: true, run: () => 'refunded' }) } })
export const training = save('training', { keep: 3 })
export const counter = timeline('counter', { initial: () => 0, apply: (n) => n + 1 })
export const url = 'sqlite:.reprise/reprise.db'
export { open }
`,
  )
  writeFileSync(
    join(folder.path, 'fill.mjs'),
    `import { account, counter, few, open, order, reads, support, training, url } from './app.mjs'
const rp = await open(url)
await (await rp.run(few)).result()
await (await rp.run(reads)).result()
await (await rp.open(account, 'ann')).do('deposit', { amount: 5 })
const saves = await rp.open(training)
await saves.put({ step: 1 }, { label: 'first' })
await (await rp.open(support, 's')).use('refund', { cents: 5 })
await rp.run(order, { cents: 1 }, { id: 'here', here: false })
const c = await rp.open(counter, 'c')
await c.effects.run('mail', () => 'sent')
await c.effects.run('call', () => { throw new Error('no line') }).catch(() => undefined)
await rp.close()
`,
  )
  const { spawnSync } = await import('node:child_process')
  const filled = spawnSync(process.execPath, ['fill.mjs'], { cwd: folder.path, encoding: 'utf8' })
  expect(filled.stderr).toBe('')
  const started = live(['run', 'app.mjs', 'order', '--id', 'o1', '--input', '{"cents":100}'], at)
  await started.until(/o1/)
  await started.end('SIGINT')
  worker = live(['work', 'app.mjs'], at)
  await worker.until(/working on/)
})
afterAll(async () => {
  await worker.end('SIGTERM')
  folder.remove()
})

describe('runs of workflows', () => {
  it('answer queries and accept updates, and report their status without their code', async () => {
    const query = async (...args: string[]) =>
      (await json<{ answer: unknown }>(['query', 'workflow/order/o1', ...args], at)).value.answer
    expect(await query('total')).toBe(100)
    expect(await query('total', '3')).toBe(300)
    expect(await query('status')).toMatch(/waiting|running/)
    const updated = await json<{ result: number }>(['update', 'workflow/order/o1', 'add', '20', '--timeout', '20s'], at)
    expect([updated.code, updated.value.result]).toEqual([0, 120])
    expect(await query('total')).toBe(120)
    expect((await cli(['query', 'workflow/order/o1', 'nope'], at)).code).toBe(4)
    const misspelt = await cli(['update', 'workflow/order/o1', 'ad', '1', '--timeout', '20s'], at)
    expect([misspelt.code, misspelt.stderr]).toEqual([4, expect.stringContaining('it has: add')])
  })

  it('that a program started without a recorded module learn their updates from their worker', async () => {
    const told = await cli(['update', 'order/here', 'nosuch', '5', '--timeout', '1m'], at)
    expect([told.code, told.stderr]).toEqual([4, expect.stringMatching(/^NOT_FOUND .*it has: add/)])
    const given = await json<{ result: number }>(['update', 'order/here', 'add', '5', '--module', 'app.mjs'], at)
    expect([given.code, given.value.result]).toEqual([0, 6])
    writeFileSync(join(folder.path, 'other.mjs'), "export { brief } from './app.mjs'\n")
    const lacking = await cli(['update', 'order/here', 'add', '5', '--module', 'other.mjs'], at)
    expect([lacking.code, lacking.stderr]).toEqual([
      4,
      expect.stringContaining('other.mjs exports no workflow order, but the workflow brief'),
    ])
  })

  it('that have ended report that and their outcome for every verb, with the possible actions', async () => {
    expect((await cli(['run', 'app.mjs', 'brief', '--id', 'b'], at)).code).toBe(0)
    const verbs = [
      'update RUN add 1',
      'signal RUN go',
      'cancel RUN',
      'terminate RUN',
      'terminate RUN --yes',
      'retry RUN',
      'settle RUN pay done',
    ]
    for (const verb of [...verbs.map((each) => each.replace('RUN', 'brief/b')), 'cancel few']) {
      const asked = await cli(verb.split(' '), at)
      expect([verb, asked.code, asked.stdout]).toEqual([verb, 6, ''])
      expect(asked.stderr).toMatch(/^ENDED .* had already ended: completed/)
      expect(asked.stderr).toContain('cure reprise show ')
    }
    expect((await json<{ answer: unknown }>(['query', 'brief/b', 'total'], at)).value.answer).toBe(7)
    const unknown = await cli(['query', 'brief/b', 'nope'], at)
    expect([unknown.code, unknown.stderr]).toEqual([4, expect.stringContaining('it has: total')])
    const effects = await json<{ id: string; state: string }[]>(['effects', 'brief/b'], at)
    const key = expect.stringMatching(/^pay-[0-9a-f]{32}$/)
    expect(effects.value).toMatchObject([{ id: 'pay', state: 'done', outcome: 'done', key }])
  })
})

describe('what else there is', () => {
  it('effects are listed, and one in doubt is settled by a person', async () => {
    const list = ['effects', 'counter/c', '--module', 'app.mjs']
    const { value } = await json<{ id: string; state: string; key: string }[]>(list, at)
    expect(value.map(({ id, state }) => `${id} ${state}`)).toEqual(['mail done', 'call failed'])
    expect(value.map(({ key }) => key)).toEqual([/^mail-/, /^call-/].map((name) => expect.stringMatching(name)))
    const { stdout } = await cli(list, at)
    for (const shown of ['KEY', ...value.map(({ key }) => key)]) expect(stdout).toContain(shown)
    expect((await json<unknown[]>(['effects', 'counter/c', '--open'], at)).value).toEqual([])
    const settle = ['effects', 'counter/c', '--module', 'app.mjs', '--settle']
    const unknown = await cli([...settle, 'nope', '--as', 'done'], at)
    expect([unknown.code, unknown.stderr]).toEqual([4, expect.stringContaining('no effect nope, but mail, call')])
    expect((await cli([...settle, 'mail', '--as', 'perhaps'], at)).code).toBe(2)
    const undone = [...settle, 'mail', '--as', 'compensated', '--by', 'ann']
    expect((await cli(undone, at)).code).toBe(0)
    const again = await json<{ by: string }[]>(['effects', 'counter/c'], at)
    expect(again.value[0]!.by).toBe('ann')
    expect((await cli(undone, at)).code).toBe(0)
    const other = await json<{ error: { code: string; data: object } }>([...settle, 'mail', '--as', 'failed'], at)
    expect([other.code, other.value.error]).toMatchObject([6, { code: 'CONFLICT', data: { by: 'ann' } }])
  })

  it('projections are rebuilt', async () => {
    const rebuilt = await json<{ applied: number }>(['rebuild', 'app.mjs', 'totals'], at)
    expect(rebuilt).toMatchObject({ code: 0, value: { projection: 'totals', applied: 1 } })
    const named = await json<{ applied: number }>(['rebuild', 'totals', '--module', 'app.mjs'], at)
    expect(named).toMatchObject({ code: 0, value: { projection: 'totals' } })
    const nope = await cli(['rebuild', 'app.mjs', 'nope'], at)
    expect([nope.code, nope.stderr]).toEqual([
      4,
      expect.stringContaining('app.mjs exports no projection nope, but the projection totals'),
    ])
    expect((await cli(['rebuild'], at)).code).toBe(2)
  })

  it('consumers, saves and schedules are listed', async () => {
    const consumers = await json<{ name: string; behind: number }[]>(['consumers'], at)
    expect(consumers.value).toContainEqual(expect.objectContaining({ name: 'consumer/reads', owner: 'job/reads' }))
    const saves = await json<{ series: string; label: string }[]>(['saves'], at)
    expect(saves.value).toMatchObject([{ series: 'training', label: 'first' }])
    expect((await json<unknown[]>(['saves', 'nope'], at)).value).toEqual([])
    const schedules = await json<{ schedule: string; nextAt: number }[]>(['schedules'], at)
    expect(schedules.value).toMatchObject([{ schedule: 'nightly', fired: 0 }])
    expect(schedules.value[0]!.nextAt).toBeGreaterThan(Date.now())
    for (const verb of ['consumers', 'saves', 'schedules', 'effects counter/c']) {
      expect((await cli(verb.split(' '), at)).stdout.split('\n').length).toBeGreaterThan(2)
    }
  })
})

describe('a verb that the model does not have', () => {
  it.each([
    [['query', 'job/few', 'x'], 'redrive'],
    [['update', 'agent/support/s', 'x'], 'decide'],
  ])('%o refuses with its code, and names the right one', async (args, right) => {
    const { code, value } = await json<{ error: { code: string; message: string } }>(args, at)
    expect([code, value.error.code]).toEqual([2, 'INVALID_ARGUMENT'])
    expect(value.error.message).toContain(right)
  })
})
