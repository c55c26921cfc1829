// Code that changes under running workflows (A5.1, A5.4, G13): divergence is found before any effect, patches carry old runs
// over, and the check before a deploy names the runs that would fail.

import { describe, expect, it } from 'vitest'
import { isReprise } from '../../src/index.ts'
import { checkDefinitions, exportHistory, type WorkflowContext, workflow } from '../../src/layers/workflow/index.ts'
import { kitWith } from './kits.ts'

type Code = (ctx: WorkflowContext, log: string[]) => Promise<unknown>

/** Runs the old code until it sleeps, then continues with the new code in another process. */
async function change(before: Code, after: Code) {
  const kit = kitWith()
  const log: string[] = []
  const old = workflow('changing', async (ctx) => await before(ctx, log))
  const run = await kit.run(old, { id: 'c' })
  await kit.advance('1m')
  log.length = 0
  const next = workflow('changing', async (ctx) => await after(ctx, log))
  const check = await checkDefinitions(kit.rp, [next])
  kit.deploy(next)
  const result = await kit.result(run).catch((error) => error)
  return { kit, run, log, check, result }
}

const step = (ctx: WorkflowContext, log: string[], name: string) => ctx.step(name, () => log.push(name))

const original: Code = async (ctx, log) => {
  await step(ctx, log, 'a')
  await step(ctx, log, 'b')
  await ctx.sleep('1d')
  await step(ctx, log, 'c')
  return 'end'
}

describe('a change that history contradicts stops the run before any effect (G13)', () => {
  const steps =
    (...names: string[]): Code =>
    async (ctx, log) => {
      for (const name of names) await (name === 'sleep' ? ctx.sleep('1d') : step(ctx, log, name))
    }
  it.each<[string, string, Code]>([
    ['a renamed step', 'a', steps('A', 'b', 'sleep', 'c')],
    ['a removed step', 'a', steps('b', 'sleep', 'c')],
    ['an inserted step', 'b', steps('a', 'new', 'b', 'sleep', 'c')],
    ['swapped steps', 'a', steps('b', 'a', 'sleep', 'c')],
    ['code that ends early', 'b', steps('a')],
    ['a step that became a sleep', 'a', steps('sleep', 'b', 'sleep', 'c')],
  ])('%s', async (_, at, after) => {
    const { kit, run, log, check, result } = await change(original, after)
    expect(isReprise(result, 'DIVERGED')).toBe(true)
    expect((result as Error).message).toContain(`the result of ${at}`)
    expect(log).toEqual([])
    expect((await kit.handle(run).status()).status).toBe('diverged')
    expect(check).toMatchObject({ ok: false, checked: 1, diverging: [{ timeline: 'workflow/changing/c', step: at }] })
  })

  it('and once the code is fixed, the run continues', async () => {
    const { kit, run } = await change(original, async (ctx, log) => await step(ctx, log, 'A'))
    const log: string[] = []
    kit.deploy(workflow('changing', async (ctx) => await original(ctx, log)))
    await kit.advance('1s')
    expect(await kit.result(run)).toBe('end')
    expect(log).toEqual(['c'])
  })
})

describe('a change that leaves the sequence of commands alone never blocks a run', () => {
  it.each<[string, Code]>([
    [
      'another way to write the same',
      async (ctx, log) => {
        for (const name of ['a', 'b']) await (async () => await step(ctx, log, name))()
        await Promise.all([ctx.sleep('1d')])
        console.debug('refactored')
        await step(ctx, log, 'c')
        return 'end'
      },
    ],
    [
      'another pause, another retry policy',
      async (ctx, log) => {
        await ctx.step('a', () => log.push('a'), { retry: { attempts: 9 } })
        await step(ctx, log, 'b')
        await ctx.sleep('2d')
        await step(ctx, log, 'c')
        return 'end'
      },
    ],
    [
      'more to do at the end',
      async (ctx, log) => {
        await original(ctx, log)
        await step(ctx, log, 'd')
        return 'end'
      },
    ],
    [
      'an await that is no command',
      async (ctx, log) => {
        await step(ctx, log, 'a')
        for (let i = 0; i < 100; i++) await null
        await import('node:path')
        await step(ctx, log, 'b')
        await ctx.sleep('1d')
        await step(ctx, log, 'c')
        return 'end'
      },
    ],
  ])('%s', async (_, after) => {
    const { log, check, result } = await change(original, after)
    expect(result).toBe('end')
    expect(check.ok).toBe(true)
    expect(log[0]).toBe('c')
  })
})

describe('ctx.patch', () => {
  const patched: Code = async (ctx, log) => {
    await step(ctx, log, 'a')
    await step(ctx, log, ctx.patch('b is now B') ? 'B' : 'b')
    await ctx.sleep('1d')
    await step(ctx, log, 'c')
    return ctx.patch('b is now B')
  }

  it('E6: keeps earlier runs on the old path', async () => {
    const { log, result, check } = await change(original, patched)
    expect(check.ok).toBe(true)
    expect(result).toBe(false)
    expect(log).toEqual(['c'])
  })

  it('E6: takes new runs on the new way, and keeps them there', async () => {
    const { log, result } = await change(patched, patched)
    expect(result).toBe(true)
    expect(log).toEqual(['c'])
  })
})

describe('parallel branches', () => {
  it('are free to interleave, and keep their identities when another branch changes', async () => {
    const two =
      (more: boolean): Code =>
      async (ctx, log) => {
        const [left] = await ctx.parallel<unknown>([
          async (own) => {
            await own.step('x', () => 'left')
            await own.sleep('1d')
            return await own.step('x', () => log.push('left again'))
          },
          async (own) => {
            await own.sleep('2d')
            if (more) await own.step('y', () => log.push('more'))
            await own.step('x', () => log.push('right'))
          },
        ])
        return left
      }
    const { log, result, check } = await change(two(false), two(true))
    expect(check.ok).toBe(true)
    expect(result).toBe(1)
    expect(log).toEqual(['left again', 'more', 'right'])
  })
})

it('recorded histories replay against today’s code without a store of their own (A5.4)', async () => {
  const { kit, run } = await change(original, original)
  const history = await exportHistory(kit.rp, run.timeline)
  const text = JSON.parse(JSON.stringify(history))
  const same = workflow('changing', async (ctx) => await original(ctx, []))
  const other = workflow('changing', async (ctx) => await ctx.step('other', () => 1))
  const other2 = workflow('changing', async (ctx) => void (await original(ctx, [])))
  expect(await checkDefinitions(kit.rp, [same], { histories: [text] })).toMatchObject({ ok: true, checked: 1 })
  expect(await checkDefinitions(kit.rp, [other], { histories: [text] })).toMatchObject({ ok: false })
  expect((await checkDefinitions(kit.rp, [other2], { histories: [text] })).diverging[0]?.problem).toContain(
    'another result',
  )
})
