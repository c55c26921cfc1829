// Generic verbs go through the model: a run of a workflow goes back, forks and resumes as a run, and a verb that a model
// does not have is refused with the one that is meant.

import { spawn } from 'node:child_process'
import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import type { TimelineDefinition } from '../../src/engine/api/timeline-definition.ts'
import { pause } from '../support/fixture.ts'
import { binIn, workFolder } from './support.ts'
import { cli, json } from './warm.ts'

const pay = `
import { appendFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { workflow } from 'reprise/workflow'
const note = (what) => appendFileSync(new URL('./notes.txt', import.meta.url), what + '\\n')
export const pay = workflow('pay', async (ctx, order) => {
  await ctx.step('charge', ({ key }) => { note('charge ' + order.cents + ' ' + key); return { paid: order.cents } },
    { compensate: () => note('refund') })
  if (order.slow) await ctx.step('ship', async () => { note('ship'); await sleep(order.slow) })
  else await ctx.signal('go')
  return { shipped: order.cents }
})
`

let folder: ReturnType<typeof workFolder>
const at = () => ({ cwd: folder.path })
const notes = () => {
  const path = join(folder.path, 'notes.txt')
  return existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n') : []
}
const kinds = () => notes().map((line) => line.split(' ')[0])

beforeEach(() => {
  folder = workFolder()
  writeFileSync(join(folder.path, 'pay.mjs'), pay)
})
afterEach(() => folder.remove())

/** The built package, as the module imports it: definitions of both must be of one copy. */
async function withEngine<T>(use: (rp: Reprise, definition: never) => Promise<T>): Promise<T> {
  const { open } = await import(pathToFileURL(join(folder.path, 'node_modules/reprise/dist/index.js')).href)
  const module = await import(pathToFileURL(join(folder.path, 'pay.mjs')).href)
  const rp = (await open(`sqlite:${join(folder.path, '.reprise/reprise.db')}`)) as Reprise
  try {
    return await use(rp, module.pay as never)
  } finally {
    await rp.close()
  }
}

async function until(isDone: () => boolean | Promise<boolean>): Promise<void> {
  const end = Date.now() + 90_000
  while (!(await isDone())) {
    if (Date.now() > end) throw new Error(`waited too long; notes: ${notes().join(', ')}`)
    await pause(20)
  }
}

/** Started, charged, and waiting for its signal, with no worker running. */
async function waitingRun(): Promise<void> {
  await withEngine(async (rp, definition) => {
    await rp.run(definition, { cents: 500 } as never, { id: 'o1' } as never)
    await until(() => kinds().includes('charge'))
    await until(async () => (await rp.head('workflow/pay/o1'))!.seq >= 2)
  })
}

it('reprise rollback of a waiting run lists the undone steps, undoes them where it is executed, and it continues', async () => {
  await waitingRun()
  const back = await json<{ asked: { undoes: string[] }; archive: string | null }>(
    ['rollback', 'pay/o1@1', '--yes'],
    at(),
  )
  expect(back).toMatchObject({ code: 0, value: { asked: { from: 'charge', undoes: ['charge'] }, archive: null } })
  expect((await cli(['signal', 'pay/o1', 'go'], at())).code).toBe(0)
  const result = await withEngine(async (rp, definition) => {
    rp.work([definition])
    await until(async () => (await rp.head('workflow/pay/o1'))!.status === 'completed')
    return (await rp.head('workflow/pay/o1'))!
  })
  expect(result.status).toBe('completed')
  expect(kinds()).toEqual(['charge', 'refund', 'charge'])
  const keys = notes().flatMap((line) => (line.startsWith('charge') ? [line.split(' ')[2]] : []))
  expect(new Set(keys).size).toBe(2)
})

it('reprise fork of a run makes a run that is executed, with keys of its own', async () => {
  await waitingRun()
  const forked = await json<{ timeline: string }>(['fork', 'pay/o1@1', 'o2'], at())
  expect(forked).toMatchObject({ code: 0, value: { timeline: 'workflow/pay/o2' } })
  expect((await cli(['signal', 'pay/o2', 'go'], at())).code).toBe(0)
  await withEngine(async (rp, definition) => {
    rp.work([definition])
    await until(async () => (await rp.head('workflow/pay/o2'))!.status === 'completed')
    expect((await rp.head('workflow/pay/o1'))!.status).not.toBe('completed')
  })
  expect(kinds()).toEqual(['charge', 'charge'])
  expect((await cli(['fork', 'pay/o1@1', 'job/x'], at())).stderr).toContain('workflow/pay/')
})

