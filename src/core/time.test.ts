import { expect, it } from 'vitest'
import { toTime } from './duration.ts'

const at = Date.UTC(2026, 0, 31, 12)

it('a time is a Date, ISO text or milliseconds since 1970', () => {
  for (const time of [at, new Date(at), '2026-01-31T12:00:00Z']) expect(toTime(time)).toBe(at)
})

it('anything else is refused with a code', () => {
  for (const time of [Number.NaN, 'soon', '', new Date(Number.NaN), null, undefined, {}, [], true, 5n]) {
    expect(() => toTime(time as never, 'at')).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
  }
})
