// A fork is a trial: its entries reach no projection, consumer or process manager, unless they include forks.

import { expect, it } from 'vitest'
import { aggregate, commandTo, processManager, projection } from '../../src/layers/events/index.ts'
import { consumer } from '../../src/layers/job/index.ts'
import { onEveryStore } from '../support/worlds.ts'

const account = aggregate('account', {
  initial: () => ({ balance: 0 }),
  evolve: { deposited: (s, e: { amount: number }) => ({ balance: s.balance + e.amount }) },
  decide: { deposit: (_s, c: { amount: number }) => ({ type: 'deposited', amount: c.amount }) },
})

onEveryStore('forks', (world) => {
  it('A9.1: a what-if fork of an aggregate changes nothing but itself; a rollback is no fork', async () => {
    const w = await world()
    const rp = await w.engine()
    const a = await rp.open(account, 'ann')
    for (const amount of [1, 2, 4]) await a.do('deposit', { amount })
    const totals = (name: string, forks: boolean) =>
      projection(name, {
        from: [account],
        forks,
        initial: () => new Map<string, number>(),
        on: { deposited: (m, e, at) => void m.set(at.id, (m.get(at.id) ?? 0) + e.amount) },
      })
    const p = await rp.open(totals('totals', false))
    const q = await rp.open(totals('trials', true))
    const manager = processManager('thanks', {
      from: [account],
      on: {
        deposited: (_e, at) => (at.id === 'till' ? undefined : commandTo(account, 'till', 'deposit', { amount: 1 })),
      },
    })
    const runner = await rp.open(manager)
    await Promise.all([p.catchUp(), runner.catchUp()])
    await rp.fork({ timeline: 'events/account/ann', seq: 1 }, 'what-if')
    // Before its parent's first event, too.
    await rp.fork({ timeline: 'events/account/ann', seq: 0 }, 'from-nothing')
    const trial = await rp.open(account, 'what-if')
    expect(trial.state).toEqual({ balance: 1 })
    await trial.do('deposit', { amount: 100 })
    await (await rp.open(account, 'from-nothing')).do('deposit', { amount: 1000 })
    await trial.close()
    // Only one of the readers includes forks.
    const consumers = [{ kind: 'projection', timeline: 'projection/trials' }]
    const refused = rp.rollback({ to: { timeline: 'events/account/what-if', seq: 1 } })
    await expect(refused).rejects.toMatchObject({ code: 'CONSUMED', data: { consumers } })
    await rp.rollback({ to: { timeline: 'events/account/what-if', seq: 1 }, consumed: 'force' })
    await (await rp.open(account, 'what-if')).do('deposit', { amount: 200 })
    await a.close()
    await rp.rollback({ to: { timeline: 'events/account/ann', seq: 2 }, consumed: 'force' })
    await (await rp.open(account, 'ann')).do('deposit', { amount: 8 })
    expect([...(await p.catchUp())]).toEqual([['ann', 1 + 2 + 8]])
    expect((await q.catchUp()).get('from-nothing')).toBe(1000)
    expect((await q.catchUp()).get('what-if')).toBeGreaterThanOrEqual(200)
    const again = await (await w.engine()).open(totals('later', false))
    expect([...(await again.catchUp())]).toEqual([['ann', 1 + 2 + 8]])
    const seen: string[] = []
    const each = ({ id }: { id: string }) => void seen.push(id)
    await (await rp.run(consumer('reader', { from: [account], follow: false, each }))).result()
    expect(new Set(seen)).toEqual(new Set(['ann']))
    await runner.catchUp()
    // One letter an event of ann's, also of the one that was rolled back since; none for the trials.
    expect((await rp.head('events/account/till'))!.mail).toBe(4)
  })
})
