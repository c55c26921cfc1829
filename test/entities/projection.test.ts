// Projections on every store: in memory, in a table, in the user's SQL; rebuilt, poisoned, shared, and after crashes.

import { randomBytes } from 'node:crypto'
import { expect, it } from 'vitest'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { keyed } from '../../src/index.ts'
import {
  aggregate,
  commandTo,
  processManager,
  projection,
  Refused,
  sendCommand,
  sqlProjection,
  tableProjection,
} from '../../src/layers/events/index.ts'
import { type Transaction, table } from '../../src/layers/table/index.ts'
import { hostOf } from '../support/host.ts'
import { onEveryStore } from '../support/worlds.ts'

const account = aggregate('account', {
  initial: () => ({ balance: 0 }),
  evolve: {
    deposited: (s, e: { amount: number }) => ({ balance: s.balance + e.amount }),
    withdrawn: (s, e: { amount: number; to?: string }) => ({ balance: s.balance - e.amount }),
  },
  decide: {
    deposit: (_s, c: { amount: number }) => {
      if (c.amount > 1000) throw new Refused('too much')
      return { type: 'deposited', amount: c.amount }
    },
    transfer: (s, c: { amount: number; to: string }) => {
      if (s.balance < c.amount) throw new Refused('insufficient funds')
      return { type: 'withdrawn', amount: c.amount, to: c.to }
    },
  },
})

const totals = () =>
  projection('totals', {
    from: [account],
    initial: () => new Map<string, number>(),
    on: {
      deposited: (m, e, at) => void m.set(at.id, (m.get(at.id) ?? 0) + e.amount),
      withdrawn: (m, e, at) => void m.set(at.id, (m.get(at.id) ?? 0) - e.amount),
    },
  })

async function deposit(rp: Reprise, id: string, ...amounts: number[]) {
  const a = await rp.open(account, id)
  for (const amount of amounts) await a.do('deposit', { amount })
  await a.close()
}

