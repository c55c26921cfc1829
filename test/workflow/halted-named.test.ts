// A run that waits for a person (stuck, held, diverged) has its reason on `reprise ls`, and `reprise doctor` names it until the
// person has decided.

import { expect, it } from 'vitest'
import { workflow } from '../../src/layers/workflow/index.ts'
import { checkStore } from '../../src/operations/doctor.ts'
import { reasonOf } from '../../src/operations/failures.ts'
import { declareKinds } from '../../src/operations/known-models.ts'
import { act } from '../../src/operations/run-verb.ts'
import { until } from '../support/fixture.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

const pay = workflow('pay', async (ctx) => {
  const compensate = () => Promise.reject(new Error('the bank does not answer'))
  await ctx.step('charge', () => 1, { compensate, compensateRetry: { attempts: 1 } })
  throw new Error('no stock')
})

const never = () => new Promise<never>(() => undefined)
const doubt = workflow('doubt', async (ctx) => await ctx.step('charge', never, { inDoubt: 'hold' }))
const trip = workflow(
  'trip',
  async (ctx) => {
    const compensate = () => Promise.reject(new Error('the hotel does not answer'))
    await ctx.step('hotel', () => 1, { compensate, compensateRetry: { attempts: 1 } })
    throw new Error('no money')
  },
  { whenUndoFails: 'restore' },
)
const older = workflow('changed', async (ctx) => {
  await ctx.step('first', () => 1)
  await ctx.signal('go')
})
const newer = workflow('changed', async (ctx) => {
  await ctx.step('other', () => 1)
  await ctx.signal('go')
})

/** Each moves a run to its status, and leaves it there. */
const halted = [
  {
    timeline: 'workflow/doubt/r',
    status: 'held',
    reason: 'held at charge: a person must settle it',
    async halt(w: World) {
      const killed = await w.engine()
      await killed.run(doubt, { id: 'r' })
      await until(async () => (await killed.head('workflow/doubt/r'))!.seq >= 2)
      await killed.close({ grace: 0 })
      ;(await w.engine()).work([doubt])
    },
  },
  {
    timeline: 'workflow/trip/r',
    status: 'held',
    reason: 'went back to hotel: hotel is still in effect (the hotel does not answer)',
    halt: async (w: World) => void (await (await w.engine()).run(trip, { id: 'r' })),
  },
  {
    timeline: 'workflow/changed/r',
    status: 'diverged',
    reason: 'first',
    async halt(w: World) {
      const before = await w.engine()
      await before.run(older, { id: 'r' })
      await until(async () => (await before.head('workflow/changed/r'))!.status === 'waiting')
      await before.close()
      const after = await w.engine()
      after.work([newer])
      await after.send('workflow/changed/r', 'signal', { name: 'go' })
    },
  },
]

onEveryStore('a run that waits for a person', (world) => {
  it.each(halted)('has its reason in a list, and is named by doctor: $timeline', async (each) => {
    const { timeline, status, reason, halt } = each
    const w = await world()
    await halt(w)
    const looking = await w.engine()
    await declareKinds(looking)
    await until(async () => (await looking.head(timeline))?.status === status)
    expect(await reasonOf(looking, (await looking.head(timeline))!, Date.now())).toContain(reason)
    const named = (await checkStore(looking)).find(({ name }) => name === `${status} runs`)
    expect(named).toMatchObject({ state: 'bad', what: expect.stringContaining(`${timeline}: `) })
    expect(named!.what).toContain(reason)
  })
})

onEveryStore('a run that is due', (world) => {
  it('has its reason in a list once no worker has taken it for a minute', async () => {
    const w = await world()
    const before = await w.engine()
    await before.run(older, { id: 'r' })
    await until(async () => (await before.head('workflow/changed/r'))!.status === 'waiting')
    await before.close()
    const looking = await w.engine()
    await looking.send('workflow/changed/r', 'signal', { name: 'go' })
    const head = (await looking.head('workflow/changed/r'))!
    const reasonAfter = (ms: number) => reasonOf(looking, head, head.updatedAt + ms)
    expect(await reasonAfter(60_000)).toBe('')
    expect(await reasonAfter(180_000)).toBe('due since 3m ago, but no worker executes it')
  })
})

onEveryStore('a run that is stuck', (world) => {
  it('has its reason in a list, and is named by doctor until it is settled', async () => {
    const w = await world()
    const worker = await w.engine()
    await worker.run(pay, { id: 'r' })
    const looking = await w.engine()
    await declareKinds(looking)
    const head = async () => (await looking.head('workflow/pay/r'))!
    await until(async () => (await head()).status === 'stuck')
    const named = async () => (await checkStore(looking)).find(({ name }) => name === 'compensations')
    const reason = 'stuck undoing charge: the bank does not answer'
    expect(await reasonOf(looking, await head(), Date.now())).toBe(reason)
    expect(await named()).toMatchObject({ state: 'bad', what: `workflow/pay/r is ${reason}` })
    await act(looking, await head(), 'settle', { step: 'charge', outcome: 'compensated', by: 'ann' })
    await until(async () => (await head()).status === 'failed')
    expect(await reasonOf(looking, await head(), Date.now())).toBe('no stock')
    expect(await named()).toBeUndefined()
  })
})
