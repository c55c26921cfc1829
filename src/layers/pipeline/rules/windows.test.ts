import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { checkWindows, isForgotten, mergeSession, startsOf, type TimeWindow } from './windows.ts'

const time = fc.integer({ min: -10_000, max: 10_000 })

describe('fixed windows', () => {
  it('are all those, and only those, that hold the time', () => {
    fc.assert(
      fc.property(
        time,
        fc.integer({ min: 1, max: 50 }),
        fc.nat(49),
        fc.integer({ min: -20, max: 20 }),
        (at, lengthMs, pick, offsetMs) => {
          const stepMs = 1 + (pick % lengthMs)
          const starts = startsOf({ kind: 'fixed', lengthMs, stepMs, offsetMs }, at)
          const wanted: number[] = []
          for (let start = at - lengthMs + 1; start <= at; start++) {
            if ((((start - offsetMs) % stepMs) + stepMs) % stepMs === 0) wanted.push(start)
          }
          expect(starts).toEqual(wanted)
        },
      ),
    )
  })

  it('leave no record out', () => {
    expect(() => checkWindows({ kind: 'fixed', lengthMs: 5, stepMs: 6, offsetMs: 0 })).toThrow('INVALID_ARGUMENT')
    expect(() => checkWindows({ kind: 'fixed', lengthMs: 0, stepMs: 0, offsetMs: 0 })).toThrow('at least 1 ms')
    expect(() => checkWindows({ kind: 'session', gapMs: -1 })).toThrow('at least 1 ms')
  })

  it('are forgotten when the watermark has passed their end and the lateness', () => {
    expect(isForgotten(10, 5, 14)).toBe(false)
    expect(isForgotten(10, 5, 15)).toBe(true)
  })
})

describe('session windows', () => {
  it('hold records that are exactly a gap apart, as in Flink, and sessions that an earlier version kept apart', () => {
    expect(mergeSession([{ start: 0, end: 10 }], 10, 10)).toEqual({ start: 0, end: 20, at: 0, absorbed: 1 })
    expect(mergeSession([{ start: 0, end: 10 }], 11, 10)).toMatchObject({ absorbed: 0, at: 1 })
    const touching = [0, 10, 20].map((start) => ({ start, end: start + 10 }))
    expect(mergeSession(touching, 10, 10)).toEqual({ start: 0, end: 20, at: 0, absorbed: 2 })
  })

  it('are the bursts of their records, in whatever order these come', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 200 }), { minLength: 1 }),
        fc.integer({ min: 1, max: 20 }),
        (times, gapMs) => {
          const sessions: TimeWindow[] = []
          for (const time of times) {
            const { start, end, at, absorbed } = mergeSession(sessions, time, gapMs)
            sessions.splice(at, absorbed, { start, end })
          }
          const wanted: { start: number; end: number }[] = []
          for (const at of [...times].sort((a, b) => a - b)) {
            const last = wanted.at(-1)
            if (last && at <= last.end) last.end = Math.max(last.end, at + gapMs)
            else wanted.push({ start: at, end: at + gapMs })
          }
          expect(sessions).toEqual(wanted)
        },
      ),
    )
  })
})
