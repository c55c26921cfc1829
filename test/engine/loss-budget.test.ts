// Loss budgets: a checkpoint in time, saves in time, and the card, the doctor and the metrics when a budget is not kept.

import { join } from 'node:path'
import { expect, it } from 'vitest'
import { lossInterval } from '../../src/core/checkpoint/checkpoint-policy.ts'
import { open, type Reprise, timeline } from '../../src/index.ts'
import { exec } from '../../src/layers/exec/index.ts'
import { specOf } from '../../src/layers/exec/options.ts'
import { save } from '../../src/layers/save/index.ts'
import { checkStore } from '../../src/operations/doctor.ts'
import { overBudget } from '../../src/operations/loss-budgets.ts'
import { shippingHealth } from '../../src/operations/shipping.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'

const folder = temporaryFolder('loss-budget')
const budgetOf = async (rp: Reprise) => (await checkStore(rp)).filter(({ name }) => name === 'loss budgets')

it('A4.8: a timeline is checkpointed in time without another append, and its card shows the budget', async () => {
  const rp = await open('memory:', { housekeeping: false })
  const counter = timeline('counter', {
    initial: () => 0,
    apply: (n: number, _e: { type: 'x' }) => n + 1,
    checkpoint: { loseAtMost: '400ms' },
  })
  const handle = await rp.open(counter, 'a')
  await handle.append({ type: 'x' })
  await expect.poll(async () => (await rp.checkpoints('counter/a')).map(({ trigger }) => trigger)).toEqual(['loss'])
  const { loss, checkpointing } = await rp.card('counter/a')
  expect(loss).toMatchObject({ loseAtMostMs: 400, unsavedMs: null })
  // On a busy machine a checkpoint may take too long for this budget.
  expect(checkpointing.because.join()).toMatch(/(?:lose|losing) at most 400ms/)
  await rp.close()
})

it('A4.8: a budget that no checkpoint can keep is reported, and captures then take at most half of the time', () => {
  expect(lossInterval(60_000, 1000)).toEqual({ ms: 46_000, isKept: true })
  expect(lossInterval(1000, 500)).toEqual({ ms: 500, isKept: false })
})

it('A4.8: a save that is not made in time is over its budget on the card, in the doctor and in the metrics; autosave keeps it', async () => {
  const rp = await open('memory:', { housekeeping: false })
  const strict = await rp.open(save<{ n: number }>('strict', { loseAtMost: '20ms' }))
  await strict.put({ n: 1 })
  await expect.poll(async () => (await rp.card('save/strict')).loss?.isKept).toBe(false)
  expect(await budgetOf(rp)).toMatchObject([{ state: 'bad', what: expect.stringMatching(/^save\/strict: not kept/) }])
  expect(await overBudget(rp)).toBe(1)
  await strict.close()
  expect(await budgetOf(rp)).toMatchObject([{ state: 'ok' }])
  let n = 0
  const model = await rp.open(save<{ n: number }>('model', { loseAtMost: '300ms' }))
  model.autosave(() => ({ n: ++n }))
  await expect.poll(async () => (await model.list()).length, { interval: 20 }).toBeGreaterThanOrEqual(2)
  await model.close()
  const saved = n
  expect((await save<{ n: number }>('model').read(rp).latest())?.value.n).toBe(saved)
  const without = await rp.open(save<number>('without'))
  expect(() => without.autosave(() => 1)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
  expect(() => save('none', { loseAtMost: 0 })).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
  await rp.close()
})

it('A4.8: an autosave that fails is reported and retried', async () => {
  const rp = await open('memory:', { housekeeping: false })
  const model = await rp.open(save<number>('flaky', { loseAtMost: '100ms' }))
  const failed: number[] = []
  hostOf(rp).events.on('checkpoint-failed', ({ failuresInARow }) => void failed.push(failuresInARow))
  let calls = 0
  model.autosave(() => {
    calls += 1
    if (calls <= 2) throw new Error('not now')
    return calls
  })
  await expect.poll(async () => (await model.list()).length).toBeGreaterThan(0)
  expect(failed).toEqual([1, 2])
  await rp.close()
})

it('A4.8: a program is captured after half of its budget, and stores it for later starts', async () => {
  const options = { command: ['true'], state: join(folder, 'ckpt'), loseAtMost: '10s' } as const
  expect(specOf('p', options)).toMatchObject({ everyMs: 5000, loseAtMostMs: 10_000 })
  expect(specOf('p', { ...options, every: '2s' }).everyMs).toBe(2000)
  // The program itself decides when its files are complete: the budget only alarms.
  expect(specOf('p', { ...options, marker: 'done' }).everyMs).toBe(null)
  const rp = await open('memory:', { housekeeping: false })
  await (await rp.run(exec('p', options))).result()
  expect((await rp.card('exec/p')).loss).toMatchObject({ loseAtMostMs: 10_000, isKept: true })
  await rp.close()
})

it('A4.8: commits that are not shipped within the budget are reported', async () => {
  const file = join(folder, 'a.db')
  const rp = await open(`sqlite:${file}`, { housekeeping: false })
  const notes = await rp.open(save<number>('notes'))
  await notes.put(1)
  const place = join(folder, 'place')
  expect((await rp.ship(place, { once: true, loseAtMost: '2s' })).intervalMs).toBe(500)
  await notes.put(2)
  const [late] = await shippingHealth(rp, Date.now() + 60_000)
  expect(late).toMatchObject({ state: 'bad', what: expect.stringContaining('at most 2s may be lost') })
  await rp.close()
})
