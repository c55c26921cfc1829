// A run whose compensation failed for good has its reason on `reprise ls`, and `reprise doctor` names it until a person decides.

import { expect, it } from 'vitest'
import { workflow } from '../../src/layers/workflow/index.ts'
import { act } from '../../src/operations/act.ts'
import { checkStore } from '../../src/operations/doctor.ts'
import { reasonOf } from '../../src/operations/failures.ts'
import { declareKinds } from '../../src/operations/known-models.ts'
import { until } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

const pay = workflow('pay', async (ctx) => {
  const compensate = () => Promise.reject(new Error('the bank does not answer'))
  await ctx.step('charge', () => 1, { compensate, compensateRetry: { attempts: 1 } })
  throw new Error('no stock')
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
