// Faults around a projection: a handler that throws, a reader that is behind, data that must be removed.

import { expect, it } from 'vitest'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { aggregate, type Personal, personal, projection, tableProjection } from '../../src/layers/events/index.ts'
import { type Transaction, table } from '../../src/layers/table/index.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'
import { type Bend, bentEngine, flipped, until } from './support.ts'

const account = aggregate('account', {
  initial: () => ({ balance: 0 }),
  evolve: { deposited: (s, e: { amount: number }) => ({ balance: s.balance + e.amount }) },
  decide: { deposit: (_s, c: { amount: number }) => ({ type: 'deposited', amount: c.amount }) },
})

async function deposit(rp: Reprise, ...amounts: number[]) {
  const a = await rp.open(account, 'ann')
  for (const amount of amounts) await a.do('deposit', { amount })
  await a.close()
}

onEveryStore('projection faults', (world) => {
  it('C6: the lag is visible: how old the last event is that was applied, while there are more to come', async () => {
    const rp = await (await world()).engine()
    let isMended = false
    const sums = projection('sums', {
      from: [account],
      initial: () => ({ sum: 0 }),
      on: {
        deposited: (s, e) => {
          if (e.amount === 13 && !isMended) throw new Error('unlucky')
          return { sum: s.sum + e.amount }
        },
      },
    })
    await deposit(rp, 1, 2)
    const p = await rp.open(sums)
    await p.catchUp()
    expect(p.status()[0]).toMatchObject({ isCaughtUp: true, lagMs: 0 })
    await deposit(rp, 13)
    await expect(p.catchUp()).rejects.toThrow('unlucky')
    await until(() => p.status()[0]!.lagMs > 0)
    const { isCaughtUp, lagMs, position } = p.status()[0]!
    expect(isCaughtUp).toBe(false)
    expect(lagMs).toBeGreaterThan(0)
    isMended = true
    p.resume()
    expect(await p.catchUp()).toEqual({ sum: 16 })
    expect(p.status()[0]).toMatchObject({ isCaughtUp: true, lagMs: 0, error: null })
    expect(p.status()[0]!.position > position).toBe(true)
  })

  it('G7: an unreadable feed is reported to waiting callers, shown, and retried until it is readable', async () => {
    const w = await world()
    const bend: Bend = {}
    const { rp, store } = await bentEngine(w, bend)
    await deposit(rp, 1, 2)
    bend.feed = async (...args) => {
      const page = await store.feed(...args)
      return {
        ...page,
        items: page.items.map((item) => ({ ...item, run: { ...item.run, bytes: flipped(item.run.bytes, 40) } })),
      }
    }
    const sums = projection('sums', {
      from: [account],
      initial: () => ({ sum: 0 }),
      on: { deposited: (s, e) => ({ sum: s.sum + e.amount }) },
    })
    const p = await rp.open(sums)
    await expect(p.catchUp()).rejects.toMatchObject({ code: expect.stringMatching('DAMAGED|MALFORMED') })
    expect(p.status()[0]!.error).not.toBeNull()
    expect(p.state).toEqual({ sum: 0 })
    delete bend.feed
    await expect.poll(() => p.state).toEqual({ sum: 3 })
    expect(p.status()[0]!.error).toBeNull()
  })

  it('C6: into a table: poison stops it or is set aside, also after a restart, and no half of an event is in the rows', async () => {
    const w = await world()
    const rp = await w.engine()
    const targets = { strict: table<number>('strict'), lenient: table<number>('lenient') }
    const into = (name: keyof typeof targets, poison: 'stop' | 'quarantine') =>
      tableProjection(name, {
        ...{ from: [account], into: targets[name], poison },
        on: {
          deposited: (tx: Transaction<number>, e, at) => {
            tx.set('last', e.amount)
            if (e.amount === 13) throw new Error('unlucky')
            tx.set(at.id, (tx.get(at.id) ?? 0) + e.amount)
          },
        },
      })
    await deposit(rp, 1, 13, 2)
    await expect((await rp.open(into('strict', 'stop'))).catchUp()).rejects.toThrow('unlucky')
    const p = await rp.open(into('lenient', 'quarantine'))
    await p.catchUp()
    expect(await p.deadLetters()).toMatchObject([{ timeline: 'events/account/ann', seq: 2, type: 'deposited' }])
    expect([...(await rp.open(targets.strict))]).toEqual([])
    expect([...(await rp.open(targets.lenient))]).toEqual([
      ['ann', 3],
      ['last', 2],
    ])
    await rp.close()
    const next = await w.engine()
    await deposit(next, 13, 4)
    const q = await next.open(into('lenient', 'quarantine'))
    await q.catchUp()
    expect(await q.deadLetters()).toMatchObject([{ seq: 4 }])
    expect((await next.open(targets.lenient)).get('ann')).toBe(7)
  })

  it('C6: each event counts once, whatever a handler threw or a crash cut off before its position was written', async () => {
    const w = await world()
    let failures = 0
    const sums = () =>
      projection('flaky', {
        from: [account],
        initial: () => ({ list: [] as number[] }),
        on: {
          deposited: (s, e) => {
            // Changed in place before the throw: the change must not count.
            s.list.push(e.amount)
            if (e.amount === 5 && failures++ < 2) throw new Error('for a moment')
          },
        },
        poison: 'stop',
        checkpoint: { every: 2 },
      })
    const rp = await w.engine()
    await deposit(rp, 1, 2, 3, 4, 5, 6)
    const p = await rp.open(sums())
    for (let n = 0; n < 2; n++) {
      await expect(p.catchUp()).rejects.toThrow('for a moment')
      p.resume()
    }
    expect((await p.catchUp()).list).toEqual([1, 2, 3, 4, 5, 6])
    // As a crash: nothing is closed, and another process continues from the stored state.
    hostOf(rp).kernel.worker.abandon()
    const next = await w.engine()
    await deposit(next, 7)
    expect((await (await next.open(sums())).catchUp()).list).toEqual([1, 2, 3, 4, 5, 6, 7])
  })

  it('C6: a projection and the feed hold personal data sealed only, so that shredding reaches them too', async () => {
    const rp = await (await world()).engine()
    const person = aggregate('person', {
      initial: () => ({ email: null as Personal<string> | null }),
      evolve: { registered: (_s, e: { email: Personal<string> }) => ({ email: e.email }) },
      decide: { register: (_s, c: { email: string }) => ({ type: 'registered', email: personal(c.email) }) },
    })
    const emails = projection('emails', {
      from: [person],
      initial: () => new Map<string, Personal<string>>(),
      on: { registered: (m, e, at) => void m.set(at.id, e.email) },
    })
    const a = await rp.open(person, 'p1')
    await a.do('register', { email: 'ann@example.org' })
    const p = await rp.open(emails)
    const sealed = (await p.catchUp()).get('p1')
    await p.checkpoint()
    expect(await a.reveal(sealed)).toBe('ann@example.org')
    const { items } = await rp.feed('', { limit: 100 })
    const [record] = await rp.checkpoints('projection/emails@1-1')
    for (const bytes of [...items.map(({ run }) => run.bytes), record!.body]) {
      expect(Buffer.from(bytes).includes('ann@example.org')).toBe(false)
    }
    await a.shred()
    expect(await a.reveal(sealed)).toBeNull()
  })
})