onEveryStore('projection', (world) => {
  it('C6: follows the feed in memory, and resumes from its checkpoint in the next process', async () => {
    const w = await world()
    const rp = await w.engine()
    await deposit(rp, 'ann', 1, 2)
    const p = await rp.open(totals())
    expect(await p.catchUp()).toEqual(new Map([['ann', 3]]))
    await deposit(rp, 'bob', 5)
    expect((await p.catchUp()).get('bob')).toBe(5)
    await p.checkpoint()
    await rp.close()
    const next = await w.engine()
    await deposit(next, 'ann', 10)
    const again = await next.open(totals())
    expect(await again.catchUp()).toEqual(
      new Map([
        ['ann', 13],
        ['bob', 5],
      ]),
    )
    expect(again.status()[0]).toMatchObject({ applied: 1, isCaughtUp: true, lagMs: 0, error: null })
  })

  it('keeps keyed state with incremental checkpoints, and reads it in two processes at once', async () => {
    const w = await world()
    const [one, two] = [await w.engine(), await w.engine()]
    const byId = () =>
      projection('by-id', {
        from: [account],
        initial: () => ({ count: 0, sums: keyed<number>() }),
        on: {
          deposited: (s, e, at) => {
            s.sums.set(at.id, (s.sums.get(at.id) ?? 0) + e.amount)
            return { ...s, count: s.count + 1 }
          },
        },
      })
    const [a, b] = [await one.open(byId()), await two.open(byId())]
    await deposit(one, 'x', 1, 2, 3)
    await Promise.all([a.catchUp(), b.catchUp()])
    expect([a.owned, b.owned]).toEqual([1, 0])
    await a.checkpoint()
    for (const p of [a, b]) expect([p.state.count, p.state.sums.get('x')]).toEqual([3, 6])
    await one.close()
    const c = await (await w.engine()).open(byId())
    expect((await c.catchUp()).sums.get('x')).toBe(6)
    expect(c.status()[0]!.applied).toBe(0)
  })

  it('is rebuilt beside the live one and swapped, with progress, while readers go on', async () => {
    const w = await world()
    const [rp, other] = [await w.engine(), await w.engine()]
    await deposit(rp, 'ann', 1, 2, 3)
    const p = await rp.open(totals())
    const q = await other.open(totals())
    await Promise.all([p.catchUp(), q.catchUp()])
    p.state.set('ann', 999) // A view gone wrong.
    const seen: number[] = []
    const rebuilding = p.rebuild({ onProgress: ({ applied }) => seen.push(applied) })
    expect(p.state.get('ann')).toBe(999)
    await rebuilding
    expect(p.state.get('ann')).toBe(6)
    expect(p.generation).toBe(2)
    expect(seen.at(-1)).toBe(3)
    await deposit(rp, 'ann', 4)
    await expect.poll(() => q.generation).toBe(2)
    expect((await q.catchUp()).get('ann')).toBe(10)
    // The old generation is gone, its cursor too.
    expect((await hostOf(rp).kernel.store.cursors()).every((cursor) => !cursor.name.endsWith('-1'))).toBe(true)
  })

  it('a poison event stops the projection by default, and is set aside by policy', async () => {
    const w = await world()
    const rp = await w.engine()
    await deposit(rp, 'ann', 1, 13, 2)
    const handler = (m: Map<string, number>, e: { amount: number }, at: { id: string }) => {
      m.set('half', 1)
      if (e.amount === 13) throw new Error('unlucky')
      m.delete('half')
      m.set(at.id, (m.get(at.id) ?? 0) + e.amount)
    }
    const strict = projection('strict', {
      from: [account],
      initial: () => new Map<string, number>(),
      on: { deposited: handler },
    })
    const p = await rp.open(strict)
    await expect(p.catchUp()).rejects.toThrow('unlucky')
    expect(p.status()[0]!.error).toMatchObject({ message: expect.stringContaining('account/ann@2') })
    const lenient = projection('lenient', {
      from: [account],
      initial: () => new Map<string, number>(),
      on: { deposited: handler },
      poison: 'quarantine',
    })
    const q = await rp.open(lenient)
    expect(await q.catchUp()).toEqual(new Map([['ann', 3]]))
    expect(await q.deadLetters()).toMatchObject([{ timeline: 'events/account/ann', seq: 2, type: 'deposited' }])
  })

  it('into a table: rows and position in one transaction', async () => {
    const w = await world()
    const rp = await w.engine()
    const balances = table<number>('balances')
    const into = () =>
      tableProjection('balances', {
        from: [account],
        into: balances,
        on: {
          deposited: (tx: Transaction<number>, e, at) => tx.set(at.id, (tx.get(at.id) ?? 0) + e.amount),
        },
      })
    await deposit(rp, 'ann', 1, 2)
    const p = await rp.open(into())
    await p.catchUp()
    const t = await rp.open(balances)
    expect(t.get('ann')).toBe(3)
    await rp.close()
    const next = await w.engine()
    await deposit(next, 'ann', 4)
    const q = await next.open(into())
    await q.catchUp()
    expect((await next.open(balances)).get('ann')).toBe(7)
    expect(q.status()[0]!.applied).toBe(1)
  })

  it('commands travel between aggregates by mail, once, and a refusal comes back as a reaction', async () => {
    const w = await world()
    const rp = await w.engine()
    const transfers = processManager('transfers', {
      from: [account],
      on: {
        withdrawn: (e) => (e.to === undefined ? undefined : commandTo(account, e.to, 'deposit', { amount: e.amount })),
      },
      onRefused: () => commandTo(account, 'lost', 'deposit', { amount: 1 }),
    })
    rp.work([account, transfers])
    const a = await rp.open(account, 'ann')
    for (let n = 0; n < 3; n++) await a.do('deposit', { amount: 1000 })
    await a.do('transfer', { amount: 7, to: 'bob' })
    const balance = async (id: string) => {
      const b = await rp.open(account, id)
      const { balance } = await b.refresh()
      await b.close()
      return balance
    }
    await expect.poll(() => balance('bob')).toBe(7)
    await a.do('transfer', { amount: 2000, to: 'bob' })
    await expect.poll(() => balance('lost')).toBe(1)
    expect(await balance('bob')).toBe(7)
    await sendCommand(rp, commandTo(account, 'eve', 'deposit', { amount: 3 }), { key: 'm1' })
    await sendCommand(rp, commandTo(account, 'eve', 'deposit', { amount: 3 }), { key: 'm1' })
    await expect.poll(() => balance('eve')).toBe(3)
    const bob = await rp.open(account, 'bob')
    for await (const { meta } of bob.history()) {
      expect(meta).toMatchObject({ causation: 'events/account/ann@4', correlation: 'events/account/ann@4' })
    }
  })
})

