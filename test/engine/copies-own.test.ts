// A timeline that is imported beside its original is like a fork: it undoes its own effects, and those of the original only by
// choice. A fork stays one over exports, moves and restores.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { type Reprise, timeline } from '../../src/index.ts'
import { agent, tool } from '../../src/layers/agent/index.ts'
import { queue, workflow, workflows } from '../../src/layers/workflow/index.ts'
import { effectsOf } from '../../src/operations/effects.ts'
import { until } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

function newFile(): string {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-copies-'))
  folders.push(folder)
  return join(folder, 'one.reprise')
}

async function exported(rp: Reprise, of: string): Promise<string> {
  const file = newFile()
  await rp.export({ timeline: of, seq: (await rp.head(of))!.seq }, file)
  return file
}

/** Counts charges and refunds, and honours no keys. */
function shop() {
  let charges = 0
  const refunds: string[] = []
  const pay = async () => `paid-${++charges}`
  const buy = workflow('buy', async (ctx) => {
    await ctx.step('charge', pay, { compensate: (paid) => void refunds.push(paid) })
    await ctx.signal('go')
    await ctx.step('ship', pay, { compensate: (shipped) => void refunds.push(shipped) })
    await ctx.signal('end')
  })
  const clerk = agent('clerk', {
    model: async () => ({ content: 'ok' }),
    tools: {
      pay: tool({
        kind: 'compensatable',
        run: (_args: { n: number }) => pay(),
        compensate: (_args, paid) => void refunds.push(String(paid)),
      }),
    },
  })
  const waiting = async (rp: Reprise, id: string) => {
    const run = await rp.run(buy, { id })
    await until(async () => (await run.waitsFor()).some(({ kind }) => kind === 'signal'))
    return run
  }
  const cancelled = async (rp: Reprise, id: string, options = {}) => {
    rp.work([buy])
    const run = await workflows(rp).of(buy).get(id)
    await run.cancel({ reason: 'a trial', ...options })
    await run.result().catch(() => undefined)
    return await run.status()
  }
  return { buy, clerk, refunds, waiting, cancelled }
}

const code = (expected: string) => expect.objectContaining({ code: expected })
const tally = timeline('tally', { initial: () => 0, apply: (sum) => sum })

