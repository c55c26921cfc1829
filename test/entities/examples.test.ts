// The examples of the guides run as they stand.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import * as accounts from '../../examples/accounts.ts'
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

it('training, twice: the second run goes on where the first stopped', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-example-'))
  try {
    const url = `sqlite:${join(folder, 'x.db')}`
    expect(await training.runExample(url)).toMatchObject({ resumedFrom: 0, step: 20 })
    expect(await training.runExample(url, 7)).toMatchObject({ resumedFrom: 20, step: 27 })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