it('reprise fork --set continues as if the step had returned that, and every view of the fork shows it', async () => {
  await waitingRun()
  const forked = await json<{ timeline: string }>(
    ['fork', 'pay/o1', 'o2', '--set', 'charge="free"', '--by', 'ann'],
    at(),
  )
  expect(forked).toMatchObject({ code: 0, value: { timeline: 'workflow/pay/o2', seq: 1 } })
  expect((await cli(['signal', 'pay/o2', 'go'], at())).code).toBe(0)
  await withEngine(async (rp, definition) => {
    rp.work([definition])
    await until(async () => (await rp.head('workflow/pay/o2'))!.status === 'completed')
  })
  // Charged once, for the parent.
  expect(kinds()).toEqual(['charge'])
  expect((await cli(['show', 'pay/o2'], at())).stdout).toMatch(/edited +charge, by ann/)
  expect((await cli(['log', 'pay/o2'], at())).stdout).toMatch(/"replaces": ?2|replaces: 2|in place of entry 2/)
  const verified = await cli(['verify'], at())
  expect([verified.code, verified.stdout + verified.stderr]).toEqual([0, expect.stringContaining('charge, by ann')])
  for (const [args, code, words] of [
    [['pay/o1', 'o3', '--set', 'charge=free'], 2, 'is not JSON'],
    [['pay/o1', 'o3', '--set', 'charge'], 2, 'NAME=JSON'],
    [['pay/o1', 'o3', '--set', 'charge=1', '--set', 'charge=2'], 2, 'set twice'],
    [['pay/o1', 'o3', '--set', 'charge={"cents":9007199254740993}'], 2, 'too large'],
    [['pay/o1', 'o3', '--set', 'chrage=1'], 4, 'it has charge'],
    [['pay/o1', 'o3', '--input', '{'], 2, 'is not JSON'],
    [['pay/o1', 'o2', '--set', 'charge=1'], 6, 'already'],
  ] as const) {
    const refused = await cli(['fork', ...args], at())
    expect([args, refused.code, refused.stderr]).toEqual([args, code, expect.stringContaining(words)])
  }
})

it.each([
  ['what was started and killed', []],
  ['one by its id', ['workflow/pay/o7']],
  ['one by its name', ['pay/o7']],
])('reprise resume goes on with %s: the same run, its own input, charged once', async (_what, args) => {
  const input = JSON.stringify({ cents: 700, slow: 200 })
  const child = spawn(process.execPath, [binIn(folder.path), 'run', 'pay.mjs', '--id', 'o7', '--input', input], {
    cwd: folder.path,
    stdio: 'ignore',
  })
  await until(() => kinds().includes('ship'))
  child.kill('SIGKILL')
  await new Promise((resolve) => child.once('close', resolve))
  const resumed = await json<{ result: unknown }>(['resume', ...args], at())
  expect(resumed).toMatchObject({ code: 0, value: { result: { shipped: 700 } } })
  expect(kinds().filter((kind) => kind === 'charge')).toHaveLength(1)
  expect(kinds().filter((kind) => kind === 'ship').length).toBeLessThanOrEqual(2)
  const runs = await json<{ timeline: string }[]>(['ls', 'workflow'], at())
  expect(runs.value.map((run) => run.timeline)).toEqual(['workflow/pay/o7'])
  // Once it has ended there is nothing to resume, and nothing new is started.
  expect((await cli(['resume'], at())).stderr).toContain('nothing to resume')
  const again = await json<{ result: unknown }>(['resume', 'pay/o7'], at())
  expect(again.value.result).toEqual({ shipped: 700 })
  expect(kinds().filter((kind) => kind === 'charge')).toHaveLength(1)
})

it('reprise show takes the name of a workflow: its only run, or the ids that there are', async () => {
  await waitingRun()
  expect((await json<{ timeline: string }>(['show', 'pay'], at())).value).toMatchObject({ timeline: 'workflow/pay/o1' })
  await withEngine((rp, definition) => rp.run(definition, { cents: 1 } as never, { id: 'o2' } as never))
  const several = await cli(['show', 'pay'], at())
  expect([several.code, several.stdout]).toEqual([2, ''])
  expect(several.stderr).toContain('pay could be workflow/pay/o1, workflow/pay/o2')
  expect((await cli(['show', 'pa'], at())).code).toBe(4)
})

it('A8.1: without a server or a setting, everything lies in one SQLite file', async () => {
  writeFileSync(
    join(folder.path, 'night.mjs'),
    `import { job } from 'reprise/job'
     export const night = job('night', { source: ['1', '2'], key: (item) => item, each: () => undefined })`,
  )
  expect((await cli(['run', 'night.mjs'], at())).code).toBe(0)
  // The files beside it are second copies.
  copyFileSync(join(folder.path, '.reprise/reprise.db'), join(folder.path, 'only.db'))
  expect(readFileSync(join(folder.path, 'only.db')).subarray(0, 15).toString()).toBe('SQLite format 3')
  const { value } = await json<{ summary: { finished: number } }>(['show', 'night', '--url', 'sqlite:only.db'], at())
  expect(value.summary.finished).toBe(2)
})

