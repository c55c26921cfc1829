import fc from 'fast-check'
import { expect, test } from 'vitest'
import { isReprise } from '../errors.ts'
import {
  type CheckpointPolicy,
  checkPolicy,
  chooseInterval,
  dalyIntervalMs,
  decideCheckpoint,
  youngIntervalMs,
} from './checkpoint-policy.ts'
import { estimate, type MeasuredCosts, noCosts } from './costs.ts'

const policies: fc.Arbitrary<CheckpointPolicy> = fc.record(
  {
    every: fc.integer({ min: 1, max: 5000 }),
    each: fc.integer({ min: 1, max: 100_000 }),
    recoverWithin: fc.integer({ min: 1, max: 20_000 }),
    failureEvery: fc.oneof(fc.constant('observed' as const), fc.integer({ min: 1, max: 100_000_000 })),
    on: fc.constantFrom([], ['paid'], ['shipped']),
  },
  { requiredKeys: [] },
)
const cost = (max: number) => fc.option(fc.double({ min: 0, max, noNaN: true }))
const costs: fc.Arbitrary<MeasuredCosts> = fc.record({
  checkpointMs: cost(5000),
  openMs: cost(50),
  restoreMs: cost(5000),
  restoreBytes: cost(1e9),
  applyMsPerEntry: cost(5),
  readMsPerEntry: cost(1),
  bytesPerEntry: cost(1e6),
  entriesPerMs: cost(100),
  checkpointBytes: cost(1e9),
  stallMs: cost(1e4),
  load: cost(1),
})
/** Only the given costs; reading entries and opening are free. */
const only = (given: Partial<MeasuredCosts>): MeasuredCosts => ({ ...noCosts, openMs: 0, readMsPerEntry: 0, ...given })
const sinces = fc.record({
  entries: fc.nat(10_000),
  ms: fc.nat(1_000_000),
  types: fc.constantFrom([], ['paid'], ['added']),
  replayMs: fc.nat(20_000),
  isFirst: fc.boolean(),
  failureEveryMs: fc.nat(100_000_000),
})

test('A4.2: a mix of triggers is due exactly when one of them alone is, in a process that is not busy', () => {
  fc.assert(
    fc.property(policies, costs, sinces, (policy, some, since) => {
      const measured = { ...some, load: 0 }
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

test('A4.2: a checkpoint with a predicted time is due then, and not before', () => {
  fc.assert(
    fc.property(policies, costs, sinces, (policy, measured, { types: _, ...since }) => {
      const { isDue, dueInMs } = decideCheckpoint(policy, measured, since)
      const later = (ms: number) => decideCheckpoint(policy, measured, { ...since, ms: since.ms + ms })
      expect(isDue).toBe(dueInMs === 0)
      if (dueInMs === null || dueInMs === 0) return
      expect(later(dueInMs + 0.001).isDue).toBe(true)
      // Without entries the measured pace drops, which can only move the next limit to a later time.
      if (policy.recoverWithin === undefined) expect(later(dueInMs * 0.99 - 1).isDue).toBe(false)
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

test('A4.3: all terms of Daly’s estimate count where a checkpoint is a sizeable part of the time between failures', () => {
  expect(dalyIntervalMs(1000, 4000)).toBeCloseTo(2201.044, 2)
})

test('A4.3, G9: within the interval that was picked, recovery stays inside the budget, also during a checkpoint', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 100, max: 20_000 }),
      costs,
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.boolean(),
      fc.record({ entries: fc.integer({ min: 1, max: 5000 }), ms: fc.integer({ min: 1, max: 100_000 }) }),
      (recoverWithin, some, restorePart, isFirst, since) => {
        const measured = { ...some, restoreMs: recoverWithin * restorePart, restoreBytes: 0, checkpointBytes: 0 }
        const { entries, because } = chooseInterval({ recoverWithin }, measured, { ...since, isFirst })
        if (because[0]!.includes('is not possible')) return
        const { openMs, restoreMs, replayMsPerEntry, checkpointMs } = estimate(measured, isFirst)
        const arriving = (measured.entriesPerMs ?? 0) * checkpointMs
        expect(openMs + restoreMs + (entries! + arriving) * replayMsPerEntry).toBeLessThanOrEqual(recoverWithin)
      },
    ),
  )
})

test('A4.3: the replay that was followed decides, not the number of entries', () => {
  const measured = only({ checkpointMs: 1, restoreMs: 0, applyMsPerEntry: 0.01 })
  const due = (entries: number, replayMs: number) =>
    decideCheckpoint({ recoverWithin: '1s' }, measured, { entries, ms: 1e6, replayMs }).isDue
  expect([due(10, 599), due(10, 600), due(1e6, 599)]).toEqual([false, true, false])
})

test('A4.3: a slower replay never makes the interval longer', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 20_000 }),
      fc.double({ min: 0, max: 5, noNaN: true }),
      fc.double({ min: 0, max: 5, noNaN: true }),
      (recoverWithin, one, two) => {
        const at = (applyMsPerEntry: number) =>
          chooseInterval({ recoverWithin }, only({ checkpointMs: 1, restoreMs: 1, applyMsPerEntry })).entries!
        expect(at(Math.max(one, two))).toBeLessThanOrEqual(at(Math.min(one, two)))
      },
    ),
  )
})

