// The days of a time zone, which are 23 to 25 hours long where clocks change. A day begins at the first moment of its date; a
// date that a zone leaves out has no day.

import { RepriseError } from '../../../core/errors.ts'

const dayMs = 86_400_000
/** Local midnight is at most this far from midnight UTC. */
const furthestMs = 17 * 3_600_000
const knownMax = 1024
/** Dates end a little later. */
const timeMax = 8.6e15

export class ZoneDays {
  readonly zone: string
  readonly #format: Intl.DateTimeFormat
  readonly #starts = new Map<number, number>()
  /** The day of the last time that was asked for: most records fall into the same day as the record before. */
  #last = { start: Number.POSITIVE_INFINITY, end: Number.NEGATIVE_INFINITY }

  constructor(zone: string) {
    this.zone = zone
    try {
      // Without a name, the format would use the zone of the process.
      if (typeof zone !== 'string') throw new TypeError('a time zone has a name')
      const date = { year: 'numeric', month: 'numeric', day: 'numeric', era: 'short' } as const
      this.#format = new Intl.DateTimeFormat('en-US', { timeZone: zone, calendar: 'gregory', ...date })
    } catch (cause) {
      const what = `there is no time zone ${String(zone)}: use a name such as 'Europe/Berlin'`
      throw new RepriseError('INVALID_ARGUMENT', what, { zone: String(zone) }, cause)
    }
  }

  /** The start of the day that contains this time. */
  startOf(at: number): number {
    const time = Math.min(Math.max(at, -timeMax), timeMax)
    if (time < this.#last.start || time >= this.#last.end) this.#last = this.#around(time)
    return this.#last.start
  }

  /** The end of the day that begins at this time. */
  endOf(start: number): number {
    this.startOf(start)
    return this.#last.end
  }

  #around(time: number): { readonly start: number; readonly end: number } {
    let date = this.#dateOf(time)
    // Where clocks are set back over midnight, the date is not that of the day.
    while (this.#begin(date) > time) date -= 1
    while (this.#begin(date + 1) <= time) date += 1
    return { start: this.#begin(date), end: this.#begin(date + 1) }
  }

  /** The first moment of this date or a later one. Dates are days since 1970. */
  #begin(date: number): number {
    const known = this.#starts.get(date)
    if (known !== undefined) return known
    let [low, high] = [date * dayMs - furthestMs, date * dayMs + furthestMs]
    while (low < high) {
      const middle = Math.floor((low + high) / 2)
      if (this.#dateOf(middle) >= date) high = middle
      else low = middle + 1
    }
    if (this.#starts.size >= knownMax) this.#starts.clear()
    this.#starts.set(date, low)
    return low
  }

  #dateOf(time: number): number {
    const parts = new Map(this.#format.formatToParts(time).map(({ type, value }) => [type, value]))
    const year = Number(parts.get('year'))
    const date = new Date(0)
    date.setUTCFullYear(
      parts.get('era') === 'BC' ? 1 - year : year,
      Number(parts.get('month')) - 1,
      Number(parts.get('day')),
    )
    return date.getTime() / dayMs
  }
}
