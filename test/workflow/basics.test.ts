// A workflow without failures, on every store.

import { expect, it } from 'vitest'
import { workflow } from '../../src/layers/workflow/index.ts'
import { onEveryStore } from '../support/worlds.ts'

onEveryStore('C1: a workflow', (world) => {
  it('runs its steps in order and keeps its result', async () => {
    const calls: string[] = []
    const greet = workflow('greet', async (ctx, name: string) => {
      const a = await ctx.step('first', ({ key }) => {
        calls.push(key)
        return `hello ${name}`
      })
      const b = await ctx.step('second', async ({ key }) => {
        calls.push(key)
        return `${a}!`
      })
      return b
    })
    const rp = await (await world()).engine()
    const run = await rp.run(greet, 'ann', { id: 'r1' })
    expect(await run.result()).toBe('hello ann!')
    expect(calls).toEqual([
      expect.stringMatching(/^first-[0-9a-f]{32}$/),
      expect.stringMatching(/^second-[0-9a-f]{32}$/),
    ])
    expect((await run.status()).status).toBe('completed')
    const again = await rp.run(greet, 'ann', { id: 'r1' })
    expect(await again.result()).toBe('hello ann!')
    expect(calls).toHaveLength(2)
  })

  it('fails with what its code threw, after undoing its steps in reverse', async () => {
    const undone: string[] = []
    const saga = workflow('saga', async (ctx) => {
      await ctx.step('a', () => 1, { compensate: (n, { key }) => undone.push(`a${n} ${key}`) })
      await ctx.step('b', () => 2, { compensate: (n) => undone.push(`b${n}`) })
      throw new TypeError('no way')
    })
    const rp = await (await world()).engine()
    const run = await rp.run(saga, { id: 's' })
    await expect(run.result()).rejects.toThrow(TypeError)
    expect(undone).toEqual(['b2', expect.stringMatching(/^a1 a-[0-9a-f]{32}~undo$/)])
    expect((await run.status()).status).toBe('failed')
  })

  it('sleeps, waits for signals that came before it, and runs children', async () => {
    const child = workflow('child', async (ctx, n: number) => {
      await ctx.sleep(20)
      return n * 2
    })
    const parent = workflow('parent', async (ctx, n: number) => {
      await ctx.sleep(10)
      const extra = await ctx.signal<number>('extra')
      const [a, b] = await Promise.all([ctx.child(child, n), ctx.child(child, extra)])
      return a + b
    })
    const rp = await (await world()).engine()
    const run = await rp.run(parent, 1, { id: 'p' })
    await run.signal('extra', 5)
    expect(await run.result()).toBe(12)
  })

  it('loops with bounded history and stops with a result', async () => {
    const loop = workflow('loop', async (ctx, to: number) => {
      return await ctx.loop({ n: 0, sum: 0 }, async ({ n, sum }, own) => {
        if (n === to) return own.stop(sum)
        const add = await ctx.step('add', () => n)
        return { n: n + 1, sum: sum + add }
      })
    })
    const rp = await (await world()).engine()
    const run = await rp.run(loop, 30, { id: 'l' })
    expect(await run.result()).toBe(435)
  })
})