test('A4.3: load stretches the interval, never beyond the budget and never that of a policy without one', () => {
  fc.assert(
    fc.property(policies, costs, sinces, (policy, some, since) => {
      const at = (load: number) => chooseInterval(policy, { ...some, load }, since)
      const [calm, busy] = [at(0), at(1)]
      expect(busy.entries ?? 0).toBeGreaterThanOrEqual(calm.entries ?? 0)
      expect(busy.ms ?? 0).toBeGreaterThanOrEqual(calm.ms ?? 0)
      expect(at(0.5)).toEqual(calm)
      if (policy.recoverWithin === undefined) expect(busy).toEqual(calm)
    }),
  )
  const measured = only({ checkpointMs: 10, restoreMs: 0, applyMsPerEntry: 1, entriesPerMs: 0.001, load: 0.95 })
  const { entries, ms, because } = chooseInterval({ recoverWithin: '1s', failureEvery: '1d' }, measured)
  expect([entries, ms]).toEqual([849, 4 * 41_563])
  expect(because[0]).toContain('stretched to 85 % of it: busy 95 %')
  expect(because[1]).toContain('stretched from 41.56s')
  // The budget is used up after 20 s: the failure-rate interval is not stretched beyond that.
  const faster = chooseInterval({ recoverWithin: '1s', failureEvery: '1d' }, { ...measured, entriesPerMs: 0.01 })
  expect(faster.ms).toBe(Math.round(faster.entries! / 0.01))
})

test('A4.3: the current pace counts once it is measured, and never less than the earlier one', () => {
  const measured = only({ checkpointMs: 20, restoreMs: 100, applyMsPerEntry: 0.1, entriesPerMs: 0.5 })
  const at = (since: { entries: number; ms: number }, costs = measured) =>
    chooseInterval({ recoverWithin: '2s' }, costs, since).entries
  // 5 entries per ms for the duration of a checkpoint: 100 arrive meanwhile, and 10 at the earlier pace.
  expect(at({ entries: 100, ms: 20 })).toBe(11_000 - 100)
  expect(at({ entries: 95, ms: 19 })).toBe(11_000 - 10)
  expect(at({ entries: 1, ms: 1000 })).toBe(11_000 - 10)
  // Without an earlier measurement, the current pace is used.
  const none = { ...measured, entriesPerMs: null }
  expect(at({ entries: 95, ms: 19 }, none)).toBe(11_000 - 100)
  expect(at({ entries: 0, ms: 0 }, none)).toBe(11_000)
})

test('A4.3: the choice is explained in words, with the numbers, measured or assumed', () => {
  const measured = only({ checkpointMs: 20, restoreMs: 100, applyMsPerEntry: 0.1, entriesPerMs: 0.5 })
  const { entries, because } = chooseInterval({ recoverWithin: '2s' }, measured)
  expect(entries).toBe(Math.floor((2000 * 0.6 - 100) / 0.1 - 10))
  expect(because).toEqual([
    'every 10990 entries to recover within 2s: restore 100ms, replay 100ms per 1000 entries, 10 entries arrive during a checkpoint of 20ms',
  ])
  expect(chooseInterval({ recoverWithin: '2s' }, noCosts).because[0]).toContain('50ms (assumed)')
})

test('a budget that cannot be met is reported, and checkpoints still do not run back to back', () => {
  const measured = only({ checkpointMs: 400, restoreMs: 3000, applyMsPerEntry: 1 })
  const early = decideCheckpoint({ recoverWithin: '1s' }, measured, { entries: 50, ms: 399 })
  expect(early).toMatchObject({ isDue: false, dueInMs: 1 })
  expect(chooseInterval({ recoverWithin: '1s' }, measured).because[0]).toContain('is not possible')
  expect(decideCheckpoint({ recoverWithin: '1s' }, measured, { entries: 50, ms: 400 })).toMatchObject({
    isDue: true,
    trigger: 'budget',
  })
})

/** Expected time to finish an hour of work (Daly's model): exponential failures, a checkpoint every `interval`. */
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
  expect(usual.because).toContain("Young's formula 41.57s")
})

test('A4.3: failures may be observed: more of them, shorter intervals; none yet, one in a day', () => {
  const measured = { ...noCosts, checkpointMs: 10 }
  const at = (failureEveryMs?: number) =>
    chooseInterval(
      { failureEvery: 'observed' },
      measured,
      failureEveryMs === undefined ? undefined : { entries: 0, ms: 0, failureEveryMs },
    )
  expect(at()).toMatchObject({ ms: 41_563 })
  expect(at(3_600_000).ms).toBeLessThan(at(86_400_000).ms!)
  expect(at(3_600_000).because[0]).toContain('a failure is observed every 1h')
})

test('a policy that makes no sense is refused', () => {
  for (const policy of [
    { every: 0 },
    { every: 1.5 },
    { every: 1, first: 0 },
    { each: 0 },
    { recoverWithin: 'soon' },
    { failureEvery: '0s' },
    { failureEvery: 'seen' },
    { each: 'observed' },
  ]) {
    try {
      checkPolicy(policy as CheckpointPolicy)
      expect.unreachable()
    } catch (error) {
      expect(isReprise(error, 'INVALID_ARGUMENT')).toBe(true)
    }
  }
  checkPolicy({ every: 1, each: '30s', recoverWithin: '2s', failureEvery: '1d', on: ['paid'] })
})
