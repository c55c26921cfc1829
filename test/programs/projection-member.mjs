// A process that shares a projection, or begins to rebuild one and never gets far; the test kills it, or it kills itself.
// Arguments: store URL, "member", "rebuild", "kill-sums" or "kill-ledger", name of the SQL table, which event it dies at.

import { open } from '../../lib/index.js'
import { aggregate, partitionedProjection, projection, sqlProjection } from '../../lib/layers/events/index.js'

export const account = aggregate('account', {
  initial: () => ({ balance: 0 }),
  evolve: { deposited: (s, e) => ({ balance: s.balance + e.amount }) },
  decide: { deposit: (_s, c) => ({ type: 'deposited', amount: c.amount }) },
})

export const totals = () =>
  partitionedProjection('totals', {
    partitions: 4,
    from: [account],
    initial: () => new Map(),
    on: { deposited: (m, e, at) => void m.set(at.id, (m.get(at.id) ?? 0) + e.amount) },
  })

/** `before` is called before each event. */
export const sums = (before = () => undefined) =>
  projection('sums', {
    from: [account],
    initial: () => new Map(),
    checkpoint: { every: 500 },
    on: {
      deposited: (m, e, at) => {
        before()
        m.set(at.id, (m.get(at.id) ?? 0) + e.amount)
      },
    },
  })

/** `before` is called before each event of a generation above the first. */
export const ledger = (name, before = () => undefined) =>
  sqlProjection('ledger', {
    from: [account],
    setup: (sql, generation) => sql.run(`CREATE TABLE ${name}_${generation} (id TEXT, amount INTEGER)`),
    teardown: (sql, generation) => sql.run(`DROP TABLE ${name}_${generation}`),
    on: {
      deposited: async (sql, e, at) => {
        if (at.generation > 1) await before()
        await sql.run(`INSERT INTO ${name}_${at.generation} VALUES (?, ?)`, at.id, e.amount)
      },
    },
  })

if (process.argv[1]?.endsWith('projection-member.mjs')) {
  const [url, what, name, at] = process.argv.slice(2)
  const rp = await open(url, { lease: '10m' })
  const say = (text) => process.stdout.write(`${text}\n`)
  if (what === 'member') {
    const p = await rp.open(totals())
    while (p.owned === 0) await new Promise((resolve) => setTimeout(resolve, 10))
    say('owns')
  } else if (what.startsWith('kill-')) {
    let left = Number.POSITIVE_INFINITY
    const before = () => void (--left === 0 && process.kill(process.pid, 'SIGKILL'))
    const p = await rp.open(what === 'kill-sums' ? sums(before) : ledger(name, before))
    await p.catchUp()
    left = Number(at)
    await p.rebuild()
  } else {
    const p = await rp.open(ledger(name, () => new Promise(() => say('building'))))
    await p.rebuild()
  }
  setInterval(() => undefined, 1e6)
}
