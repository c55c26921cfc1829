import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  type CheckpointPolicy,
  checkPolicy,
  chooseInterval,
  dalyIntervalMs,
  decideCheckpoint,
  type MeasuredCosts,
  noCosts,
  observe,
  youngIntervalMs,
} from './economics.ts'
import { isReprise } from './errors.ts'

const policies: fc.Arbitrary<CheckpointPolicy> = fc.record(
  {
    every: fc.integer({ min: 1, max: 5000 }),
    each: fc.integer({ min: 1, max: 100_000 }),
    recoverWithin: fc.integer({ min: 1, max: 20_000 }),
    failureEvery: fc.integer({ min: 1, max: 100_000_000 }),
    on: fc.constantFrom([], ['paid'], ['shipped']),
  },
  { requiredKeys: [] },
)
const cost = (max: number) => fc.option(fc.double({ min: 0, max, noNaN: true }))
const costs: fc.Arbitrary<MeasuredCosts> = fc.record({
  checkpointMs: cost(5000),
  restoreMs: cost(5000),
  replayMsPerEntry: cost(5),
})
const sinces = fc.record({
  entries: fc.nat(10_000),
  ms: fc.nat(1_000_000),
  types: fc.constantFrom([], ['paid'], ['added']),
})

test('A4.2: a mix of triggers is due exactly when one of them alone is', () => {
  fc.assert(
    fc.property(policies, costs, sinces, (policy, measured, since) => {
      const alone = Object.entries(policy).some(
        ([name, value]) => decideCheckpoint({ [name]: value }, measured, since).isDue,
      )
      const together = decideCheckpoint(policy, measured, since)
      expect(together.isDue).toBe(alone)
      expect(together.isDue).toBe(together.trigger !== null)
      expect(together.because).not.toBe('')
    }),
  )
})

test('A4.2: each trigger fires on its own side of its limit only', () => {
  const due = (policy: CheckpointPolicy, entries: number, ms: number, types?: string[]) => {
    const { isDue, trigger } = decideCheckpoint(policy, noCosts, { entries, ms, ...(types && { types }) })
    return isDue ? trigger : null
  }
  expect([due({ every: 10 }, 9, 1e9), due({ every: 10 }, 10, 0)]).toEqual([null, 'count'])
  const first = (entries: number, isFirst: boolean) =>
    decideCheckpoint({ every: 10, first: 40 }, noCosts, { entries, ms: 1, isFirst }).trigger
  expect([first(39, true), first(40, true), first(9, false), first(10, false)]).toEqual([null, 'count', null, 'count'])
  expect([due({ each: '30s' }, 1, 29_999), due({ each: '30s' }, 1, 30_000)]).toEqual([null, 'time'])
  expect([due({ on: ['paid'] }, 1, 0, ['added']), due({ on: ['paid'] }, 2, 0, ['added', 'paid'])]).toEqual([
    null,
    'event',
  ])
  expect(due({}, 1e6, 1e9)).toBeNull()
})

test('nothing new means nothing to capture, whatever the policy', () => {
  fc.assert(
    fc.property(policies, costs, fc.nat(), (policy, measured, ms) => {
      expect(decideCheckpoint(policy, measured, { entries: 0, ms, types: ['paid'] }).isDue).toBe(false)
    }),
  )
})

test('A4.3, G9: within the interval that was picked, recovery stays inside the budget, also during a checkpoint', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 100, max: 20_000 }),
      fc.double({ min: 0.001, max: 5, noNaN: true }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.nat(2000),
      fc.record({ entries: fc.integer({ min: 1, max: 5000 }), ms: fc.integer({ min: 1, max: 100_000 }) }),
      (recoverWithin, replayMsPerEntry, restorePart, checkpointMs, since) => {
        const measured = { checkpointMs, restoreMs: recoverWithin * restorePart, replayMsPerEntry }
        const { entries, because } = chooseInterval({ recoverWithin }, measured, since)
        if (because[0]!.includes('cannot be kept')) return
        const arriving = (since.entries / since.ms) * checkpointMs
        expect(measured.restoreMs + (entries! + arriving) * replayMsPerEntry).toBeLessThanOrEqual(recoverWithin)
      },
    ),
  )
})

test('A4.3: a slower replay never makes the interval longer', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 20_000 }),
      fc.double({ min: 0, max: 5, noNaN: true }),
      fc.double({ min: 0, max: 5, noNaN: true }),
      (recoverWithin, one, two) => {
        const at = (replayMsPerEntry: number) =>
          chooseInterval({ recoverWithin }, { checkpointMs: 1, restoreMs: 1, replayMsPerEntry }).entries!
        expect(at(Math.max(one, two))).toBeLessThanOrEqual(at(Math.min(one, two)))
      },
    ),
  )
})

test('A4.3: what was picked is said in words, with the numbers, measured or assumed', () => {
  const measured = { checkpointMs: 20, restoreMs: 100, replayMsPerEntry: 0.1 }
  const { entries, because } = chooseInterval({ recoverWithin: '2s' }, measured, { entries: 500, ms: 1000 })
  expect(entries).toBe((2000 * 0.8 - 100) / 0.1 - 10)
  expect(because).toEqual([
    'every 14990 entries to recover within 2s: restore 100ms, replay 100ms per 1000 entries, 10 entries arrive during a checkpoint of 20ms',
  ])
  expect(chooseInterval({ recoverWithin: '2s' }, noCosts).because[0]).toContain('50ms (assumed)')
})