it('reprise check needs no store for a module that never ran, but finds one that is named', async () => {
  writeFileSync(
    join(folder.path, 'flow.mjs'),
    `import { collectSink, pipeline, valueSource } from 'reprise/pipeline'
     export const flow = pipeline('flow', (p) => void p.from('in', valueSource([1, 2])).map((n) => n + 1).to('out', collectSink()))`,
  )
  for (const file of ['pay.mjs', 'flow.mjs']) {
    const checked = await json<{ ok: boolean }>(['check', file], at())
    expect([checked.code, checked.value.ok]).toEqual([0, true])
  }
  expect(existsSync(join(folder.path, '.reprise'))).toBe(false)
  expect((await cli(['check', 'pay.mjs', '--url', 'sqlite:none.db'], at())).code).toBe(4)
})

it('the cure of an error is that of the place which raised it', async () => {
  writeFileSync(
    join(folder.path, 'flow.mjs'),
    `import { collectSink, lineSource, pipeline } from 'reprise/pipeline'
     export const flow = pipeline('flow', (p) => void p.from('in', lineSource('none.txt')).to('out', collectSink()))`,
  )
  const ran = await cli(['run', 'flow.mjs'], at())
  expect([ran.code, ran.stderr]).toEqual([4, expect.stringContaining('cure Check the path')])
  expect(ran.stderr).not.toContain('reprise ls')
})

it('group restore looks who owns a member before it asks', async () => {
  writeFileSync(
    join(folder.path, 'tally.mjs'),
    `import { timeline } from 'reprise'
     export const tally = timeline('tally', { initial: () => 0, apply: (sum) => sum + 1 })`,
  )
  const { tally } = await import(pathToFileURL(join(folder.path, 'tally.mjs')).href)
  const group = (...args: string[]) => cli(['group', ...args, '--module', 'tally.mjs'], at())
  await withEngine(async (rp) => {
    // Owned by this process for as long as it is open.
    const open = await rp.open(tally as TimelineDefinition<number, { type: string }>, 'a')
    await open.append({ type: 'one' })
    const captured = await group('capture', 'cut', 'tally/a')
    expect(captured.code, captured.stderr).toBe(0)
    await open.append({ type: 'one' })
    const refused = await group('restore', 'cut', '--timeout', '1ms')
    expect(refused.stderr).toContain('is owned by')
    expect(refused.stderr).not.toContain('--yes')
    const asked = await group('restore', 'cut', '--timeout', '1ms', '--takeover')
    expect(asked.stderr).toContain('--yes skips the confirmation')
    expect(asked.code).toBe(2)
  })
})

it('group restore names readers that have acted on undone entries, and is refused unless forced', async () => {
  writeFileSync(
    join(folder.path, 'tally.mjs'),
    `import { timeline } from 'reprise'
     export const tally = timeline('tally', { initial: () => 0, apply: (sum) => sum + 1 })`,
  )
  const { tally } = await import(pathToFileURL(join(folder.path, 'tally.mjs')).href)
  const group = (...args: string[]) => cli(['group', ...args, '--module', 'tally.mjs'], at())
  await withEngine(async (rp) => {
    const open = await rp.open(tally as TimelineDefinition<number, { type: string }>, 'a')
    await open.append({ type: 'one' })
    await rp.groups.capture('cut', ['tally/a'])
    await open.append({ type: 'one' })
    await open.close()
    await rp.fork({ timeline: 'tally/a', seq: 2 }, 'trial')
  })
  const planned = await group('restore', 'cut')
  expect(planned.stdout).toContain('consumed: tally/trial was forked at 2')
  expect(planned.stderr).not.toContain('--yes')
  expect([planned.code, planned.stderr]).toEqual([6, expect.stringContaining('CONSUMED')])
  expect((await group('restore', 'cut', '--yes')).code).toBe(6)
  const forced = await group('restore', 'cut', '--yes', '--even-consumed')
  expect([forced.code, forced.stdout]).toEqual([0, expect.stringContaining('tally/a continues from 1')])
})

