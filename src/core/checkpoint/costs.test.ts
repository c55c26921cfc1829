import fc from 'fast-check'
import { expect, test } from 'vitest'
import { decodeCosts, encodeCosts, estimate, isAssumed, type MeasuredCosts, noCosts, observe } from './costs.ts'

test('costs converge to the measured value, and one outlier moves them by a quarter', () => {
  fc.assert(
    fc.property(
      fc.double({ min: 0, max: 1e6, noNaN: true }),
      fc.double({ min: 0, max: 1e6, noNaN: true }),
      (first, then) => {
        let measured = observe(noCosts, { kind: 'checkpoint', ms: first })
        expect(measured.checkpointMs).toBe(first)
        measured = observe(measured, { kind: 'checkpoint', ms: then })
        expect(measured.checkpointMs).toBeCloseTo(first * 0.75 + then * 0.25, 3)
        for (let i = 0; i < 100; i++) measured = observe(measured, { kind: 'checkpoint', ms: then })
        expect(Math.abs(measured.checkpointMs! - then)).toBeLessThan(1e-3)
        expect([measured.restoreMs, measured.applyMsPerEntry]).toEqual([null, null])
      },
    ),
  )
})

test('A4.3: the fold is timed live, and a replay measures the additional cost of reading', () => {
  const live = observe(noCosts, { kind: 'apply', ms: 0.5 })
  expect(estimate(live).replayMsPerEntry).toBeGreaterThan(0.5)
  const replayed = observe(live, { kind: 'replay', ms: 60, entries: 100 })
  expect(replayed.readMsPerEntry).toBeCloseTo(0.1)
  expect(estimate(replayed).replayMsPerEntry).toBeCloseTo(0.6)
  // A replay before any live fold cannot separate folding from reading: the estimate errs on the slow side.
  const first = observe(noCosts, { kind: 'replay', ms: 60, entries: 100 })
  expect(estimate(first).replayMsPerEntry).toBeGreaterThanOrEqual(0.6)
  // A replay of a few entries measures the round trip, not the cost of an entry.
  expect(observe(live, { kind: 'replay', ms: 60, entries: 3 })).toBe(live)
})

test('A4.3: before any measurement the cost of a restore is assumed to grow with the checkpoint, afterwards it is measured', () => {
  const captured = (bytes: number) => observe(noCosts, { kind: 'checkpoint', ms: 10, bytes })
  expect(estimate(captured(50_000_000)).restoreMs).toBeGreaterThan(1000)
  expect(estimate(captured(0)).restoreMs).toBeLessThan(10)
  expect(estimate(captured(50_000_000), true).restoreMs).toBe(0)
  const restored = observe(captured(10_000_000), { kind: 'restore', ms: 100, bytes: 10_000_000 })
  expect(estimate(restored).restoreMs).toBe(100)
  const grown = observe(restored, { kind: 'checkpoint', ms: 10, bytes: 20_000_000 })
  expect(estimate(grown).restoreMs).toBeCloseTo(200, -1)
  // The restore of a small checkpoint consists of round trips: twice the bytes do not take twice as long.
  const small = observe(noCosts, { kind: 'restore', ms: 4, bytes: 1000 })
  expect(estimate(observe(small, { kind: 'checkpoint', ms: 1, bytes: 2000 })).restoreMs).toBeLessThan(5)
})

test('samples that make no sense change nothing', () => {
  const measured = observe(noCosts, { kind: 'apply', ms: 0.02 })
  for (const sample of [
    { kind: 'replay', ms: 1, entries: 0 },
    { kind: 'replay', ms: Number.NaN, entries: 1 },
    { kind: 'checkpoint', ms: -1 },
    { kind: 'restore', ms: Number.POSITIVE_INFINITY },
    { kind: 'arrivals', ms: 0, entries: 1 },
    { kind: 'load', ms: 0, activeMs: 1 },
    { kind: 'load', ms: 1, activeMs: Number.NaN },
  ] as const) {
    expect(observe(measured, sample)).toBe(measured)
  }
})

test('stored as text they keep four digits, and other text is ignored', () => {
  const cost = fc.option(fc.double({ min: 0, max: 1e9, noNaN: true }))
  const all = fc.record(Object.fromEntries(Object.keys(noCosts).map((name) => [name, cost])))
  fc.assert(
    fc.property(all, (some) => {
      const costs = some as unknown as MeasuredCosts
      const read = decodeCosts(encodeCosts(costs))
      for (const [name, value] of Object.entries(read)) {
        const given = costs[name as keyof MeasuredCosts]
        if (given === null) expect(value).toBeNull()
        else expect(Math.abs(value - given)).toBeLessThanOrEqual(given * 1e-3)
      }
      expect(encodeCosts(read)).toBe(encodeCosts(costs))
    }),
  )
  for (const text of [undefined, '', '{', '{}', '3', '[-1,"x",null,1e999]']) expect(decodeCosts(text)).toEqual(noCosts)
  expect(isAssumed(noCosts)).toEqual({ checkpoint: true, restore: true, replay: true })
})
