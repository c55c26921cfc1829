// A run that is imported under another id follows the rules of a fork (docs/guides/forks.md): it is executed at once, waits for a
// child and a queue place of its own, and takes over signals and updates that its original has not read, but no requests.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import type { Reprise } from '../../src/index.ts'
import { queue, workflow, workflows } from '../../src/layers/workflow/index.ts'
import { until } from '../support/until.ts'
import { onEveryStore } from '../support/worlds.ts'

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

/** A file with the run, and with a checkpoint of it if `saved`. */
async function exported(rp: Reprise, timeline: string, saved = false): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-copies-'))
  folders.push(folder)
  const file = join(folder, 'one.reprise')
  const { seq } = (await rp.head(timeline))!
  if (saved) await rp.savepoint({ timeline, seq })
  await rp.export({ timeline, seq }, file)
  return file
}

onEveryStore('a copied run', (world) => {
  it.each([false, true])(
    'starts a child of its own, while the child of its original runs (saved: %s)',
    async (saved) => {
      const rp = await (await world()).engine()
      const part = workflow('part', async (ctx, of: string) => `${of} ${await ctx.signal<string>('go')}`)
      const whole = workflow('whole', async (ctx) => {
        const id = await ctx.step('name', () => 'part of')
        return await ctx.child(part, id)
      })
      const run = await rp.run(whole, { id: 'a' })
      const children = async () => (await rp.list({ prefix: 'workflow/part/' })).map((head) => head.timeline)
      const isWaiting = async (id: string) => (await rp.head(id))?.status === 'waiting'
      await until(async () => (await children()).length === 1 && (await isWaiting((await children())[0]!)))
      const [first] = await children()
      await rp.import(await exported(rp, run.timeline, saved), { as: 'workflow/whole/copy' })
      await until(async () => (await children()).length === 2)
      const [second] = (await children()).filter((id) => id !== first)
      const handle = async (id: string) => await workflows(rp).of(part).get(id.slice('workflow/part/'.length))
      await (await handle(second!)).signal('go', 'copy')
      const copy = await workflows(rp).of(whole).get('copy')
      expect(await copy.result()).toBe('part of copy')
      await (await handle(first!)).signal('go', 'original')
      expect(await run.result()).toBe('part of original')
      expect(await children()).toHaveLength(2)
    },
  )

  it('calls a step under its own key that is held in its original; the original stays held', async () => {
    const w = await world()
    const before = await w.engine({ worker: 'before' })
    const keys: string[] = []
    let hangs = true
    const risky = workflow('risky', async (ctx) => {
      const call = async ({ key }: { readonly key: string }) => {
        keys.push(key)
        if (hangs) await new Promise(() => undefined)
        return 'paid'
      }
      return await ctx.step('pay', call, { inDoubt: 'hold' })
    })
    const run = await before.run(risky, { id: 'a' })
    await until(async () => keys.length === 1)
    await before.close({ grace: 1 })
    hangs = false
    const rp = await w.engine()
    rp.work([risky])
    const status = async (id: string) => (await rp.head(`workflow/risky/${id}`))!.status
    await until(async () => (await status('a')) === 'held')
    await rp.import(await exported(rp, run.timeline), { as: 'workflow/risky/copy' })
    expect(await (await workflows(rp).of(risky).get('copy')).result()).toBe('paid')
    expect(await status('a')).toBe('held')
    expect(new Set(keys).size).toBe(2)
  })

  it('waits for a place of its own, though its original has an unread admission', async () => {
    const w = await world()
    const lane = queue('lane', { concurrency: 1 })
    const order: string[] = []
    const step = workflow(
      'step',
      async (ctx) => {
        await ctx.step('in', () => void order.push(`${ctx.id} in`))
        await ctx.signal('go')
        await ctx.step('out', () => void order.push(`${ctx.id} out`))
      },
      { queue: lane },
    )
    const starter = await w.engine({ worker: 'starter' })
    for (const id of ['first', 'a']) await starter.run(step, { id })
    await until(async () => order.includes('first in'))
    await starter.close()
    // This process admits runs, and executes none.
    const admitting = await w.engine({ worker: 'admitting' })
    admitting.work([lane])
    await (await workflows(admitting).of(step).get('first')).terminate({ reason: 'enough' })
    await until(async () => (await admitting.head('workflow/step/a'))!.mail === 1)
    await admitting.import(await exported(admitting, 'workflow/step/a'), { as: 'workflow/step/copy' })
    expect(await admitting.head('workflow/step/copy')).toMatchObject({ status: 'queued', mail: 0 })
    await admitting.close()
    const rp = await w.engine()
    rp.work([step])
    const [run, copy] = [await workflows(rp).of(step).get('a'), await workflows(rp).of(step).get('copy')]
    await copy.signal('go')
    await run.signal('go')
    await Promise.all([run.result(), copy.result()])
    expect(order).toEqual(['first in', 'a in', 'a out', 'copy in', 'copy out'])
  })

  it('takes over unread signals, but neither the result of a child nor a request', async () => {
    const w = await world()
    const part = workflow('part', async (ctx) => ctx.id)
    const whole = workflow('whole', async (ctx) => [await ctx.child(part), await ctx.signal('word')])
    const starter = await w.engine({ worker: 'starter' })
    // Only started: no process executes the parent until its mail has arrived.
    const run = await starter.run(whole, { id: 'a', here: false })
    await starter.send(run.timeline, 'signal', { name: 'word', value: 'hello' })
    await starter.send(run.timeline, 'child', { command: '0:~child:part', result: 'of the original' })
    await starter.send(run.timeline, 'cancel', { reason: 'enough' })
    await starter.import(await exported(starter, run.timeline), { as: 'workflow/whole/copy' })
    expect((await starter.head('workflow/whole/copy'))!.mail).toBe(1)
    starter.work([whole, part])
    const copy = await workflows(starter).of(whole).get('copy')
    expect(await copy.result()).toEqual([expect.stringContaining('copy'), 'hello'])
    await expect(run.result()).rejects.toThrow('enough')
  })

  it('applies an update under a key that its original knows', async () => {
    const rp = await (await world()).engine()
    const till = workflow('till', async (ctx) => {
      let total = 0
      ctx.onUpdate('add', (amount: number) => {
        total += amount
        return total
      })
      return await ctx.signal('end')
    })
    const run = await rp.run(till, { id: 'a' })
    expect(await run.update('add', 5, { key: 'k' })).toBe(5)
    await rp.import(await exported(rp, run.timeline), { as: 'workflow/till/copy' })
    const copy = await workflows(rp).of(till).get('copy')
    await until(async () => (await copy.state()).forkedAt !== undefined)
    expect(await copy.update('add', 9, { key: 'k' })).toBe(14)
    expect(await run.update('add', 9, { key: 'k' })).toBe(5)
  })

  it('enters its queue under an id that was used before', async () => {
    const rp = await (await world()).engine()
    const lane = queue('lane', { concurrency: 1 })
    const step = workflow('step', async (ctx) => await ctx.signal('go'), { queue: lane })
    const run = await rp.run(step, { id: 'a' })
    const file = await exported(rp, run.timeline)
    await run.signal('go', 'first')
    expect(await run.result()).toBe('first')
    for (const word of ['second', 'third']) {
      await rp.import(file, { as: 'workflow/step/copy' })
      const copy = await workflows(rp).of(step).get('copy')
      await copy.signal('go', word)
      expect(await copy.result()).toBe(word)
      await rp.delete(copy.timeline)
    }
    for (const word of ['fourth', 'fifth']) {
      await rp.delete(run.timeline)
      const again = await rp.run(step, { id: 'a' })
      await again.signal('go', word)
      expect(await again.result()).toBe(word)
    }
  })

  it('reports to a parent that had a child of the same id before', async () => {
    const rp = await (await world()).engine()
    const part = workflow('part', async (_, n: number) => n * 10)
    const whole = workflow('whole', async (ctx) => {
      const first = await ctx.child(part, 1, { id: 'daily' })
      await ctx.signal('again')
      return [first, await ctx.child(part, 2, { id: 'daily' })]
    })
    const run = await rp.run(whole, { id: 'a' })
    await until(async () => (await run.waitsFor()).some(({ kind }) => kind === 'signal'))
    await rp.delete('workflow/part/daily')
    await run.signal('again')
    expect(await run.result()).toEqual([10, 20])
  })
})
