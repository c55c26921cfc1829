// Ctrl-C on everything that `reprise run` and `reprise work` execute: the first finishes the step in flight and leaves the
// line that resumes, the second ends at once. And processes that serve schedules and queues.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { cli, json, live, workFolder } from './support.ts'

const folder = workFolder()
const at = { cwd: folder.path }
afterAll(() => folder.remove())
const write = (name: string, text: string) => writeFileSync(join(folder.path, name), text)
const lines = (name: string) => readFileSync(join(folder.path, name), 'utf8').trim().split('\n')
const words = (line: string) => [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, bare]) => quoted ?? bare!)
const resumeOf = (said: string) => words(/^ {2}reprise (.*)$/m.exec(said)![1]!)

write(
  'orders.mjs',
  `import { appendFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { queue, schedule, workflow } from 'reprise/workflow'
const note = (text) => appendFileSync('effects.txt', text + '\\n')
const step = (name) => async () => {
  note(name + ' begins')
  console.error('in ' + name)
  await sleep(Number(process.env.STEP_MS ?? 1))
  note(name + ' ends')
  return name
}
export const order = workflow('order', async (ctx, input) => {
  const charged = await ctx.step('charge', step('charge'))
  const shipped = await ctx.step('ship', step('ship'))
  return { input, charged, shipped }
})
export const tick = workflow('tick', async (ctx) => await ctx.step('tick', step('tick')))
export const every = schedule('every', { workflow: tick, every: '1s' })
const one = queue('one', { concurrency: 1 })
export const queued = workflow('queued', async (ctx, n) => await ctx.step('work', step('work ' + n)), { queue: one })
`,
)

describe('Ctrl-C on reprise run of a workflow', () => {
  it('finishes the step in flight, ends with 130, and the printed line continues the same run', async () => {
    const first = await cli(['run', 'orders.mjs', 'order', '--input', '{"n":1}'], {
      ...at,
      env: { STEP_MS: '2500' },
      interrupt: { after: /in charge/, signals: ['SIGINT'] },
    })
    expect([first.code, first.signal]).toEqual([130, null])
    expect(first.stderr).toContain('press Ctrl-C again to stop at once')
    expect(lines('effects.txt')).toEqual(['charge begins', 'charge ends'])
    const resumed = await cli([...resumeOf(first.stderr), '--json'], at)
    expect(JSON.parse(resumed.stdout).result).toEqual({ input: { n: 1 }, charged: 'charge', shipped: 'ship' })
    expect(lines('effects.txt')).toEqual(['charge begins', 'charge ends', 'ship begins', 'ship ends'])
  })

  it('ends at once on a second Ctrl-C, though the step never ends', async () => {
    write('effects.txt', '')
    const ran = await cli(['run', 'orders.mjs', 'order', '--id', 'endless'], {
      ...at,
      env: { STEP_MS: '3600000' },
      interrupt: { after: /in charge|Ctrl-C again/, signals: ['SIGINT', 'SIGINT'] },
    })
    expect([ran.code, ran.signal]).toEqual([130, null])
    const rest = await cli(['run', 'orders.mjs', 'order', '--id', 'endless', '--json'], at)
    expect(JSON.parse(rest.stdout)).toMatchObject({ result: { charged: 'charge', shipped: 'ship' } })
  })
})

