// reprise check on models whose state is the fold of their history: the code of a release, and changed code.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { exit } from '../../src/cli/exit.ts'
import { workFolder } from './support.ts'
import { cli } from './warm.ts'

const folder = workFolder()
const at = { cwd: folder.path }
afterAll(() => folder.remove())

/** The module of one release. `by` is what an entry of the counter counts as. */
const release = (by: string, evolve: string) => `
import { timeline } from 'reprise'
import { agent } from 'reprise/agent'
import { aggregate } from 'reprise/events'
import { job } from 'reprise/job'
import { table } from 'reprise/table'
export const counter = timeline('counter', {
  initial: () => ({ total: 0 }),
  apply: ({ total }, entry) => ({ total: total + ${by} }),
  checkpoint: { every: 1_000_000 },
})
export const account = aggregate('account', {
  initial: () => ({ balance: 0 }),
  evolve: { ${evolve} },
  decide: { deposit: (_, { amount }) => ({ type: 'deposited', amount }) },
})
export const stock = table('stock')
export const copy = job('copy', { source: ['a', 'b'], each: () => undefined })
export const clerk = agent('clerk', { model: () => ({ content: 'hello' }) })
`
const deposited = 'deposited: (state, event) => ({ balance: state.balance + event.amount })'

beforeAll(async () => {
  const write = (name: string, text: string) => writeFileSync(join(folder.path, name), text)
  write('one.mjs', release('entry.by', deposited))
  write('changed.mjs', release('2 * entry.by', deposited))
  write('lost.mjs', release('entry.by', 'withdrawn: (state) => state'))
  write('nothing.mjs', 'export const number = 5')
  write(
    'fill.mjs',
    `import { open } from 'reprise'
import { account, clerk, copy, counter, stock } from './one.mjs'
const rp = await open()
const counted = await rp.open(counter, 'a')
for (const by of [1, 2, 3]) await counted.append({ type: 'added', by })
await counted.checkpoint()
await counted.append({ type: 'added', by: 4 })
await rp.open(account, 'ann').do('deposit', { amount: 10 })
await (await rp.open(stock)).set('apples', 3)
await rp.run(copy).result()
await (await rp.open(clerk, 's')).turn('hi')
await rp.close()
`,
  )
  const { spawnSync } = await import('node:child_process')
  const filled = spawnSync(process.execPath, ['fill.mjs'], { cwd: folder.path, encoding: 'utf8' })
  expect([filled.status, filled.stderr]).toEqual([0, ''])
})

const check = async (file: string) => {
  const ran = await cli(['check', file, '--json'], at)
  return { code: ran.code, report: JSON.parse(ran.stdout || ran.stderr) }
}

it('A5.4: jobs, tables, aggregates, agents and timelines are folded by the current code, and nothing is written', async () => {
  const { code, report } = await check('one.mjs')
  expect([code, report.ok, report.diverging]).toEqual([exit.ok, true, []])
  const checked = report.states.map(({ timeline }: { timeline: string }) => timeline)
  expect(checked.sort()).toEqual(['agent/clerk/s', 'counter/a', 'events/account/ann', 'job/copy', 'table/stock'])
})

it('A5.4: a changed fold under the same version is named with the checkpoint that it disagrees with', async () => {
  const { code, report } = await check('changed.mjs')
  expect(code).toBe(exit.incompatible)
  expect(report.diverging).toEqual([
    { timeline: 'counter/a', ok: false, step: null, problem: expect.stringContaining('raise its version') },
  ])
})

it('A5.4: an event that the code no longer handles is named', async () => {
  const { code, report } = await check('lost.mjs')
  expect(code).toBe(exit.incompatible)
  expect(report.diverging).toContainEqual(
    expect.objectContaining({ step: 'deposited', problem: expect.stringContaining('no function for deposited') }),
  )
})

it('A5.4: a file without definitions is refused', async () => {
  const { code, report } = await check('nothing.mjs')
  expect([code, report.error.code]).toEqual([exit.notFound, 'NOT_FOUND'])
})
