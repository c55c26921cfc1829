// Windows over event time, as arithmetic. A window is [start, end); it is final when the watermark reaches its end, and
// it is removed when the watermark reaches its end plus the allowed lateness.

import { RepriseError } from '../../../core/errors.ts'

export interface TimeWindow {
  /** Inclusive. */
  readonly start: number
  /** Exclusive. */
  readonly end: number
}

/** Windows of a fixed length, one starting every `stepMs`. Tumbling windows have a step equal to their length. */
export interface FixedWindows {
  readonly kind: 'fixed'
  readonly lengthMs: number
  readonly stepMs: number
  /** Shifts the boundaries, for days that do not begin at midnight UTC. */
  readonly offsetMs: number
  /** The days of a time zone: the lengths above are those of most days. */
  readonly days?: { readonly zone: string; startOf(time: number): number; endOf(start: number): number }
}

/** One window per burst of records without a gap longer than `gapMs`. */
export interface SessionWindows {
  readonly kind: 'session'
  readonly gapMs: number
}

export type TimeWindows = FixedWindows | SessionWindows

export function checkWindows(windows: TimeWindows): void {
  const lengths = windows.kind === 'session' ? [windows.gapMs] : [windows.lengthMs, windows.stepMs]
  for (const ms of lengths) {
    if (!Number.isSafeInteger(ms) || ms <= 0) {
      throw new RepriseError('INVALID_ARGUMENT', `a window must be at least 1 ms long (got ${ms})`, { ms })
    }
  }
  if (windows.kind === 'fixed' && windows.stepMs > windows.lengthMs) {
    throw new RepriseError(
      'INVALID_ARGUMENT',
      `windows must begin at least every ${windows.lengthMs} ms, or records between them would be lost`,
      { lengthMs: windows.lengthMs, stepMs: windows.stepMs },
    )
  }
}

/** The start of the last window that contains this time. Earlier windows start at multiples of `stepMs` before it. */
export function lastStart(windows: FixedWindows, time: number): number {
  const { stepMs, offsetMs, days } = windows
  if (days) return days.startOf(time)
  return Math.floor((time - offsetMs) / stepMs) * stepMs + offsetMs
}

/** The end of the window that begins at this time. */
export function endOf({ days, lengthMs }: FixedWindows, start: number): number {
  return days ? days.endOf(start) : start + lengthMs
}

/**
 * The starts of all windows that contain this time, oldest first.
 * @example startsOf({ kind: 'fixed', lengthMs: 10, stepMs: 5, offsetMs: 0 }, 12) // [5, 10]
 */
export function startsOf(windows: FixedWindows, time: number): number[] {
  if (windows.days) return [windows.days.startOf(time)]
  const starts: number[] = []
  for (let start = lastStart(windows, time); start > time - windows.lengthMs; start -= windows.stepMs)
    starts.push(start)
  return starts.reverse()
}

/** The lowest time above this one at which a window ends, or is removed `lateMs` after its end. */
export function nextEnd(windows: FixedWindows, lateMs: number, above: number): number {
  const { lengthMs, stepMs, days } = windows
  if (days) {
    if (!Number.isFinite(above)) return above
    const endAbove = (time: number) => days.endOf(days.startOf(time))
    return lateMs === 0 ? endAbove(above) : Math.min(endAbove(above), endAbove(above - lateMs) + lateMs)
  }
  const end = lastStart(windows, above - lengthMs) + lengthMs + stepMs
  return lateMs === 0 ? end : Math.min(end, lastStart(windows, above - lengthMs - lateMs) + lengthMs + lateMs + stepMs)
}

export interface SessionMerge extends TimeWindow {
  /** The index of the session among those of its key. */
  readonly at: number
  /** The number of sessions from that index on that it absorbed: none, one, or two with the record between them. */
  readonly absorbed: number
}

/** The session of a record, and its index among the sessions of the key, which are sorted and do not touch. */
export function mergeSession(sessions: readonly TimeWindow[], time: number, gapMs: number): SessionMerge {
  let start = time
  let end = time + gapMs
  let at = 0
  let absorbed = 0
  for (let i = 0; i < sessions.length; i++) {
    const session = sessions[i]!
    // Records exactly gapMs apart belong to one session, as in Flink. Sessions stored by a version that kept them apart may
    // touch: at most two of them are joined at once.
    if (session.start > time + gapMs || absorbed === 2) break
    if (session.end < time) {
      at = i + 1
      continue
    }
    absorbed += 1
    if (session.start < start) start = session.start
    if (session.end > end) end = session.end
  }
  return { start, end, at, absorbed }
}

/** True: no further record can belong to this window. */
export function isForgotten(end: number, lateMs: number, watermark: number): boolean {
  return end + lateMs <= watermark
}
