// An aggregate that is opened at the moment at which its last other holder closes it: mail for it is handled all the same.

import { expect, it } from 'vitest'
import { aggregate, commandTo, sendCommand } from '../../src/layers/events/index.ts'
import { until } from '../support/until.ts'
import { onEveryStore } from '../support/worlds.ts'

const account = aggregate('account', {
  initial: () => 0,
  evolve: { deposited: (sum: number, e: { amount: number }) => sum + e.amount },
  decide: { deposit: (_: number, c: { amount: number }) => ({ type: 'deposited' as const, amount: c.amount }) },
})

onEveryStore(
  'an aggregate',
  (world) => {
    it('that is opened while it is closed handles its mail', async () => {
      const rp = await (await world()).engine()
      rp.work([account])
      const play = async (ticks: number) => {
        const id = `a${ticks}`
        const first = await rp.open(account, id)
        await first.do('deposit', { amount: 1 })
        const opening = Promise.resolve(rp.open(account, id))
        // Each number of ticks begins the close at another place of the open.
        for (let i = 0; i < ticks; i++) await undefined
        const closing = first.close()
        const second = await opening
        await closing
        await second.do('deposit', { amount: 2 })
        await sendCommand(rp, commandTo(account, id, 'deposit', { amount: 4 }))
        await until(async () => (await rp.head(`events/account/${id}`))!.seq === 3)
        await second.close()
        return (await rp.head(`events/account/${id}`))!.mail
      }
      const unread = await Promise.all(Array.from({ length: 12 }, (_, ticks) => play(ticks)))
      expect(unread).toEqual(Array(12).fill(0))
    })
  },
  ['memory', 'sqlite'],
)
