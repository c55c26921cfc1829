// ctx.memo: results that runs share. Each is computed once, recorded like a step, never requested again in a replay, and names
// the run and the step that it was computed for.

import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { entriesBelow } from '../../src/engine/history/conflicting-decision.ts'
import { isReprise, open, type Reprise } from '../../src/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { memo } from '../../src/layers/memo/index.ts'
import { type WorkflowContext, workflow } from '../../src/layers/workflow/index.ts'
import { pause, temporaryFolder } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { programPath } from '../support/programs.ts'
import { onEveryStore } from '../support/worlds.ts'
import { kitWith } from './kits.ts'

const folder = temporaryFolder('shared')

function squares() {
  const calls: number[] = []
  const run = async (n: number) => {
    calls.push(n)
    await pause(20)
    return { square: n * n }
  }
  return { calls, square: memo('square', { version: 1, run }) }
}

/** The outcomes in the history of a run. */
async function doneOf(rp: Reprise, timeline: string): Promise<{ readonly shared?: { readonly from: string } }[]> {
  const host = hostOf(rp)
  const done: { readonly shared?: { readonly from: string } }[] = []
  for await (const { type, data } of entriesBelow(host.kernel, (await host.head(timeline))!)) {
    if (type === 'done') done.push(data as (typeof done)[0])
  }
  return done
}

onEveryStore('ctx.memo', (world) => {
  it('two concurrent runs compute once, and each history records the origin of its result', async () => {
    const w = await world()
    const { calls, square } = squares()
    const flow = workflow('flow', async (ctx, n: number) => await ctx.memo(square, n))
    const engines = [await w.engine(), await w.engine({ worker: 'other' })]
    const ids = ['a', 'b', 'c', 'd']
    const results = await Promise.all(ids.map((id, i) => engines[i % 2]!.run(flow, 3, { id }).result()))
    expect(results).toEqual(Array(4).fill({ square: 9 }))
    expect(calls).toEqual([3])
    const shared: { from: string; for: string; entry: string }[] = []
    for (const id of ids) {
      for (const each of await doneOf(engines[0]!, `workflow/flow/${id}`))
        shared.push(each.shared as (typeof shared)[0])
    }
    expect(shared).toHaveLength(4)
    expect(new Set(shared.map((each) => each.entry)).size).toBe(1)
    // All name the one that computed it: its run, where it stood, and its step.
    const [asked] = [...new Set(shared.map((each) => each.for))]
    expect(new Set(shared.map((each) => each.for)).size).toBe(1)
    expect(asked).toMatch(/^workflow\/flow\/[abcd]@\d+ square\([0-9a-f]{8}\)$/)
    const here = await engines[0]!.open(square)
    const { provenance } = await here.recall([3])
    expect(provenance).toMatchObject({
      for: asked,
      asker: { timeline: asked!.split('@')[0], step: asked!.split(' ')[1] },
    })
    expect(provenance.asker!.digest).toMatch(/^[0-9a-f]+$/)
    expect((await here.explain(3)).comparedWith).toMatchObject({ for: asked })
  })

  it('items of jobs share results too, and name the item', async () => {
    const engine = await (await world()).engine()
    const { calls, square } = squares()
    const got: unknown[] = []
    const squaring = job('squaring', {
      source: [1, 2, 3, 4],
      key: String,
      concurrency: 4,
      each: async (n: number, ctx) => void got.push(await ctx.memo(square, n % 2)),
    })
    await engine.run(squaring).result()
    expect([calls.sort(), got.length]).toEqual([[0, 1], 4])
    const { provenance } = await (await engine.open(square)).recall([1])
    expect(provenance.asker).toMatchObject({ timeline: 'job/squaring', step: expect.stringMatching(/^[13]$/) })
  })

  it('batches of jobs share results too, and name the batch', async () => {
    const engine = await (await world()).engine()
    const { calls, square } = squares()
    const got: unknown[] = []
    const squaring = job('batches', {
      source: [1, 2, 3, 4, 5],
      key: String,
      batch: { size: 3 },
      eachBatch: async (items: readonly number[], ctx) => {
        for (const n of items) got.push(await ctx.memo(square, n % 2))
      },
    })
    await engine.run(squaring).result()
    expect([calls.sort(), got.length]).toEqual([[0, 1], 5])
    const { provenance } = await (await engine.open(square)).recall([1])
    expect(provenance).toMatchObject({ asker: { timeline: 'job/batches', step: '1 and 2 more' } })
  })
})