test('a budget that cannot be kept is said to be so, and checkpoints still do not run back to back', () => {
  const measured = { checkpointMs: 400, restoreMs: 3000, replayMsPerEntry: 1 }
  const early = decideCheckpoint({ recoverWithin: '1s' }, measured, { entries: 50, ms: 399 })
  expect(early.isDue).toBe(false)
  expect(chooseInterval({ recoverWithin: '1s' }, measured).because[0]).toContain('cannot be kept')
  expect(decideCheckpoint({ recoverWithin: '1s' }, measured, { entries: 50, ms: 400 })).toMatchObject({
    isDue: true,
    trigger: 'budget',
  })
})

/** Expected time to finish an hour of work (Daly's model): exponential failures, restart cost R, checkpoints each `interval`. */
const expectedMs = (interval: number, checkpointMs: number, failureEveryMs: number): number =>
  failureEveryMs * Math.expm1((interval + checkpointMs) / failureEveryMs) * (3_600_000 / interval)

test('A4.3: the interval from a failure rate is within half a percent of the best one', () => {
  fc.assert(
    fc.property(
      fc.double({ min: 1, max: 60_000, noNaN: true }),
      fc.double({ min: 4, max: 10_000, noNaN: true }),
      (checkpointMs, times) => {
        const failureEveryMs = checkpointMs * times
        const picked = expectedMs(dalyIntervalMs(checkpointMs, failureEveryMs), checkpointMs, failureEveryMs)
        const young = youngIntervalMs(checkpointMs, failureEveryMs)
        const best = Math.min(
          ...Array.from({ length: 400 }, (_, step) =>
            expectedMs(young * (0.2 + step / 200), checkpointMs, failureEveryMs),
          ),
        )
        expect(picked).toBeLessThanOrEqual(best * 1.005)
      },
    ),
  )
})

test('Young and Daly agree where checkpoints are cheap, and Daly gives up at the failure time where they are not', () => {
  expect(youngIntervalMs(10, 86_400_000)).toBeCloseTo(41_569.2, 1)
  expect(dalyIntervalMs(10, 86_400_000) / youngIntervalMs(10, 86_400_000)).toBeCloseTo(1, 2)
  expect(dalyIntervalMs(5000, 1000)).toBe(1000)
})

test('a failure rate turns into a time, never shorter than a checkpoint takes', () => {
  const measured = { ...noCosts, checkpointMs: 5000 }
  expect(chooseInterval({ failureEvery: '1s' }, measured).ms).toBe(5000)
  const usual = decideCheckpoint({ failureEvery: '1d' }, { ...noCosts, checkpointMs: 10 }, { entries: 1, ms: 41_600 })
  expect(usual).toMatchObject({ isDue: true, trigger: 'failure rate', intervalMs: 41_563 })
  expect(usual.because).toContain('Young says 41.57s')
})

test('measured costs settle on what keeps being measured, and one outlier moves them by a quarter', () => {
  fc.assert(
    fc.property(
      fc.double({ min: 0, max: 1e6, noNaN: true }),
      fc.double({ min: 0, max: 1e6, noNaN: true }),
      (first, then) => {
        let measured = observe(noCosts, { kind: 'restore', ms: first })
        expect(measured.restoreMs).toBe(first)
        measured = observe(measured, { kind: 'restore', ms: then })
        expect(measured.restoreMs).toBeCloseTo(first * 0.75 + then * 0.25, 3)
        for (let i = 0; i < 100; i++) measured = observe(measured, { kind: 'restore', ms: then })
        expect(Math.abs(measured.restoreMs! - then)).toBeLessThan(1e-3)
        expect([measured.checkpointMs, measured.replayMsPerEntry]).toEqual([null, null])
      },
    ),
  )
})

test('samples that make no sense change nothing', () => {
  const measured = observe(noCosts, { kind: 'replay', ms: 20, entries: 1000 })
  expect(measured.replayMsPerEntry).toBe(0.02)
  for (const sample of [
    { kind: 'replay', ms: 1, entries: 0 },
    { kind: 'replay', ms: Number.NaN, entries: 1 },
    { kind: 'checkpoint', ms: -1 },
    { kind: 'restore', ms: Number.POSITIVE_INFINITY },
  ] as const) {
    expect(observe(measured, sample)).toBe(measured)
  }
})

test('a policy that makes no sense is refused', () => {
  for (const policy of [
    { every: 0 },
    { every: 1.5 },
    { every: 1, first: 0 },
    { each: 0 },
    { recoverWithin: 'soon' },
    { failureEvery: '0s' },
  ]) {
    try {
      checkPolicy(policy)
      expect.unreachable()
    } catch (error) {
      expect(isReprise(error, 'INVALID_ARGUMENT')).toBe(true)
    }
  }
  checkPolicy({ every: 1, each: '30s', recoverWithin: '2s', failureEvery: '1d', on: ['paid'] })
})
