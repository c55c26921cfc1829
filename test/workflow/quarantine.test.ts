// A run that cannot be loaded is set aside with the reason, the others continue, and it returns once the code is fixed.

import { expect, it } from 'vitest'
import type { ClassCodec } from '../../src/core/codec/class-codec.ts'
import { isReprise } from '../../src/core/errors.ts'
import { workflow, workflows } from '../../src/layers/workflow/index.ts'
import { pause, until } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

class Money {
  readonly cents: number

  constructor(cents: number) {
    this.cents = cents
  }
}

/** User code that reads values from history: with a fault, it throws for values above the limit. */
const moneyUpTo = (limit: number): ClassCodec => ({
  name: 'money',
  type: Money,
  encode: (money) => (money as Money).cents,
  decode(cents) {
    if ((cents as number) > limit) throw new TypeError(`no such money: ${cents}`)
    return new Money(cents as number)
  },
})

const pay = workflow('pay', async (ctx, money: Money) => {
  const charged = await ctx.step('charge', () => money.cents)
  await ctx.signal('ship')
  return charged
})

onEveryStore('a run whose code throws while it is loaded', (world) => {
  it('is quarantined with the reason, others continue, and it continues when the code is fixed', async () => {
    const place = await world()
    const first = await place.engine({ classes: [moneyUpTo(Number.POSITIVE_INFINITY)] })
    for (const cents of [5, 500, 6]) {
      await first.run(pay, new Money(cents), { id: `p${cents}` })
    }
    const charged = async () => (await workflows(first).of(pay).list({ status: 'waiting' })).length
    await until(async () => (await charged()) >= 3)
    await first.close()

    const broken = await place.engine({ classes: [moneyUpTo(100)] })
    broken.work([pay])
    const runs = workflows(broken).of<number>(pay)
    for (const id of ['p5', 'p500', 'p6']) await runs.get(id).signal('ship')
    expect(await runs.get('p5').result({ timeout: '4m' })).toBe(5)
    expect(await runs.get('p6').result({ timeout: '4m' })).toBe(6)
    const refused = await runs
      .get('p500')
      .result({ timeout: '4m' })
      .catch((error) => error)
    expect(isReprise(refused, 'UNRECOVERABLE')).toBe(true)
    expect(refused.message).toContain('no such money: 500')
    const aside = await runs.list({ status: 'quarantined' })
    expect(aside.map(({ id }) => id)).toEqual(['p500'])
    expect(aside[0]!.attributes.problem).toContain('no such money: 500')
    // Set aside, not tried over and over.
    const head = await broken.head('workflow/pay/p500')
    await pause(100)
    expect((await broken.head('workflow/pay/p500'))!.epoch).toBe(head!.epoch)
    await broken.close()

    const mended = await place.engine({ classes: [moneyUpTo(Number.POSITIVE_INFINITY)] })
    mended.work([pay])
    const back = workflows(mended).of(pay).get('p500')
    await until(async () => (await back.status()).status !== 'quarantined')
    expect(await back.result({ timeout: '4m' })).toBe(500)
    expect((await mended.head('workflow/pay/p500'))!.attributes.problem).toBeUndefined()
  })
})