onEveryStore(
  'projection into SQL',
  (world) => {
    let name = ''
    const ledger = (poison: 'stop' | 'quarantine' = 'stop', partitions = 1) =>
      sqlProjection('ledger', {
        from: [account],
        poison,
        partitions,
        setup: (sql) => sql.run(`CREATE TABLE IF NOT EXISTS ${name} (id TEXT PRIMARY KEY, total INTEGER NOT NULL)`),
        on: {
          deposited: async (sql, e, at) => {
            if (e.amount === 13) throw new Error('unlucky')
            const mark = sql.dialect === 'postgres' ? ['$1', '$2'] : ['?', '?']
            await sql.run(
              `INSERT INTO ${name} VALUES (${mark[0]}, ${mark[1]}) ON CONFLICT (id) DO UPDATE SET total = ${name}.total + excluded.total`,
              at.id,
              e.amount,
            )
          },
        },
      })
    const read = async (rp: Reprise) => {
      const t = await hostOf(rp).openTimeline('probe/x' as never, { version: '1', initial: () => 0, apply: (s) => s })
      const { sqlResult } = await t.write([], {
        userSql: (sql) => sql.all(`SELECT id, total FROM ${name} ORDER BY id`),
      })
      await t.close()
      return (sqlResult as { id: string; total: number }[]).map((row) => [row.id, Number(row.total)])
    }

    it('moves rows and position in one transaction, sets poison aside, and continues after a restart', async () => {
      name = `ledger_${randomBytes(4).toString('hex')}`
      const w = await world()
      const rp = await w.engine()
      await deposit(rp, 'ann', 1, 13, 2)
      await deposit(rp, 'bob', 4)
      const p = await rp.open(ledger('quarantine'))
      await p.catchUp()
      expect(await read(rp)).toEqual([
        ['ann', 3],
        ['bob', 4],
      ])
      expect(await p.deadLetters()).toMatchObject([{ seq: 2, type: 'deposited' }])
      await rp.close()
      const next = await w.engine()
      await deposit(next, 'bob', 5)
      const q = await next.open(ledger('quarantine'))
      await q.catchUp()
      expect(await read(next)).toEqual([
        ['ann', 3],
        ['bob', 9],
      ])
    })

    it('is rebuilt into tables of its own; who has not heard of the swap writes nothing more', async () => {
      const base = `built_${randomBytes(4).toString('hex')}`
      const built = () =>
        sqlProjection('built', {
          from: [account],
          setup: (sql, generation) => sql.run(`CREATE TABLE ${base}_${generation} (id TEXT, amount INTEGER)`),
          on: {
            deposited: (sql, e, at) => {
              const mark = sql.dialect === 'postgres' ? ['$1', '$2'] : ['?', '?']
              return sql.run(`INSERT INTO ${base}_${at.generation} VALUES (${mark[0]}, ${mark[1]})`, at.id, e.amount)
            },
          },
        })
      const w = await world()
      const [one, two] = [await w.engine(), await w.engine()]
      await deposit(one, 'ann', 1, 2)
      const p = await one.open(built())
      await p.catchUp()
      const q = await two.open(built())
      await p.rebuild()
      await deposit(one, 'ann', 3)
      await p.catchUp()
      await expect.poll(() => q.generation).toBe(2)
      const probe = await hostOf(one).openTimeline('probe/x' as never, {
        version: '1',
        initial: () => 0,
        apply: (s) => s,
      })
      const count = async (table: string) => {
        const { sqlResult } = await probe.write([], { userSql: (sql) => sql.get(`SELECT count(*) AS n FROM ${table}`) })
        return Number((sqlResult as { n: number }).n)
      }
      expect([await count(`${base}_1`), await count(`${base}_2`)]).toEqual([2, 3])
      expect((await hostOf(one).kernel.store.cursors()).map(({ name }) => name)).toEqual(['projection/built@1-2'])
    })

    it('shares partitions between processes, each event once', async () => {
      name = `ledger_${randomBytes(4).toString('hex')}`
      const w = await world()
      const [one, two] = [await w.engine(), await w.engine()]
      const [p, q] = [await one.open(ledger('stop', 4)), await two.open(ledger('stop', 4))]
      await expect.poll(() => [p.owned, q.owned]).toEqual([2, 2])
      for (let n = 0; n < 12; n++) await deposit(n % 2 ? one : two, `id${String(n).padStart(2, '0')}`, 1, 1)
      await Promise.all([p.catchUp(), q.catchUp()])
      expect(await read(one)).toEqual(Array.from({ length: 12 }, (_, n) => [`id${String(n).padStart(2, '0')}`, 2]))
      await two.close()
      await expect.poll(() => p.owned).toBe(4)
    })
  },
  ['sqlite', 'postgres'],
)
