// The examples of the guides run unchanged.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import * as accounts from '../../examples/accounts.ts'
import * as moved from '../../examples/moved.ts'
import * as revenue from '../../examples/revenue.ts'
import * as sessions from '../../examples/sessions.ts'
import * as training from '../../examples/training.ts'

it('accounts', async () => {
  const result = await accounts.runExample()
  expect(result.refusal).toContain('insufficient funds')
  expect(result.totals).toEqual({ alice: 6, bob: 4 })
  expect(result.before).toEqual({ balance: 10 })
})

it('sessions', async () => {
  expect(await sessions.runExample()).toEqual({ keys: ['s1', 's3'], ann: ['s1'], recent: ['s1'], events: ['s1', 's2'] })
})

it('training, twice: the second run resumes where the first stopped', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-example-'))
  try {
    const url = `sqlite:${join(folder, 'x.db')}`
    expect(await training.runExample(url)).toMatchObject({ resumedFrom: 0, step: 20 })
    expect(await training.runExample(url, 7)).toMatchObject({ resumedFrom: 20, step: 27 })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

it('revenue, twice: the second run reads only the added lines, and every sum is counted once', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-example-'))
  try {
    const [url, file] = [`sqlite:${join(folder, 'x.db')}`, join(folder, 'orders.jsonl')]
    const order = (customer: string, cents: number, at: number) => ({ customer, cents, at })
    const first = await revenue.runExample(url, file, [order('ann', 5, 1000), order('bob', 7, 2000)])
    expect(first).toEqual({ status: 'stopped', records: 2, totals: [] })
    const more = [order('ann', 3, 59_000), order('ann', 2, 61_000)]
    const second = await revenue.runExample(url, file, more, true)
    expect(second).toEqual({
      status: 'completed',
      records: 4,
      totals: [
        { customer: 'ann', minute: 0, cents: 8 },
        { customer: 'bob', minute: 0, cents: 7 },
        { customer: 'ann', minute: 60_000, cents: 2 },
      ],
    })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

it('moved: a word count, a join with a table, and an alarm with state and a timer', async () => {
  expect(await moved.runExample('memory:')).toEqual({
    to: 2,
    priced: [
      { id: 1, cents: 60 },
      { id: 2, cents: null },
    ],
    alarms: [{ card: 'a', cents: 90_000 }],
  })
})
