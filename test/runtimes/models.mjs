// The models of the package, checked by another runtime: nothing here needs files or processes.

import { open, timeline } from 'reprise'
import { aggregate, projection } from 'reprise/events'
import { memo } from 'reprise/memo'
import { collectSink, pipeline, sum, valueSource } from 'reprise/pipeline'
import { save } from 'reprise/save'
import { table } from 'reprise/table'
import { workflow } from 'reprise/workflow'

export function expect(actual, wanted) {
  const [a, b] = [JSON.stringify(actual), JSON.stringify(wanted)]
  if (a !== b) throw new Error(`expected ${b}, got ${a}`)
}

const trip = workflow('trip', async (ctx, city) => {
  const hotel = await ctx.step('hotel', async () => `hotel in ${city}`)
  await ctx.sleep('20ms')
  const [a, b] = await Promise.all([ctx.step('a', async () => 1), ctx.step('b', async () => 2)])
  return [hotel, a + b, typeof ctx.uuid()]
})
const sneaky = workflow('sneaky', async () => await fetch('http://127.0.0.1:9'))
const account = aggregate('account', {
  initial: () => ({ balance: 0 }),
  evolve: { deposited: (s, e) => ({ balance: s.balance + e.amount }) },
  decide: { deposit: (_s, c) => ({ type: 'deposited', amount: c.amount }) },
})

export const models = {
  async 'timelines, forks, rollback'(rp) {
    const counter = timeline('counter', { initial: () => 0, apply: (n, entry) => n + entry.by })
    const handle = await rp.open(counter, 'visits')
    for (let i = 1; i <= 5; i++) await handle.append({ type: 'added', by: i })
    expect(handle.state, 15)
    await rp.fork({ timeline: 'counter/visits', seq: 3 }, 'counter/other')
    expect((await rp.open(counter, 'other')).state, 6)
  },
  async 'workflows: steps, sleep, parallel steps'(rp) {
    expect(await (await rp.run(trip, 'Rome')).result(), ['hotel in Rome', 3, 'string'])
  },
  async 'workflows: calls outside a step are refused'(rp) {
    const outcome = await (await rp.run(sneaky)).result().then(
      () => 'completed',
      (error) => error.code,
    )
    expect(outcome, 'NON_DETERMINISTIC')
  },
  async 'aggregates and projections'(rp) {
    await rp.open(account, 'ann').do('deposit', { amount: 10 })
    const totals = await rp.open(
      projection('totals', { from: [account], initial: () => 0, on: { deposited: (n, e) => n + e.amount } }),
    )
    await totals.catchUp()
    expect(totals.state, 10)
  },
  async 'tables, saves, memos'(rp) {
    const rows = await rp.open(table('rows'))
    await rows.transaction((tx) => {
      for (let i = 0; i < 500; i++) tx.set(`k${i}`, { i })
    })
    expect(rows.get('k7'), { i: 7 })
    const weights = await rp.open(save('weights'))
    await weights.put({ w: [1, 2] })
    expect((await weights.latest()).value, { w: [1, 2] })
    let calls = 0
    const squares = await rp.open(
      memo('squares', {
        version: 1,
        run: (n) => {
          calls += 1
          return n * n
        },
      }),
    )
    expect([await squares.call(4), await squares.call(4), calls], [16, 16, 1])
  },
  async pipelines(rp) {
    const out = collectSink()
    const totals = pipeline('totals', (p) => {
      p.from(
        'in',
        valueSource([
          { k: 'a', n: 1 },
          { k: 'a', n: 2 },
        ]),
      )
        .keyBy((r) => r.k)
        .aggregate(
          'sum',
          sum((r) => r.n),
        )
        .to('out', out)
    })
    await rp.run(totals, {}).result()
    if (out.values.length === 0) throw new Error('no results')
  },
}

/** Each on an engine of its own; `report` receives the outcome. */
export async function runChecks(url, checks, report) {
  for (const [check, run] of Object.entries(checks)) {
    let error = null
    try {
      const rp = await open(url)
      try {
        await run(rp)
      } finally {
        await rp.close()
      }
    } catch (thrown) {
      error = String(thrown?.stack ?? thrown)
    }
    report({ check, ok: error === null, error })
  }
}
