// Durations in the form people write: a number of milliseconds, or text such as '250ms', '30s', '1.5h', '7d'.
// The code computes in whole milliseconds; a duration above zero never rounds down to zero.

import { RepriseError } from './errors.ts'

/** Milliseconds, or a number with a unit: ms, s, m, h, d, w. Cast a text variable with `as Duration`: its use checks it. */
export type Duration = number | `${number}${'' | ' '}${keyof typeof unitMs}`

const unitMs = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const
const pattern = /^(\d+(?:\.\d+)?|\.\d+) ?(ms|s|m|h|d|w)$/

/** @example toMs('1.5h', 'timeout') // 5400000 */
export function toMs(duration: Duration | string, what = 'duration'): number {
  const ms = typeof duration === 'number' ? duration : typeof duration === 'string' ? parse(duration) : Number.NaN
  if (!(ms >= 0 && ms <= Number.MAX_SAFE_INTEGER)) {
    throw new RepriseError(
      'INVALID_ARGUMENT',
      `${what} is not a duration: use milliseconds, or text such as '250ms', '30s', '5m', '2h', '7d'`,
      { what, given: describe(duration) },
    )
  }
  return ms > 0 ? Math.max(1, Math.round(ms)) : 0
}

/** For a bound or a period: zero is refused. @example positiveMs('5m', 'loseAtMost') // 300000 */
export function positiveMs(duration: Duration | string, what: string): number {
  const ms = toMs(duration, what)
  if (ms > 0) return ms
  throw new RepriseError('INVALID_ARGUMENT', `${what} must be a duration above zero`, { given: String(duration) })
}

/** A moment: a Date, ISO text with a time zone or a date, or milliseconds since 1970. */
export type Time = Date | string | number

/** Milliseconds since 1970. @example toTime('2026-01-31T12:00:00Z', 'at') // 1769860800000 */
export function toTime(time: Time, what = 'time'): number {
  const ms =
    typeof time === 'number'
      ? time
      : time instanceof Date
        ? time.getTime()
        : typeof time === 'string'
          ? Date.parse(time)
          : Number.NaN
  if (Number.isFinite(ms)) return ms
  throw new RepriseError(
    'INVALID_ARGUMENT',
    `${what} must be a time: a Date, text such as '2026-01-31T12:00:00Z', or milliseconds since 1970`,
    { what, given: describe(time) },
  )
}

/** Formats a duration for people: one unit, at most two decimals. @example formatMs(90_000) // '1.5m' */
export function formatMs(ms: number): string {
  if (ms < 0) return `-${formatMs(-ms)}`
  const unit = ms >= unitMs.d ? 'd' : ms >= unitMs.h ? 'h' : ms >= unitMs.m ? 'm' : ms >= unitMs.s ? 's' : 'ms'
  return `${Math.round((ms / unitMs[unit]) * 100) / 100}${unit}`
}

function parse(text: string): number {
  const match = pattern.exec(text.trim())
  if (match === null) return Number.NaN
  return Number(match[1]) * unitMs[match[2] as keyof typeof unitMs]
}

function describe(value: unknown): string {
  return typeof value === 'string' ? value.slice(0, 80) : typeof value === 'number' ? String(value) : typeof value
}
