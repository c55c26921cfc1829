import { expect, it } from 'vitest'
import { pointOf } from './target.ts'

const time = Date.UTC(2026, 0, 31, 12)

it('a restore goes up to a time, a position or a record', () => {
  for (const at of [time, new Date(time), '2026-01-31T12:00:00Z', { time }]) expect(pointOf(at)).toEqual({ time })
  expect(pointOf({ record: 7 })).toEqual({ record: 7 })
  expect(pointOf({ position: 0 })).toEqual({ position: 0 })
})

it('anything else is refused with a code', () => {
  for (const at of [null, true, 'soon', Number.NaN, [], {}, { record: 'x' }, { position: 1.5 }, { time: {} }]) {
    expect(() => pointOf(at as never)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
  }
})
