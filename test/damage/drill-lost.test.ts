// A drill reports the entries that a recovery from each checkpoint would lose. Pipelines and projections read later data from
// their sources again, and lose nothing; an older save has lost the newer ones.

import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import { collectSink, pipeline, valueSource } from '../../src/layers/pipeline/index.ts'
import { newFolder, removeFolder } from '../crash/support.ts'
import { fill } from '../entities/damage-world.ts'

const folder = newFolder(true)
afterAll(() => removeFolder(folder))

const sums = pipeline('sums', (p) => {
  p.from('numbers', valueSource([1, 2, 3]))
    .map((n) => n + 1)
    .to('sums', collectSink<number>())
})

it('nothing of pipelines and projections, the newer ones of an older save', async () => {
  const rp = await open(`sqlite:${join(folder, 'store.db')}`, { housekeeping: false })
  await fill(rp)
  await rp.run(sums).result()
  const { results } = await rp.drill()
  const lostOf = (prefix: string) =>
    results.filter(({ timeline }) => timeline.startsWith(prefix)).map(({ entriesLost }) => entriesLost)
  expect(lostOf('projection/lengths').length).toBeGreaterThan(1)
  expect(lostOf('pipeline/').length).toBeGreaterThan(0)
  expect([...lostOf('projection/'), ...lostOf('pipeline/')].filter((lost) => lost > 0)).toEqual([])
  expect(lostOf('save/saves')).toEqual([0, 1, 2])
  await rp.close()
})
