// A process that writes to an aggregate, a table and a save without end and prints each acknowledgement as a JSON line; the
// test kills it at random. Arguments: store URL, first number.

import { open } from '../../lib/index.js'
import { aggregate, projection } from '../../lib/layers/events/index.js'
import { save } from '../../lib/layers/save/index.js'
import { pagedTable, table } from '../../lib/layers/table/index.js'

export const log = aggregate('log', {
  initial: () => ({ last: 0, sum: 0 }),
  evolve: { noted: (s, e) => ({ last: e.n, sum: s.sum + e.n }) },
  decide: { note: (_s, c) => ({ type: 'noted', n: c.n }) },
  checkpoint: { every: 20 },
})
export const rows = table('rows', { checkpoint: { every: 20 } })
/** So small that pages are written all the time. */
export const paged = pagedTable('paged', { cacheBytes: 20_000, changedRows: 300 })
export const saves = save('saves', { keep: 2 })
export const sums = projection('sums', {
  from: [log],
  initial: () => ({ sum: 0, count: 0 }),
  on: { noted: (s, e) => ({ sum: s.sum + e.n, count: s.count + 1 }) },
  checkpoint: { every: 10 },
})

if (process.argv[1]?.endsWith('entity-writer.mjs')) {
  const rp = await open(process.argv[2])
  const [l, t, s] = [await rp.open(log, 'x'), await rp.open(rows), await rp.open(saves)]
  const p = await rp.open(paged)
  await rp.open(sums)
  const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`)
  say({ ready: true, last: l.state.last, offset: t.offset('n') ?? 0, pagedOffset: p.offset('n') ?? 0 })
  for (let n = Math.max(l.state.last, Number(t.offset('n') ?? 0)) + 1; ; n++) {
    await Promise.all([
      l.do('note', { n }, { key: `n${n}` }).then(() => say({ log: n })),
      t
        .transaction((tx) => {
          tx.set('sum', (tx.get('sum') ?? 0) + n)
          if (n % 10 === 0) for (let i = 0; i < 9000; i++) tx.set(`bulk${i}`, n)
          tx.advance('n', n)
        })
        .then(() => say({ row: n })),
      p
        .transaction(async (tx) => {
          if (n <= Number(tx.offset('n') ?? 0)) return
          tx.set('sum', ((await tx.get('sum')) ?? 0) + n)
          for (let i = 0; i < (n % 10 === 0 ? 5000 : 40); i++)
            tx.set(`${n % 10 === 0 ? 'bulk' : 'k'}${(n * 31 + i) % 5000}`, n)
          tx.advance('n', n)
        })
        .then(() => say({ paged: n })),
      n % 7 === 0 ? s.put({ n, fill: 'x'.repeat(20_000) + n }).then(() => say({ save: n })) : null,
    ])
  }
}
