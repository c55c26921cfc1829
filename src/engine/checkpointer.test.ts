import { expect, test } from 'vitest'
import { open, timeline } from '../index.ts'

const patient = timeline('patient', {
  initial: () => 0,
  apply: (n, _entry: { type: 'tick' }) => n + 1,
  checkpoint: { every: 10, first: 30 },
  retain: { checkpoints: 10 },
})

test('A4.2: the first checkpoint may come later than the others follow each other', async () => {
  await using rp = await open('memory:')
  const ticks = await rp.open(patient, 'x')
  const taken: number[] = []
  rp.events.on('checkpoint-verified', () => taken.push(ticks.coordinate.seq))
  expect(ticks.checkpointing.interval.because).toEqual(['the first after 30 entries'])
  for (let n = 1; n <= 50; n++) {
    await ticks.append({ type: 'tick' })
    // Long enough for a checkpoint that is due to be taken before the next tick.
    const due = n >= 30 ? 1 + Math.floor((n - 30) / 10) : 0
    while (taken.length < due) await new Promise((resolve) => setTimeout(resolve, 1))
  }
  expect(taken).toEqual([30, 40, 50])
  expect(ticks.checkpointing.interval.because).toEqual(['every 10 entries'])
})
