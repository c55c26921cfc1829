// Accounts as event-sourced aggregates: commands are decided, events are stored, totals follow them, and money moves between two
// accounts without a transaction over both. `runExample` plays an afternoon at the bank.

import { open } from 'reprise'
import { aggregate, commandTo, processManager, projection, Refused } from 'reprise/events'

export const account = aggregate('account', {
  initial: () => ({ balance: 0 }),
  evolve: {
    deposited: (s, e: { amount: number }) => ({ balance: s.balance + e.amount }),
    withdrawn: (s, e: { amount: number; to?: string }) => ({ balance: s.balance - e.amount }),
  },
  decide: {
    deposit: (_s, c: { amount: number }) => ({ type: 'deposited', amount: c.amount }),
    withdraw: (s, c: { amount: number }) => {
      if (s.balance < c.amount) throw new Refused('insufficient funds')
      return { type: 'withdrawn', amount: c.amount }
    },
    transfer: (s, c: { amount: number; to: string }) => {
      if (s.balance < c.amount) throw new Refused('insufficient funds')
      return { type: 'withdrawn', amount: c.amount, to: c.to }
    },
  },
  checkpoint: { every: 100 },
})

/** The sum of each account, in memory, from the gap-free feed. */
export const totals = projection('totals', {
  from: [account],
  initial: () => new Map<string, number>(),
  on: {
    deposited: (m, e, at) => void m.set(at.id, (m.get(at.id) ?? 0) + e.amount),
    withdrawn: (m, e, at) => void m.set(at.id, (m.get(at.id) ?? 0) - e.amount),
  },
})

/** A withdrawal for another account is deposited there: sent once and done once, despite crashes in between. */
export const transfers = processManager('transfers', {
  from: [account],
  on: {
    withdrawn: (e) => (e.to === undefined ? undefined : commandTo(account, e.to, 'deposit', { amount: e.amount })),
  },
})

export async function runExample(url = 'memory:') {
  const rp = await open(url)
  try {
    rp.work([account, transfers])
    const alice = await rp.open(account, 'alice')
    await alice.do('deposit', { amount: 10 }, { key: 'till-1', meta: { actor: 'ann' } })
    await alice.do('deposit', { amount: 10 }, { key: 'till-1' }) // The same command again changes nothing.
    const refusal = await alice.do('withdraw', { amount: 99 }).catch((error: Error) => error.message)
    await alice.do('transfer', { amount: 4, to: 'bob' })
    const view = await rp.open(totals)
    while (!(await view.catchUp()).has('bob')) await new Promise((resolve) => setTimeout(resolve, 20))
    return { refusal, totals: Object.fromEntries(view.state), before: (await alice.at({ seq: 1 })).state }
  } finally {
    await rp.close()
  }
}

if (process.argv[1]?.endsWith('accounts.ts')) console.log(await runExample())