describe('Ctrl-C on reprise run of migrations', () => {
  it('finishes the step in flight, applies no other, ends with 130, and the line it leaves applies the rest', async () => {
    write(
      'schema.mjs',
      `import { setTimeout as sleep } from 'node:timers/promises'
import { migrations } from 'reprise/migrate'
export const schema = migrations('schema', { steps: [
  { id: '001-a', run: async ({ signal }) => { await sleep(Number(process.env.STEP_MS ?? 1500), null, { signal }) } },
  { id: '002-b', sql: 'CREATE TABLE b (id INTEGER PRIMARY KEY)' },
] })
`,
    )
    const first = await cli(['run', 'schema.mjs', '--json'], {
      ...at,
      interrupt: { after: /began 001-a/, signals: ['SIGTERM'] },
    })
    expect([first.code, first.signal]).toEqual([130, null])
    expect(JSON.parse(first.stdout)).toMatchObject({
      status: 'stopped',
      applied: [{ id: '001-a' }],
      pending: [{ id: '002-b' }],
    })
    const resumed = await cli([...resumeOf(first.stderr), '--json'], at)
    expect(resumed.code).toBe(0)
    expect(JSON.parse(resumed.stdout)).toMatchObject({ status: 'completed', before: 1, applied: [{ id: '002-b' }] })
  })

  it('ends at once on a second Ctrl-C, and the step is done again from its start', async () => {
    const again = (await json(['run', 'schema.mjs'], at)).value
    expect(again).toMatchObject({ applied: [] })
    write(
      'slow.mjs',
      `import { migrations } from 'reprise/migrate'
export const slow = migrations('slow', { steps: [
  { id: '001-a', run: () => process.env.QUICK ? undefined : new Promise((resolve) => setTimeout(resolve, 3_600_000)) },
] })
`,
    )
    const ran = await cli(['run', 'slow.mjs'], {
      ...at,
      interrupt: { after: /began 001-a|Ctrl-C again/, signals: ['SIGINT', 'SIGINT'] },
    })
    expect(ran.code).toBe(130)
    const rest = await json(['resume'], { ...at, env: { QUICK: '1' } })
    expect(rest.value).toMatchObject({ status: 'completed', resumedAt: '001-a', applied: [{ id: '001-a' }] })
  })
})

describe('reprise work', () => {
  it('serves schedules, queues and runs that others started, and ends with 0 after the step in flight', async () => {
    write('effects.txt', '')
    const killed = live(['run', 'orders.mjs', 'order', '--id', 'left', '--input', '7'], {
      ...at,
      env: { STEP_MS: '3600000' },
    })
    await killed.until(/in charge/)
    await killed.end('SIGKILL')
    const worker = live(['work', 'orders.mjs'], { ...at, env: { STEP_MS: '5' } })
    await worker.until(/working on .*every/)
    const status = async (id: string) => (await json<{ status: string }>(['show', id], at)).value.status
    await expect.poll(() => status('workflow/order/left'), { interval: 200 }).toBe('completed')
    const ticks = () => lines('effects.txt').filter((line) => line === 'tick ends').length
    await expect.poll(ticks, { interval: 100 }).toBeGreaterThan(1)
    const queued = await Promise.all(
      [1, 2].map((n) => json(['run', 'orders.mjs', 'queued', '--id', `q${n}`, '--input', String(n)], at)),
    )
    expect(queued.map((each) => each.code)).toEqual([0, 0])
    const ended = await worker.end('SIGINT')
    expect([ended.code, ended.signal]).toEqual([0, null])
    expect(lines('effects.txt').filter((line) => line === 'work 1 ends')).toHaveLength(1)
  })

  it('serves only the named definitions, and refuses a name that the module does not have', async () => {
    const worker = live(['work', 'orders.mjs', 'order'], at)
    await worker.until(/working on order;/)
    expect((await worker.end('SIGTERM')).code).toBe(0)
    const wrong = await cli(['work', 'orders.mjs', 'ordre'], at)
    expect(wrong.code).toBe(4)
    expect(wrong.stderr).toContain('order')
    write('nothing.mjs', 'export const answer = 42\n')
    expect((await cli(['work', 'nothing.mjs'], at)).code).toBe(4)
  })
})

describe('the run after one that left dead letters', () => {
  it('ends with 3 until they are sent back or discarded', async () => {
    write(
      'leaves.mjs',
      `import { GiveUp, job } from 'reprise/job'
export const leaves = job('leaves', { source: ['a', 'b'], each: (x) => { if (x === 'b') throw new GiveUp('404') } })
`,
    )
    const codes = [await cli(['run', 'leaves.mjs'], at), await cli(['run', 'leaves.mjs'], at)]
    expect(codes.map((ran) => ran.code)).toEqual([3, 3])
    expect(codes[1]!.stdout).toContain('1 dead letter')
    expect(codes[1]!.stderr).toContain('reprise dead leaves')
    expect((await cli(['dead', 'leaves', '--discard', 'b'], at)).code).toBe(0)
    expect((await cli(['run', 'leaves.mjs'], at)).code).toBe(0)
  })
})
