// Effects of controllers before a receiver that honours keys: an effect belongs to one spec of one object. After a restore, the
// same spec is not charged again, and another spec at the same generation is another intent.

import { join } from 'node:path'
import { expect, it } from 'vitest'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { controller, type ReconcileContext, resource } from '../../src/layers/resource/index.ts'
import { OutsideLedger } from '../../src/testing/index.ts'
import { temporaryFolder, until } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

interface Plan {
  readonly cents: number
}

const plans = resource<Plan>('plans')
const folder = temporaryFolder('effect-keys')
let files = 0

/** Charges each plan at the bank: under the plan's spec, under a declared input, and once when the plan is gone. */
function charges(bank: OutsideLedger) {
  return controller('charges', {
    watch: [plans],
    async reconcile({ name, object, effect }: ReconcileContext<Plan>) {
      if (!object) return void (await effect('close', ({ key }) => bank.receive(key, { close: name })))
      const { cents } = object.spec
      await effect('charge', ({ key }) => bank.receive(key, { charge: name, cents }))
      const currency = cents > 800 ? 'eur' : 'usd'
      await effect('note', ({ key }) => bank.receive(key, { note: name, currency }), { input: { currency } })
    },
  })
}

async function work(rp: Reprise, bank: OutsideLedger): Promise<void> {
  const working = await rp.open(charges(bank))
  await working.settled()
  await working.close()
}

onEveryStore('effects of controllers', (world) => {
  it('keep their key for the same spec after a restore, and have another for another spec of that generation', async () => {
    const bank = new OutsideLedger()
    const rp = await (await world()).engine()
    const file = join(folder, `${++files}.backup`)
    await (await rp.open(plans)).create({ name: 'ann', spec: { cents: 100 } })
    await work(rp, bank)
    await rp.backup(file)
    const change = async (at: Reprise, cents: number) => {
      await (await at.open(plans)).change('ann', () => ({ spec: { cents } }))
      await work(at, bank)
    }
    await change(rp, 500)
    expect(bank.done).toHaveLength(4)
    for (const [cents, done] of [
      [500, 4],
      [700, 5],
      [900, 7],
    ] as const) {
      const restored = await (await world()).engine()
      await restored.restore(file)
      // A backup leaves controllers out: effects from before it are made again under their keys, and the receiver drops them.
      const [before, calls] = [bank.done.length, bank.calls.length]
      await work(restored, bank)
      expect([bank.done.length, bank.calls.length]).toEqual([before, calls + 2])
      await change(restored, cents)
      expect(bank.done).toHaveLength(done)
    }
    expect([bank.confused, bank.repeated.length]).toEqual([[], 1])
    expect(bank.repeated).toEqual([{ note: 'ann', currency: 'usd' }])
  })

  it('run for each end of an object, also where another one had its name', async () => {
    const bank = new OutsideLedger()
    const rp = await (await world()).engine()
    const handle = await rp.open(plans)
    const working = await rp.open(charges(bank))
    for (let n = 1; n <= 2; n++) {
      await handle.create({ name: 'ann', spec: { cents: n } })
      await working.settled()
      await handle.delete('ann')
      await until(() => bank.done.filter((each) => (each as { close?: string }).close === 'ann').length === n)
    }
    expect(bank.confused).toEqual([])
    await working.close()
  })

  it('that were recorded before specs were part of their ids are not made again', async () => {
    const bank = new OutsideLedger()
    const rp = await (await world()).engine()
    const { uid } = await (await rp.open(plans)).create({ name: 'ann', spec: { cents: 100 } })
    const open = await rp.open(controller('charges', { watch: [plans], reconcile: () => undefined }))
    await open.settled()
    await open.close()
    const id = `${uid}/1/charge`
    const raw = await hostOf(rp).openTimeline(
      (await rp.head('controller/charges'))!.timeline,
      hostOf(rp).kernel.models.foldOf((await rp.head('controller/charges'))!.timeline)!,
    )
    await raw.write([{ type: '$effect.intended', data: { id, name: 'charge', key: 'former', reversal: 'none' } }])
    await raw.close()
    await work(rp, bank)
    expect(bank.calls.filter(({ intent }) => 'charge' in (intent as object))).toMatchObject([{ key: 'former' }])
    await work(rp, bank)
    expect(bank.calls.filter(({ intent }) => 'charge' in (intent as object))).toHaveLength(1)
  })
})
