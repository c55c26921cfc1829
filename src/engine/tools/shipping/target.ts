// The last record of a restore: the newest, or the last one up to a time or a position in the feed.

import { type Time, toTime } from '../../../core/duration.ts'
import { RepriseError } from '../../../core/errors.ts'
import type { RecordHead } from '../../../core/shipping/record.ts'
import { readOr, type ShipLog } from './log.ts'

/** A point in time: by the clock of the shipper (milliseconds since 1970), by the feed, or by the number of a record. */
export type ShipPoint = { readonly time: number } | { readonly position: number } | { readonly record: number }

/** Throws INVALID_ARGUMENT. @example pointOf('2026-01-31T12:00:00Z') // { time: 1769860800000 } */
export function pointOf(at: ShipPoint | Time): ShipPoint {
  if (typeof at !== 'object' || at === null || at instanceof Date) return { time: toTime(at, 'at') }
  for (const name of ['record', 'position'] as const) {
    const given = (at as Readonly<Record<string, unknown>>)[name]
    if (Number.isSafeInteger(given)) return at
  }
  if ('time' in at) return { time: toTime(at.time, 'at.time') }
  const what = 'at must be a time, { time }, { position } or { record }, the last two as whole numbers'
  throw new RepriseError('INVALID_ARGUMENT', what, { option: 'at' })
}

export interface Target {
  readonly number: number
  /** The last record requested; records between `number` and this one are reported as lost. */
  readonly of: number
  /** The requested moment is after the last record. */
  readonly isLater: boolean
}

/** Throws NOT_FOUND if it is before the oldest record kept. */
export async function findTarget(log: ShipLog, oldest: number, newest: number, point?: ShipPoint): Promise<Target> {
  if (!point) return { number: newest, of: newest, isLater: false }
  if ('record' in point) {
    const number = Math.min(point.record, newest)
    if (number < oldest) throw before(log, 'record', point.record)
    return { number, of: number, isLater: point.record > newest }
  }
  const isWithin = (head: RecordHead) => ('time' in point ? head.at <= point.time : head.position <= point.position)
  // Binary search: neither times nor positions ever decrease.
  let [low, high] = [oldest - 1, newest]
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    const found = await soundFrom(log, middle, high)
    if (found && isWithin(found.head)) low = found.number
    else high = middle - 1
  }
  if (low < oldest) throw before(log, 'time' in point ? 'time' : 'position', Object.values(point)[0])
  return { number: low, of: low, isLater: low === newest && (await isAfter(log, newest, point)) }
}

/** False for an unreadable record: its loss is reported anyway. */
async function isAfter(log: ShipLog, newest: number, point: { time: number } | { position: number }): Promise<boolean> {
  const found = await readOr(log, newest)
  if (typeof found === 'string') return false
  return 'time' in point ? point.time > found.head.at : point.position > found.head.position
}

async function soundFrom(log: ShipLog, from: number, to: number) {
  for (let number = from; number <= to; number++) {
    const found = await readOr(log, number)
    if (typeof found !== 'string') return found
  }
  return null
}

function before(log: ShipLog, what: string, given: unknown): RepriseError {
  return new RepriseError('NOT_FOUND', `${log.objects.name} does not go back to that ${what}`, { [what]: given })
}
