import fc from 'fast-check'
import { expect, test } from 'vitest'
import { formatMs, toMs } from './duration.ts'
import { isReprise } from './errors.ts'

const codeOf = (act: () => unknown): string => {
  try {
    act()
  } catch (error) {
    if (isReprise(error)) return error.code
    throw error
  }
  return 'nothing was thrown'
}

test('whole milliseconds pass through unchanged, as a number and as text', () => {
  fc.assert(
    fc.property(fc.nat(), (ms) => {
      expect(toMs(ms)).toBe(ms)
      expect(toMs(`${ms}ms`)).toBe(ms)
    }),
  )
})

test('each unit is the documented number of milliseconds', () => {
  expect(['250ms', '30s', '5m', '2h', '7d', '1w', '1.5h', ' 2 s '].map((text) => toMs(text))).toEqual([
    250, 30_000, 300_000, 7_200_000, 604_800_000, 604_800_000, 5_400_000, 2000,
  ])
})

test('a duration above zero never becomes none, and none stays none', () => {
  expect([toMs('0.1ms'), toMs(0.2), toMs('0s'), toMs(0)]).toEqual([1, 1, 0, 0])
})

test('what formatMs writes reads back within one percent', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 10_000_000_000 }), (ms) => {
      expect(Math.abs(toMs(formatMs(ms)) - ms)).toBeLessThanOrEqual(ms / 100)
    }),
  )
})

test('formatMs chooses the unit a person would', () => {
  expect([0, 0.25, 250, 1500, 90_000, 7_200_000, 604_800_000, -1500].map(formatMs)).toEqual([
    '0ms',
    '0.25ms',
    '250ms',
    '1.5s',
    '1.5m',
    '2h',
    '7d',
    '-1.5s',
  ])
})

test('anything else is refused, and the message names the option', () => {
  const bad = ['', '5', 'soon', '-1s', '1e3s', '1 year', '5 M', '1.s', Number.NaN, -1, Number.POSITIVE_INFINITY]
  for (const duration of bad)
    expect(
      codeOf(() => toMs(duration)),
      String(duration),
    ).toBe('INVALID_ARGUMENT')
  for (const hostile of [null, undefined, {}, [], 5n]) {
    expect(codeOf(() => toMs(hostile as never))).toBe('INVALID_ARGUMENT')
  }
  expect(() => toMs('soon', 'leaseMs')).toThrow(/leaseMs/)
  expect(codeOf(() => toMs(`${'9'.repeat(400)}d`))).toBe('INVALID_ARGUMENT')
})
