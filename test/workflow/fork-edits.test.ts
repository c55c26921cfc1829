// A fork with an edited step, wherever the process dies: at every commit, before and after it. The fork is made once, and never
// runs without its edit.

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import { workflow, workflows } from '../../src/layers/workflow/index.ts'
import { crashEverywhere, WorkflowKit } from '../../src/testing/index.ts'
import { programPath } from '../support/programs.ts'

function world(kit: WorkflowKit) {
  const calls: string[] = []
  const pair = workflow('pair', async (ctx, n: number) => {
    // In parallel, so that the outcome of one is recorded between those of the other.
    const [a, b] = await Promise.all([
      ctx.step('a', ({ key }) => kit.effect(() => calls.push(key) && n)),
      ctx.step('b', ({ key }) => kit.effect(() => calls.push(key) && 2)),
    ])
    await ctx.sleep('1m')
    return a * b
  })
  return { pair, calls }
}

it('G5: is created once, with its edit, and continues as if the step had returned it', async () => {
  const sweep = await crashEverywhere(async (kit) => {
    const { pair, calls } = world(kit)
    const run = await kit.run(pair, 3, { id: 'one' })
    const first = await kit.result(run)
    const seq = 4
    await kit.survive((rp) =>
      rp.fork({ timeline: 'workflow/pair/one', seq }, 'two', { set: { a: 10 }, by: 'ann', key: 'k' }),
    )
    const fork = await kit.survive(async (rp) => workflows(rp).of<number>(pair).get('two'))
    const second = await kit.result(fork)
    // The edited step is never called in the fork.
    return { first, second, edited: [...new Set(calls.filter((key) => key.startsWith('a-')))].slice(1) }
  })
  const right = { first: 6, second: 20, edited: [] }
  expect(sweep.undisturbed).toEqual(right)
  expect(sweep.crashes.length).toBeGreaterThan(10)
  for (const { at, outcome } of sweep.crashes) expect({ at, ...outcome }).toEqual({ at, ...right })
})

it('takes one commit, which contains the edit: a claimable run is never without it', async () => {
  let commits = 0
  const kit = new WorkflowKit({
    onCommit: () => {
      commits += 1
    },
  })
  try {
    const { pair } = world(kit)
    const run = await kit.run(pair, 3, { id: 'one' })
    await kit.result(run)
    const rp = await kit.survive(async (engine) => engine)
    const before = commits
    await rp.fork({ timeline: 'workflow/pair/one', seq: 4 }, 'two', { set: { a: 10 } })
    const made = commits - before
    const head = (await rp.head('workflow/pair/two'))!
    expect(made).toBe(1)
    expect(head.seq).toBeGreaterThanOrEqual(head.base!.seq + 2)
  } finally {
    await kit.close()
  }
})

it('G5: a process killed while it forks leaves whole forks or none, and a worker beside it runs none without its edit', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-fork-edits-'))
  const url = `sqlite:${join(folder, 'store.db')}`
  const doubled = workflow('doubled', async (ctx) => (await ctx.step('ask', () => -1)) * 2)
  const rp = await open(url, { housekeeping: false })
  expect(await rp.run(doubled, { id: 'origin' }).result()).toBe(-2)
  const child = fork(programPath('fork-editor'), [url], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  try {
    let acknowledged = 0
    const gone = once(child, 'exit')
    await new Promise<void>((resolve) => {
      child.on('message', (n: number) => {
        acknowledged = n
        if (n === 15) setTimeout(resolve, Math.random() * 20)
      })
    })
    child.kill('SIGKILL')
    await gone
    const runs = workflows(rp).of<number>(doubled)
    const forks = (await runs.list()).filter(({ id }) => id !== 'origin')
    expect(forks.length).toBeGreaterThanOrEqual(acknowledged)
    for (const { id } of forks) expect([id, await runs.get(id).result()]).toEqual([id, 2 * Number(id.slice(5))])
    expect(await rp.verify()).toMatchObject({ ok: true, faults: [] })
  } finally {
    child.kill('SIGKILL')
    await rp.close()
    rmSync(folder, { recursive: true, force: true })
  }
})
