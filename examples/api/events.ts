// Examples of `reprise/events`: aggregates, projections, process managers, personal data.

import assert from 'node:assert/strict'
import {
  aggregate,
  checkEvents,
  checked,
  commandTo,
  GiveUp,
  type Personal,
  partitionedProjection,
  partitionedTableProjection,
  partitionOf,
  personal,
  processManager,
  projection,
  Refused,
  RetryLater,
  rewrite,
  type StandardSchema,
  sendCommand,
  sqlProjection,
  tableProjection,
} from 'reprise/events'
import { table } from 'reprise/table'
import { example } from './example.ts'

const account = aggregate('account', {
  initial: () => ({ balance: 0 }),
  evolve: {
    deposited: (s: { balance: number }, e: { amount: number }) => ({ balance: s.balance + e.amount }),
    withdrawn: (s: { balance: number }, e: { amount: number }) => ({ balance: s.balance - e.amount }),
  },
  decide: {
    deposit: (_s: { balance: number }, c: { amount: number }) => ({ type: 'deposited' as const, amount: c.amount }),
    withdraw: (s: { balance: number }, c: { amount: number }) => {
      if (c.amount > s.balance) throw new Refused('insufficient funds', { balance: s.balance })
      return { type: 'withdrawn' as const, amount: c.amount }
    },
  },
})

/** Any Standard Schema works: zod, valibot, … */
const amount: StandardSchema<{ amount: number }> = {
  '~standard': {
    version: 1,
    vendor: 'example',
    validate: (value) => {
      const { amount } = value as { amount: unknown }
      return typeof amount === 'number' ? { value: { amount } } : { issues: [{ message: 'amount must be a number' }] }
    },
  },
}

