// A pipeline with a recovery budget for its checkpoints: measured costs decide the interval.

import { expect, it } from 'vitest'
import { chooseInterval } from '../../src/core/checkpoint/checkpoint-policy.ts'
import { noCosts } from '../../src/core/checkpoint/costs.ts'
import { timelineId } from '../../src/core/coordinate.ts'
import { keptInterval } from '../../src/engine/checkpoint/timing.ts'
import { open } from '../../src/index.ts'
import { collectSink, count, generatedSource, pipeline } from '../../src/layers/pipeline/index.ts'
import { until } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'

it('recoverWithin makes checkpoints by the budget, and measures what decides when the next one is due', async () => {
  const rp = await open('memory:')
  const triggers: string[] = []
  rp.events.on('checkpoint-published', ({ trigger }) => triggers.push(trigger))
  const counted = pipeline('counted', (p) => {
    p.from(
      'numbers',
      generatedSource((n) => n),
    )
      .keyBy((n) => n % 10)
      .aggregate('per-key', count())
      .filter(() => false)
      .to('out', collectSink())
  })
  const policy = { recoverWithin: '200ms' } as const
  const run = await rp.run(counted, { checkpoint: policy }).started()
  const attributes = async () => (await hostOf(rp).kernel.store.head([timelineId('pipeline/counted')]))[0]!.attributes
  await until(async () => '$costs' in (await attributes()), run.result())
  await run.stop()
  const made = triggers.slice(0, 8)
  expect(made).toEqual(made.map(() => 'budget'))
  const assumed = chooseInterval(policy, noCosts, { entries: 0, ms: 0, isFirst: false })
  const { costs, interval } = keptInterval(policy, await attributes(), { isFirst: false, now: Date.now() })
  expect(costs.checkpointMs).not.toBeNull()
  expect(costs.entriesPerMs).toBeGreaterThan(0)
  expect(costs.checkpointBytes).toBeGreaterThan(0)
  expect(interval.entries).not.toBe(assumed.entries)
  expect(interval.because).not.toEqual(assumed.because)
  // The cost of a restore is learned from measured restores.
  expect([costs.openMs, costs.restoreMs]).toEqual([null, null])
  const again = await rp.run(counted, { checkpoint: policy }).started()
  const kept = async () => keptInterval(policy, await attributes(), { isFirst: false, now: Date.now() }).costs
  await until(async () => (await kept()).openMs !== null, again.result())
  await again.stop()
  const learned = await kept()
  expect(learned.openMs).toBeGreaterThan(0)
  expect(learned.restoreMs).toBeGreaterThan(0)
  expect(learned.restoreBytes).toBeGreaterThan(0)
  await rp.close()
})