it('a replay does not compute again, though the entry was forgotten and the code of the memo changed', async () => {
  const kit = kitWith()
  const { calls, square } = squares()
  const body = (definition: typeof square) => async (ctx: WorkflowContext) => {
    const first = await ctx.memo(definition, 2)
    await ctx.sleep('1d')
    return [first, await ctx.memo(definition, 2), await ctx.step('end', () => 1)]
  }
  const run = await kit.run(workflow('replayed', body(square)), { id: 'r' })
  await kit.advance('1m')
  const handle = await kit.rp.open(square)
  expect(await handle.forget(2)).toBe(true)
  const changed = memo('square', { version: 2, run: async (_: number) => ({ square: -1 }) })
  kit.deploy(workflow('replayed', body(changed)))
  expect(await kit.result(run)).toEqual([{ square: 4 }, { square: -1 }, 1])
  expect(calls).toEqual([2])
})

it('other arguments in a replay are a divergence, before any effect (G13)', async () => {
  const kit = kitWith()
  const { calls, square } = squares()
  const body = (n: number) => async (ctx: WorkflowContext) => {
    await ctx.memo(square, n)
    await ctx.sleep('1d')
  }
  const run = await kit.run(workflow('changing', body(2)), { id: 'c' })
  await kit.advance('1m')
  kit.deploy(workflow('changing', body(3)))
  const result = await kit.result(run).catch((error) => error)
  expect(isReprise(result, 'DIVERGED')).toBe(true)
  expect(result.message).toMatch(/the result of square\([0-9a-f]{8}\)/)
  expect(calls).toEqual([2])
})

it('refuses other definitions, and calls inside a step', async () => {
  const kit = kitWith()
  const { square } = squares()
  const wrong = workflow('wrong', async (ctx) => {
    const codes: unknown[] = []
    for (const call of [
      () => ctx.memo({ name: 'x' } as unknown as typeof square, 1),
      () => ctx.step('outer', () => ctx.memo(square, 1)),
    ]) {
      await call().catch((error) => codes.push(error.code))
    }
    return codes
  })
  const run = await kit.run(wrong, { id: 'w' })
  expect(await kit.result(run)).toEqual(['INVALID_ARGUMENT', 'INVALID_ARGUMENT'])
})

it('B9: killed in the computation, before it is recorded or after: it is computed again only if it was not kept', async () => {
  const start = (store: string, log: string, where: string) => {
    const args = [programPath('memo-workflow'), store, 'r', log, where]
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    let said = ''
    child.stdout.on('data', (piece) => {
      said += piece
    })
    return new Promise<string>((done) => child.once('close', (_, signal) => done(signal ?? said.trim())))
  }
  const tried = await Promise.all(
    [
      ['in', 2],
      ['computed', 1],
      ['recorded', 1],
    ].map(async ([where, runs]) => {
      const [store, log] = [join(folder, `${where}.db`), join(folder, `${where}.log`)]
      const killed = await start(store, log, String(where))
      const result = await start(store, log, 'never')
      const rp = await open(`sqlite:${store}`, { housekeeping: false })
      const done = (await doneOf(rp, 'workflow/flow/r')).map(({ shared }) => shared?.from ?? null)
      await rp.close()
      return { killed, result, done, isAsMany: readFileSync(log, 'utf8').split('\n').length - 1 === runs }
    }),
  )
  expect(tried).toEqual([
    { killed: 'SIGKILL', result: '49', done: ['computed', null], isAsMany: true },
    { killed: 'SIGKILL', result: '49', done: ['store', null], isAsMany: true },
    { killed: 'SIGKILL', result: '49', done: ['computed', null], isAsMany: true },
  ])
})
