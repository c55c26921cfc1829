import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { until } from '../../../test/support/fixture.ts'
import { open, timeline } from '../../index.ts'
import { openMemory } from '../../stores/memory/index.ts'
import { faultyStore } from '../../testing/index.ts'
import { createEngine } from '../api/open.ts'
import { sha256, systemClock } from '../base/platform.ts'

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
    // Waits until a due checkpoint is taken, before the next tick.
    const due = n >= 30 ? 1 + Math.floor((n - 30) / 10) : 0
    await until(() => taken.length >= due)
  }
  expect(taken).toEqual([30, 40, 50])
  expect(ticks.checkpointing.interval.because).toEqual(['every 10 entries'])
})

test.each([
  ['by count', { every: 5 }],
  ['at a milestone', { on: ['milestone'] }],
])(
  'G10: a checkpoint %s that fails is tried again after pauses that double, not all the time',
  async (_, checkpoint) => {
    const wide = timeline('wide', {
      initial: (): string[] => [],
      apply: (lines, entry: { type: 'line' | 'milestone'; text: string }) => [...lines, entry.text],
      checkpoint,
    })
    // Large enough for chunks, so that the blob store can fail.
    const line = (type: 'line' | 'milestone' = 'line') => ({ type, text: randomBytes(4000).toString('hex') })
    let isFull = true
    let attempts = 0
    const store = faultyStore(openMemory({ namespace: 'default', hash: sha256 }), (method) => {
      if (method !== 'blobs.put') return 'ok'
      attempts += 1
      return isFull ? 'fail-before' : 'ok'
    })
    const pauses: { ms: number; end(): void }[] = []
    const clock: typeof systemClock = {
      ...systemClock,
      after(ms, call, isAwaited) {
        if (ms % 100 !== 0 || isAwaited) return systemClock.after(ms, call, isAwaited)
        pauses.push({ ms, end: call })
        return () => undefined
      },
    }
    await using rp = createEngine({ store, clock }, { lease: 30_001 })
    const failed: number[] = []
    let verified = 0
    rp.events.on('checkpoint-failed', ({ failuresInARow }) => failed.push(failuresInARow))
    rp.events.on('checkpoint-verified', () => {
      verified += 1
    })
    const lines = await rp.open(wide, 'x')
    for (let n = 0; n < 4; n++) await lines.append(line())
    await lines.append(line('milestone'))
    for (let round = 1; round <= 4; round++) {
      await expect.poll(() => failed.length).toBe(round)
      // Neither iterations of the event loop nor appends retry it.
      for (let n = 0; n < 20; n++) await lines.append(line())
      expect([failed.length, attempts, pauses.length]).toEqual([round, round, round])
      if (round === 4) isFull = false
      pauses[round - 1]!.end()
    }
    await expect.poll(() => verified).toBe(1)
    expect(pauses.map(({ ms }) => ms)).toEqual([100, 200, 400, 800])
    expect(lines.checkpointing).toMatchObject({ lastSeq: 85, entriesSince: 0, failuresInARow: 0 })
    // A successful manual checkpoint ends the pause of the automatic ones.
    isFull = true
    for (let n = 0; n < 5; n++) await lines.append(line('milestone'))
    await expect.poll(() => failed.length).toBe(5)
    isFull = false
    await lines.checkpoint()
    for (let n = 0; n < 5; n++) await lines.append(line('milestone'))
    await expect.poll(() => lines.checkpointing.lastSeq).toBeGreaterThan(90)
    expect(pauses).toHaveLength(5)
  },
)