export default [
  example(['aggregate', 'Refused', 'AggregateHandle.do', 'AggregateHandle.close'], async (rp) => {
    const ann = await rp.open(account, 'ann')
    const { state } = await ann.do('deposit', { amount: 10 })
    assert.equal(state.balance, 10)
    await assert.rejects(ann.do('withdraw', { amount: 99 }), (error) => error instanceof Refused)
    await ann.close()
  }),
  example(
    ['AggregateHandle.at', 'AggregateHandle.history', 'AggregateHandle.correct', 'AggregateHandle.refresh'],
    async (rp) => {
      const ann = await rp.open(account, 'ann')
      await ann.do('deposit', { amount: 10 })
      await ann.do('deposit', { amount: 100 })
      assert.equal((await ann.at({ seq: 1 })).state.balance, 10)
      await ann.correct(2, { type: 'withdrawn', amount: 90 }, 'it was 10, not 100')
      const seen: string[] = []
      for await (const { event } of ann.history()) seen.push(event.type)
      assert.deepEqual(seen, ['deposited', 'deposited', 'withdrawn'])
      assert.equal((await ann.refresh()).balance, 20)
    },
  ),
  example(['AggregateHandle.checkpoint', 'checkEvents'], async (rp) => {
    const ann = await rp.open(account, 'ann')
    await ann.do('deposit', { amount: 10 })
    await ann.checkpoint()
    assert.equal((await checkEvents(rp, account)).ok, true)
  }),
  example(['commandTo', 'sendCommand', 'AggregateHandle.receive'], async (rp) => {
    await sendCommand(rp, commandTo(account, 'bob', 'deposit', { amount: 5 }), { key: 'transfer-1' })
    const bob = await rp.open(account, 'bob')
    await bob.receive()
    assert.equal((await bob.refresh()).balance, 5)
  }),
  example(['checked'], async (rp) => {
    const till = aggregate('till', {
      initial: () => 0,
      evolve: { paid: (sum: number, e: { amount: number }) => sum + e.amount },
      decide: { pay: checked(amount, (_: number, c) => ({ type: 'paid' as const, amount: c.amount })) },
    })
    await assert.rejects(rp.open(till, 'a').do('pay', { amount: 'ten' as unknown as number }))
  }),
  example(['personal', 'AggregateHandle.reveal', 'AggregateHandle.shred'], async (rp) => {
    const person = aggregate('person', {
      initial: () => ({ email: undefined as Personal<string> | undefined }),
      evolve: { registered: (_, e: { email: Personal<string> }) => ({ email: e.email }) },
      decide: { register: (_, c: { email: string }) => ({ type: 'registered' as const, email: personal(c.email) }) },
    })
    const ann = await rp.open(person, 'ann')
    await ann.do('register', { email: 'ann@example.com' })
    assert.equal(await ann.reveal(ann.state.email), 'ann@example.com')
    await ann.shred()
    assert.equal(await ann.reveal(ann.state.email), null)
  }),
  example(
    ['projection', 'ProjectionHandle.catchUp', 'ProjectionHandle.checkpoint', 'ProjectionHandle.rebuild'],
    async (rp) => {
      const totals = projection('totals', {
        from: [account],
        initial: () => new Map<string, number>(),
        on: { deposited: (sums, e, at) => void sums.set(at.id, (sums.get(at.id) ?? 0) + e.amount) },
      })
      await rp.open(account, 'ann').do('deposit', { amount: 10 })
      const view = await rp.open(totals)
      assert.equal((await view.catchUp()).get('ann'), 10)
      await view.checkpoint()
      await view.rebuild()
      assert.equal(view.generation, 2)
    },
  ),
  example(
    [
      'ProjectionHandle.resume',
      'ProjectionHandle.status',
      'ProjectionHandle.deadLetters',
      'ProjectionHandle.redrive',
      'ProjectionHandle.discard',
      'ProjectionHandle.close',
      'GiveUp',
    ],
    async (rp) => {
      let isFixed = false
      const picky = projection('picky', {
        from: [account],
        initial: () => ({ sum: 0 }),
        poison: 'quarantine',
        on: {
          deposited: (state, e) => {
            if (e.amount < 0 && !isFixed) throw new GiveUp('a negative amount')
            state.sum += e.amount
          },
        },
      })
      await rp.open(account, 'ann').do('deposit', { amount: -1 })
      const view = await rp.open(picky)
      await view.catchUp().catch(() => undefined)
      isFixed = true
      view.resume()
      await view.redrive()
      await view.catchUp()
      assert.equal(view.status()[0]!.quarantined, 0)
      assert.deepEqual(await view.deadLetters(), [])
      assert.equal(await view.discard(), 0)
      await view.close()
    },
  ),
  example(['partitionedProjection', 'partitionOf'], async (rp) => {
    const totals = partitionedProjection('parts', {
      partitions: 4,
      from: [account],
      initial: () => ({ sum: 0 }),
      on: { deposited: (state, e) => ({ sum: state.sum + e.amount }) },
    })
    await rp.open(account, 'ann').do('deposit', { amount: 10 })
    const parts = await rp.open(totals).catchUp()
    assert.equal(parts.get(partitionOf('account/ann', 4))!.sum, 10)
  }),
  example(['tableProjection', 'partitionedTableProjection'], async (rp) => {
    await rp.open(account, 'ann').do('deposit', { amount: 10 })
    const balances = table<number>('balances')
    const into = tableProjection('into', {
      from: [account],
      into: balances,
      on: { deposited: (tx, e, at) => tx.set(at.id, e.amount) },
    })
    await rp.open(into).catchUp()
    assert.equal((await rp.open(balances)).get('ann'), 10)
    const parts = partitionedTableProjection('into-parts', {
      partitions: 2,
      from: [account],
      into: table<number>('parts'),
      on: { deposited: (tx, e, at) => tx.set(at.id, e.amount) },
    })
    await rp.open(parts).catchUp()
  }),
  example(
    ['sqlProjection'],
    async (rp) => {
      const ledger = sqlProjection('ledger', {
        from: [account],
        setup: (sql, generation) => sql.run(`CREATE TABLE totals_${generation} (id TEXT, cents INTEGER)`),
        on: {
          deposited: (sql, e, at) => sql.run(`INSERT INTO totals_${at.generation} VALUES (?, ?)`, at.id, e.amount),
        },
      })
      await rp.open(account, 'ann').do('deposit', { amount: 10 })
      await rp.open(ledger).catchUp()
      const rows = await rp.sql<{ cents: number }>`SELECT cents FROM ${ledger.table('totals')} WHERE id = ${'ann'}`
      assert.deepEqual(rows, [{ cents: 10 }])
    },
    'sqlite',
  ),
  example(
    [
      'processManager',
      'ProcessManager.catchUp',
      'ProcessManager.resume',
      'ProcessManager.status',
      'ProcessManager.deadLetters',
      'ProcessManager.redrive',
      'ProcessManager.discard',
      'ProcessManager.close',
    ],
    async (rp) => {
      const bonus = processManager('bonus', {
        from: [account],
        on: { deposited: (e) => (e.amount > 50 ? commandTo(account, 'bank', 'withdraw', { amount: 1 }) : undefined) },
      })
      await rp.open(account, 'ann').do('deposit', { amount: 10 })
      const manager = await rp.open(bonus)
      await manager.catchUp()
      manager.resume()
      assert.equal(manager.status().isCaughtUp, true)
      assert.deepEqual(await manager.deadLetters(), [])
      assert.equal((await manager.redrive()) + (await manager.discard()), 0)
      await manager.close()
    },
  ),
  example(['rewrite'], async (rp) => {
    await rp.open(account, 'ann').do('deposit', { amount: 10 })
    await rewrite(rp, account, 'ann', 'ann-2', ({ event }) => event, 'moved to a new id')
    assert.equal((await account.read(rp, 'ann-2')).state.balance, 10)
  }),
  example(['RetryLater'], async (rp) => {
    let calls = 0
    const slow = projection('slow', {
      from: [account],
      initial: () => 0,
      on: {
        deposited: (sum: number, e) => {
          calls += 1
          if (calls === 1) throw new RetryLater('1ms', 'the rate is not known yet')
          return sum + e.amount
        },
      },
    })
    await rp.open(account, 'ann').do('deposit', { amount: 10 })
    assert.equal(await rp.open(slow).catchUp(), 10)
  }),
]
