import fc from 'fast-check'
import { expect, it } from 'vitest'
import { ZoneDays } from './days.ts'
import { endOf, type FixedWindows, nextEnd, startsOf } from './windows.ts'

const hourMs = 3_600_000
const utc = (text: string) => Date.parse(`${text}Z`)

it.each([
  ['Europe/Berlin', '2026-03-29T12:00', '2026-03-28T23:00', 23],
  ['Europe/Berlin', '2026-10-25T23:59', '2026-10-25T23:00', 24],
  ['Europe/Berlin', '2026-10-25T22:59', '2026-10-24T22:00', 25],
  ['UTC', '2026-10-25T23:59', '2026-10-25T00:00', 24],
  // Clocks were set forward at midnight: the day began at one o'clock.
  ['America/Sao_Paulo', '2018-11-04T12:00', '2018-11-04T03:00', 23],
  // Clocks were set back from midnight to eleven: the day before had two hours from eleven on.
  ['America/Sao_Paulo', '2018-02-18T02:30', '2018-02-17T02:00', 25],
  // 30 December 2011 did not exist.
  ['Pacific/Apia', '2011-12-30T09:59', '2011-12-29T10:00', 24],
  ['Pacific/Apia', '2011-12-30T10:00', '2011-12-30T10:00', 24],
  ['Asia/Kathmandu', '1970-01-01T00:00', '1969-12-31T18:30', 24],
])('a day of %s that contains %s begins at %s and has %i hours', (zone, time, start, hours) => {
  const days = new ZoneDays(zone)
  expect(new Date(days.startOf(utc(time))).toISOString()).toBe(new Date(utc(start)).toISOString())
  expect((days.endOf(utc(start)) - utc(start)) / hourMs).toBe(hours)
})

it('days follow each other without a gap, whatever the order in which they are asked for', () => {
  for (const zone of ['America/St_Johns', 'Africa/Casablanca', 'Australia/Lord_Howe', 'Asia/Tehran']) {
    const days = new ZoneDays(zone)
    let start = days.startOf(utc('1987-01-01T00:00'))
    for (let n = 0; n < 400; n++) {
      const end = days.endOf(start)
      expect((end - start) / hourMs).toBeGreaterThan(21)
      expect((end - start) / hourMs).toBeLessThan(27)
      for (const time of [start, end - 1, start + 7 * hourMs]) expect(new ZoneDays(zone).startOf(time)).toBe(start)
      start = end
    }
  }
})

it('refuses a zone that does not exist', () => {
  for (const zone of ['Europe/Berlín', '', undefined, 5]) {
    expect(() => new ZoneDays(zone as string)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
  }
})

it('windows by days contain each time once, and the next end is the lowest one above a watermark', () => {
  const zone = new ZoneDays('America/Sao_Paulo')
  const windows: FixedWindows = { kind: 'fixed', lengthMs: 24 * hourMs, stepMs: 24 * hourMs, offsetMs: 0, days: zone }
  const [first, last] = [utc('2018-02-01T00:00'), utc('2018-12-01T00:00')]
  const ends: number[] = []
  for (let end = zone.startOf(first); end < last; end = zone.endOf(end)) ends.push(end)
  const time = fc.integer({ min: first + 48 * hourMs, max: last - 96 * hourMs })
  fc.assert(
    fc.property(time, fc.constantFrom(0, 1, hourMs, 30 * hourMs), (at, lateMs) => {
      const [start, ...others] = startsOf(windows, at)
      expect(others).toEqual([])
      expect(start! <= at && at < endOf(windows, start!)).toBe(true)
      const due = ends.flatMap((end) => [end, end + lateMs]).filter((end) => end > at)
      expect(nextEnd(windows, lateMs, at)).toBe(Math.min(...due))
    }),
  )
  expect(nextEnd(windows, 0, Number.NEGATIVE_INFINITY)).toBe(Number.NEGATIVE_INFINITY)
})
