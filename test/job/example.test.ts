// The example of the README, run unchanged.

import { open } from 'reprise'
import { expect, it } from 'vitest'
import { papers, saved } from '../../examples/papers.ts'

it('the papers example does 2,000 items once, and nothing in a second run', async () => {
  const rp = await open('memory:')
  const report = await (await rp.run(papers)).result()
  expect(report).toMatchObject({ status: 'completed', done: 2000, failed: 0 })
  expect(new Set(saved).size).toBe(2000)
  expect(await (await rp.run(papers)).result()).toMatchObject({ done: 0, skipped: 2000 })
  await rp.close()
})
