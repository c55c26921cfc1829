// Constructors of windows for definitions.

import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import { ZoneDays } from './rules/days.ts'
import { checkWindows, type FixedWindows, type SessionWindows } from './rules/windows.ts'

export type Windows = FixedWindows | SessionWindows

export interface CountWindows {
  readonly kind: 'count'
  readonly size: number
}

export interface WindowPlacement {
  /** Shifts the boundaries, for days that do not begin at midnight UTC. */
  readonly offset?: Duration
}

const placement = namesOf<WindowPlacement>()('offset')

/** Consecutive windows of one length. @example tumbling('1m') */
export function tumbling(length: Duration, options: WindowPlacement = {}): FixedWindows {
  return sliding(length, length, options)
}

/** Windows of one length, one starting every `step`. @example sliding('1h', '5m') */
export function sliding(length: Duration, step: Duration, options: WindowPlacement = {}): FixedWindows {
  checkOptions('the options of windows', options, placement)
  const windows: FixedWindows = {
    kind: 'fixed',
    lengthMs: toMs(length, 'length'),
    stepMs: toMs(step, 'step'),
    offsetMs: toMs(options.offset ?? 0, 'offset'),
  }
  checkWindows(windows)
  return windows
}

/**
 * One window per day of a time zone, from midnight to midnight: 23 to 25 hours where clocks change. Default: 'UTC'.
 * @example days('Europe/Berlin')
 */
export function days(zone = 'UTC'): FixedWindows {
  return { ...tumbling('1d'), days: new ZoneDays(zone) }
}

/**
 * One window per burst of records without a gap longer than this: records exactly a gap apart share a session, as in Flink.
 * @example session('30m')
 */
export function session(gap: Duration): SessionWindows {
  const windows: SessionWindows = { kind: 'session', gapMs: toMs(gap, 'gap') }
  checkWindows(windows)
  return windows
}

/** A window per `size` records of a key; incomplete windows are emitted when the source ends. @example every(100) */
export function every(size: number): CountWindows {
  if (!Number.isSafeInteger(size) || size < 1) {
    throw new RepriseError('INVALID_ARGUMENT', `a window must hold at least 1 record (got ${String(size)})`, { size })
  }
  return { kind: 'count', size }
}