it('terminate and settle reach a run, and verbs that a model lacks name the right one', async () => {
  await waitingRun()
  writeFileSync(
    join(folder.path, 'more.mjs'),
    `import { job } from 'reprise/job'
     import { migrations } from 'reprise/migrate'
     export const night = job('night', { source: ['1'], key: (item) => item, each: () => undefined })
     export const schema = migrations('schema', { steps: [{ id: '001', run: () => undefined }] })`,
  )
  expect((await cli(['run', 'more.mjs', 'night'], at())).code).toBe(0)
  expect((await cli(['run', 'more.mjs', 'schema'], at())).code).toBe(0)
  const refused = async (...args: string[]) => {
    const ran = await cli(args, at())
    expect(ran.code, args.join(' ')).toBe(2)
    return ran.stderr
  }
  expect(await refused('signal', 'night', 'go')).toContain('stop stops a job')
  expect(await refused('retry', 'night')).toContain('redrive')
  expect(await refused('rollback', 'migrate/schema@1', '--yes')).toContain('add a step that undoes them')
  expect(await refused('fork', 'migrate/schema@1', 'other')).toContain('add a step that undoes them')
  expect(await refused('redrive', 'pay/o1', '--all')).toContain('retry')
  expect(await refused('decide', 'pay/o1', 'approve')).toContain('signal')
  expect(await refused('settle', 'pay/o1', 'charge', 'nonsense')).toContain('done, failed, retry, compensated')
  // Nothing waits for a person: a decision about a step is refused.
  const settled = await cli(['settle', 'pay/o1', 'charge', 'done'], at())
  expect([settled.code, settled.stdout]).toEqual([6, ''])
  expect(settled.stderr).toContain('is not held')
  const unknown = await cli(['settle', 'pay/o1', 'nonexistent', 'done'], at())
  expect([unknown.code, unknown.stdout]).toEqual([4, ''])
  expect(unknown.stderr).toContain('has no step nonexistent; it has charge')
  expect(unknown.stderr).not.toContain('reprise ls')
  expect((await cli(['terminate', 'pay/o1', '--yes'], at())).code).toBe(0)
  const shown = await json<{ kind: string; status: string; summary: { end: { kind: string } } }>(
    ['show', 'pay/o1'],
    at(),
  )
  expect(shown.value).toMatchObject({
    kind: 'workflow',
    status: 'terminated',
    summary: { end: { kind: 'terminated' } },
  })
})

it('fork takes the new name of an aggregate without its kind, and dead refuses what gives up on nothing', async () => {
  const accounts = `
import { aggregate } from 'reprise/events'
export const account = aggregate('account', {
  initial: () => ({ balance: 0 }),
  evolve: { deposited: (s, e) => ({ balance: s.balance + e.amount }) },
  decide: { deposit: (_s, c) => ({ type: 'deposited', amount: c.amount }) },
})
`
  writeFileSync(join(folder.path, 'accounts.mjs'), accounts)
  const { account } = await import(pathToFileURL(join(folder.path, 'accounts.mjs')).href)
  const balance = (id: string) =>
    withEngine(async (rp) => ((await rp.open(account, id)) as { state: { balance: number } }).state.balance)
  await withEngine(async (rp) => {
    const alice = (await rp.open(account, 'alice')) as { do(name: string, args: object): Promise<unknown> }
    await alice.do('deposit', { amount: 3 })
    await alice.do('deposit', { amount: 4 })
  })
  const forked = await json(['fork', 'account/alice@1', 'account/bob', '--module', './accounts.mjs'], at())
  expect(forked.value).toMatchObject({ timeline: 'events/account/bob' })
  expect(await balance('bob')).toBe(3)
  const dead = await cli(['dead', 'account/alice'], at())
  expect(dead.code).toBe(2)
  expect(dead.stderr).toContain('events/account/alice has the kind aggregate, which has no dead letters')
})

it('reprise resume continues all at once: a run that waits for a signal is reported and blocks no other', async () => {
  const killed = async (id: string, given: object, isBegun: () => boolean) => {
    const args = ['run', 'pay.mjs', '--id', id, '--input', JSON.stringify(given)]
    const child = spawn(process.execPath, [binIn(folder.path), ...args], { cwd: folder.path, stdio: 'ignore' })
    await until(isBegun)
    child.kill('SIGKILL')
    await new Promise((resolve) => child.once('close', resolve))
  }
  // The first in the order of ids waits forever.
  await killed('a-waits', { cents: 1 }, () => kinds().filter((kind) => kind === 'charge').length === 1)
  await killed('b-ships', { cents: 2, slow: 100 }, () => kinds().includes('ship'))
  const resumed = await cli(['resume'], at())
  expect(resumed.code).toBe(3)
  expect(resumed.stderr).toContain('resuming 2')
  const lines = resumed.stdout.trim().split('\n').sort()
  expect(lines).toEqual([
    expect.stringMatching(/^workflow\/pay\/a-waits: .*signal go/),
    'workflow/pay/b-ships: {"shipped":2}',
  ])
  const waits = await json<{ timeline: string; status: string; waitsFor: string }>(['resume'], at())
  expect(waits).toMatchObject({ code: 3, value: { timeline: 'workflow/pay/a-waits', status: 'waiting' } })
})