onEveryStore('a copy beside its original', (world) => {
  it('G19, A6.6: a run under another id refunds its own payments, and its original the rest, once', async () => {
    const rp = await (await world()).engine()
    const { buy, refunds, waiting, cancelled } = shop()
    const run = await waiting(rp, 'a')
    await rp.import(await exported(rp, run.timeline), { as: 'workflow/buy/copy' })
    rp.work([buy])
    const copy = await workflows(rp).of(buy).get('copy')
    await copy.signal('go')
    await until(async () => (await copy.waitsFor()).some(({ name }) => name === 'end'))
    expect(await cancelled(rp, 'copy')).toMatchObject({ status: 'cancelled' })
    expect(refunds).toEqual(['paid-2'])
    const shown = await effectsOf(rp, (await rp.head('workflow/buy/copy'))!)
    expect(shown).toMatchObject([{ name: 'charge', inheritedFrom: 'workflow/buy/a' }, { name: 'ship' }])
    expect(shown[1]).not.toHaveProperty('inheritedFrom')
    // Rolled back and completed copies do the same.
    await rp.import(await exported(rp, run.timeline), { as: 'workflow/buy/back' })
    const back = await workflows(rp).of(buy).get('back')
    await back.rollback({ to: 'charge' })
    await until(
      async () =>
        (await back.state()).generation === 1 && (await back.waitsFor()).some(({ kind }) => kind === 'signal'),
    )
    expect(refunds).toEqual(['paid-2'])
    await cancelled(rp, 'back')
    expect(refunds).toEqual(['paid-2', 'paid-3'])
    await cancelled(rp, 'a')
    expect(refunds).toEqual(['paid-2', 'paid-3', 'paid-1'])
  })

  it("G19: { undo: 'inherited' } refunds the original's payments once, whichever is first", async () => {
    const rp = await (await world()).engine()
    const { refunds, waiting, cancelled } = shop()
    const run = await waiting(rp, 'a')
    const file = await exported(rp, run.timeline)
    for (const id of ['one', 'two', 'three']) await rp.import(file, { as: `workflow/buy/${id}` })
    await cancelled(rp, 'one', { undo: 'inherited' })
    expect(refunds).toEqual(['paid-1'])
    await expect(cancelled(rp, 'two', { undo: 'inherited' })).rejects.toEqual(code('ALREADY_UNDONE'))
    await cancelled(rp, 'two')
    await cancelled(rp, 'a')
    await expect(cancelled(rp, 'three', { undo: 'inherited' })).rejects.toEqual(code('ALREADY_UNDONE'))
    expect(refunds).toEqual(['paid-1'])
  })

  it('G19: it is not undone where the original is in another store, though another of its id is here', async () => {
    const [here, there] = [await (await world()).engine(), await (await world()).engine()]
    const { refunds, waiting, cancelled } = shop()
    const run = await waiting(here, 'a')
    await there.import(await exported(here, run.timeline), { as: 'workflow/buy/copy' })
    await expect(cancelled(there, 'copy', { undo: 'inherited' })).rejects.toEqual(code('INHERITED'))
    // Its history is the same, entry by entry; it is another run all the same.
    await waiting(there, 'a')
    await expect(cancelled(there, 'copy', { undo: 'inherited' })).rejects.toEqual(code('INHERITED'))
    expect(await cancelled(there, 'copy')).toMatchObject({ status: 'cancelled' })
    expect(refunds).toEqual([])
  })

  it('G19: a session and the effects of a timeline under another id', async () => {
    const rp = await (await world()).engine()
    const { clerk, refunds } = shop()
    const main = await rp.open(clerk, 'main')
    await main.turn('one')
    await main.use('pay', { n: 1 })
    await rp.import(await exported(rp, main.timeline), { as: 'agent/clerk/copy' })
    const copy = await rp.open(clerk, 'copy')
    // The first is known: its result is read.
    for (const n of [1, 2]) await copy.use('pay', { n })
    expect(copy.planRollback({ to: 0 })).toMatchObject({
      compensate: [{ result: 'paid-2' }],
      inherited: [{ result: 'paid-1', inheritedFrom: 'agent/clerk/main' }],
    })
    await copy.rollback({ to: 0 })
    expect(refunds).toEqual(['paid-2'])
    // After a rollback, and of a fork of the copy, it is the original's all the same.
    const again = await rp.open(clerk, 'copy')
    await again.rollback({ to: { seq: 1 } })
    await again.close()
    const first = await rp.open(tally, 'x')
    await first.effects.run('charge', async () => 'paid', { reversal: 'compensate' })
    await first.close()
    await rp.import(await exported(rp, 'tally/x'), { as: 'tally/y' })
    const end = (await rp.head('tally/y'))!.seq
    await rp.rollback({ to: { timeline: 'tally/y', seq: end - 1 } })
    await rp.fork({ timeline: 'tally/y~1', seq: end }, 'tally/z')
    const fork = await rp.open(tally, 'z')
    const refund = () => fork.effects.compensate('charge', async () => void refunds.push('charge'))
    await expect(refund()).rejects.toEqual(code('INHERITED'))
    const plan = await rp.planRollback('tally/z', { seq: 1 })
    expect(plan.undone.effects).toMatchObject({ compensate: [], inherited: [{ inheritedFrom: 'tally/x' }] })
    await expect(main.rollback({ to: 0 })).rejects.toEqual(code('CONSUMED'))
    await main.rollback({ to: 0, consumed: 'force' })
    expect(refunds).toEqual(['paid-2', 'paid-1'])
  })

  it('G19: a fork stays the fork of its original over an export, a move and a restore', async () => {
    const [here, there, restored] = [await world(), await world(), await world()]
    const { refunds, waiting, cancelled } = shop()
    const rp = await here.engine()
    const run = await waiting(rp, 'a')
    const seq = (await rp.head(run.timeline))!.seq
    for (const id of ['moved', 'kept']) await rp.fork({ timeline: run.timeline, seq }, id)
    const other = await there.engine()
    await other.import(await exported(rp, 'workflow/buy/moved'))
    expect(await cancelled(other, 'moved')).toMatchObject({ status: 'cancelled' })
    await rp.close()
    const backup = newFile()
    const quiet = await here.engine()
    await quiet.backup(backup)
    const copy = await restored.engine()
    await copy.restore(backup)
    expect(await cancelled(copy, 'kept')).toMatchObject({ status: 'cancelled' })
    expect(refunds).toEqual([])
    await cancelled(copy, 'moved', { undo: 'inherited' })
    expect(refunds).toEqual(['paid-1'])
    await cancelled(copy, 'a')
    expect(refunds).toEqual(['paid-1'])
  })

  it('G19: a copy of a run with a queue and a parent waits for a place of its own, and its result is sent to no parent', async () => {
    const rp = await (await world()).engine()
    const lane = queue('lane', { concurrency: 1 })
    const step = workflow('step', async (ctx) => await ctx.signal<string>('go'), { queue: lane })
    const whole = workflow('whole', async (ctx) => await ctx.child(step, { id: 'child' }))
    const parent = await rp.run(whole, { id: 'p' })
    rp.work([step])
    await until(async () => (await rp.head('workflow/step/child'))?.status === 'waiting')
    const child = await workflows(rp).of(step).get('child')
    await until(async () => (await child.waitsFor()).some(({ kind }) => kind === 'signal'))
    await rp.import(await exported(rp, child.timeline), { as: 'workflow/step/copy' })
    const copy = await workflows(rp).of(step).get('copy')
    await copy.signal('go', 'of the copy')
    // The original has the only place.
    await until(async () => (await rp.head('workflow/step/copy'))!.status === 'queued')
    await child.signal('go', 'of the child')
    expect(await parent.result()).toBe('of the child')
    expect(await copy.result()).toBe('of the copy')
  })
})
