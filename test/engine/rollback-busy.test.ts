// A rollback with takeover wins against processes that keep writing, in a bounded number of attempts: it waits for its turn as
// they do, and the entries written meanwhile are in the archive.

import { expect, it } from 'vitest'
import { aggregate } from '../../src/layers/events/index.ts'
import { onEveryStore } from '../support/worlds.ts'

const account = aggregate('account', {
  initial: () => ({ balance: 0 }),
  evolve: { deposited: (s, e: { amount: number }) => ({ balance: s.balance + e.amount }) },
  decide: { deposit: (_s, c: { amount: number }) => ({ type: 'deposited', amount: c.amount }) },
})

onEveryStore('a rollback with takeover', (world) => {
  it('wins beside two busy writers, each time', async () => {
    const w = await world()
    const [operator, ...writers] = [await w.engine(), await w.engine(), await w.engine()]
    const first = await operator!.open(account, 'ann')
    await first.do('deposit', { amount: 1 })
    await first.close()
    let isOver = false
    const writing = writers.map(async (rp) => {
      const handle = await rp.open(account, 'ann')
      while (!isOver) await handle.do('deposit', { amount: 1 })
      await handle.close()
    })
    const archives: string[] = []
    for (let n = 0; n < 10; n++) {
      const done = await operator!.rollback({ to: { timeline: 'events/account/ann', seq: 1 }, takeover: true })
      archives.push(done.archive!)
    }
    isOver = true
    await Promise.all(writing)
    expect(new Set(archives).size).toBe(10)
    expect((await operator!.verify()).faults).toEqual([])
  })
})
