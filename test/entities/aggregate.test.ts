// Aggregates: decide and evolve on every store, alone and against other processes.

import { expect, it } from 'vitest'
import { aggregate, Refused } from '../../src/layers/events/index.ts'
import { onEveryStore } from '../support/worlds.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })

const account = aggregate('account', {
  initial: () => ({ balance: 0 }),
  evolve: {
    deposited: (s, e: { amount: number }) => ({ balance: s.balance + e.amount }),
    withdrawn: (s, e: { amount: number }) => ({ balance: s.balance - e.amount }),
    closed: (s) => s,
  },
  decide: {
    deposit: (_s, c: { amount: number }) => ({ type: 'deposited', amount: c.amount }),
    withdraw: (s, c: { amount: number }) => {
      if (s.balance < c.amount) throw new Refused('insufficient funds')
      return { type: 'withdrawn', amount: c.amount }
    },
    move: (_s, c: { amount: number }) => [
      { type: 'deposited', amount: c.amount },
      { type: 'withdrawn', amount: c.amount },
    ],
    close: () => ({ type: 'closed' }),
    nothing: () => undefined,
  },
  checkpoint: { every: 100 },
})

onEveryStore('aggregate', (world) => {
  it('C6: decides, evolves, and is restored after the engine is gone', async () => {
    const w = await world()
    const rp = await w.engine()
    const a = await rp.open(account, 'alice')
    const done = await a.do('deposit', { amount: 10 })
    expect(done).toMatchObject({ seq: 1, isDuplicate: false, state: { balance: 10 } })
    expect(done.events).toEqual([{ type: 'deposited', amount: 10 }])
    await a.do('move', { amount: 3 })
    await a.do('close')
    await a.do('nothing')
    expect(a.seq).toBe(4)
    await rp.close()
    const again = await (await w.engine()).open(account, 'alice')
    expect(again.state).toEqual({ balance: 10 })
    expect(again.seq).toBe(4)
  })

  it('refuses without writing, and other commands of the same moment go on', async () => {
    const rp = await (await world()).engine()
    const a = await rp.open(account, 'bob')
    const results = await Promise.allSettled([
      a.do('deposit', { amount: 5 }),
      a.do('withdraw', { amount: 50 }),
      a.do('withdraw', { amount: 5 }),
      a.do('withdraw', { amount: 1 }),
    ])
    expect(results.map((r) => r.status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'rejected'])
    expect(results[1]).toMatchObject({ reason: code('REFUSED') })
    expect(a.state).toEqual({ balance: 0 })
    expect(a.seq).toBe(2)
  })

  it('G4: a command with an id is done once, also at the same moment and in the next process', async () => {
    const w = await world()
    const rp = await w.engine()
    const a = await rp.open(account, 'carol')
    const both = await Promise.all([
      a.do('deposit', { amount: 5 }, { key: 'c1' }),
      a.do('deposit', { amount: 5 }, { key: 'c1' }),
      a.do('move', { amount: 1 }, { key: 'c2' }),
    ])
    expect(both.map((d) => d.isDuplicate)).toEqual([false, true, false])
    await rp.close()
    const b = await (await w.engine()).open(account, 'carol')
    expect((await b.do('deposit', { amount: 5 }, { key: 'c1' })).isDuplicate).toBe(true)
    expect((await b.do('move', { amount: 1 }, { key: 'c2' })).isDuplicate).toBe(true)
    expect(b.state).toEqual({ balance: 5 })
  })

  it('reloads and decides again when another process wrote in between', async () => {
    const w = await world()
    const [one, two] = [await w.engine(), await w.engine()]
    const a = await one.open(account, 'dave')
    await a.do('deposit', { amount: 10 })
    const b = await two.open(account, 'dave')
    await b.do('withdraw', { amount: 8 })
    // `a` still assumes 10; the fence makes it read again.
    await expect(a.do('withdraw', { amount: 8 })).rejects.toEqual(code('REFUSED'))
    expect(a.state).toEqual({ balance: 2 })
    const all = await Promise.all(
      [one, two].flatMap((rp) =>
        [1, 2, 3].map(async () => {
          const handle = await rp.open(account, 'dave')
          return await handle.do('deposit', { amount: 1 })
        }),
      ),
    )
    expect(all).toHaveLength(6)
    expect((await (await (await w.engine()).open(account, 'dave')).refresh()).balance).toBe(8)
  })

  it('keeps who and why beside the event, and reads history and the past', async () => {
    const rp = await (await world()).engine()
    const a = await rp.open(account, 'erin')
    await a.do('deposit', { amount: 1 }, { meta: { actor: 'ann', correlation: 'x', causation: 'y' } })
    await a.do('deposit', { amount: 2 })
    const happened = []
    for await (const each of a.history()) happened.push(each)
    expect(happened).toMatchObject([
      {
        seq: 1,
        id: 'erin',
        event: { type: 'deposited', amount: 1 },
        meta: { actor: 'ann', correlation: 'x', causation: 'y' },
      },
      { seq: 2, event: { type: 'deposited', amount: 2 }, meta: {} },
    ])
    expect((await a.at({ seq: 1 })).state).toEqual({ balance: 1 })
    expect((await rp.at(account, 'erin', { seq: 0 })).state).toEqual({ balance: 0 })
    expect((await a.at({ time: happened[1]!.time })).state).toEqual({ balance: 3 })
    expect((await a.at({ time: happened[0]!.time - 1 })).state).toEqual({ balance: 0 })
  })

  it('fails only the command at fault when several are written together', async () => {
    const rp = await (await world()).engine()
    const odd = aggregate('odd', {
      initial: () => ({ n: 0 }),
      evolve: {
        noted: (s, e: { n: number; what?: unknown }) => {
          if (e.n === 13) throw new Error('unlucky')
          return { n: s.n + e.n }
        },
      },
      decide: { note: (_s, c: { n: number; what?: unknown }) => ({ type: 'noted', ...c }) },
    })
    const a = await rp.open(odd, 'x')
    const done = await Promise.allSettled([
      a.do('note', { n: 1 }),
      a.do('note', { n: 2, what: () => 1 }),
      a.do('note', { n: 13 }),
      a.do('note', { n: 4 }),
      a.do('note', { n: 13 }),
    ])
    expect(done.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected', 'fulfilled', 'rejected'])
    expect(a.state).toEqual({ n: 5 })
    expect((await odd.read(await (await world()).engine(), 'x').catch(() => null))?.state ?? null).toBeNull()
    expect((await odd.read(rp, 'x')).state).toEqual({ n: 5 })
  })

  it('refuses a command that expects another sequence, and one that does not exist', async () => {
    const rp = await (await world()).engine()
    const a = await rp.open(account, 'frank')
    await a.do('deposit', { amount: 1 }, { expect: 0 })
    await expect(a.do('deposit', { amount: 1 }, { expect: 0 })).rejects.toEqual(code('CONFLICT'))
    await expect(a.do('steal' as 'close')).rejects.toEqual(code('INVALID_ARGUMENT'))
    expect(a.seq).toBe(1)
  })
})
