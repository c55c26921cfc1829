// The rows around a damaged row of the log: each run leads back to the previous run, and each row has the time of its commit.
// Among the possible originals of a damaged row, at most one agrees with both.

import { RepriseError } from '../../../core/errors.ts'
import { unpackEntries } from '../../../core/history/entry-run.ts'
import type { Connection } from '../file/connection.ts'
import { type Frame, isWhole, readFrames, unsettledTime } from '../log/log-row.ts'

/** Clocks of one machine differ by less; the other possible flipped bit of a time is worth 24 days or more. */
const dayMs = 24 * 60 * 60 * 1000
/** The number of rows before and after whose times are compared. */
const reach = 64

/** Damaged rows of the log, each with its possible originals. */
export type Unsure = ReadonlyMap<number, readonly Uint8Array[]>

export class RowNeighbours {
  readonly #to: Connection
  readonly #tids: ReadonlySet<number>
  readonly #followers = new Map<number, Frame[]>()
  /** The starts and ends of runs of the timelines in question. */
  readonly #starts = new Set<string>()
  readonly #ends = new Set<string>()

  /** `frames`: all readable frames; `tids`: the known timelines. */
  constructor(to: Connection, tids: ReadonlySet<number>, unsure: Unsure, frames: Iterable<{ readonly frame: Frame }>) {
    this.#to = to
    this.#tids = tids
    const wanted = new Set<number>()
    for (const [at, rows] of unsure) for (const row of rows) for (const { tid } of readFrames(at, row)) wanted.add(tid)
    for (const at of unsure.keys()) this.#followers.set(at, [])
    for (const { frame } of frames) {
      this.#followers.get(frame.previous)?.push(frame)
      if (!wanted.has(frame.tid)) continue
      this.#starts.add(`${frame.tid} ${frame.first}`)
      this.#ends.add(`${frame.tid} ${frame.last}`)
    }
  }

  /** The only one of these rows that agrees with its neighbours; null: none or several do. */
  only(position: number, rows: readonly Uint8Array[]): Uint8Array | null {
    const fitting = rows.filter((row) => this.#fits(position, row))
    return fitting.length === 1 ? fitting[0]! : null
  }

  #fits(position: number, row: Uint8Array): boolean {
    const frames = [...readFrames(position, row)]
    const followers = this.#followers.get(position) ?? []
    return (
      frames.every((frame) => this.#tids.has(frame.tid) && isCounted(frame) && this.#follows(position, frame)) &&
      followers.every(({ tid, first }) => frames.some((frame) => frame.tid === tid && frame.last === first - 1)) &&
      this.#isInTime(position, unsettledTime(position, row))
    )
  }

  #follows(position: number, { tid, first, previous }: Frame): boolean {
    if (previous >= position || this.#starts.has(`${tid} ${first}`)) return false
    if (previous === 0) return !this.#ends.has(`${tid} ${first - 1}`)
    const body = this.#to.get('SELECT body FROM reprise_log WHERE position = ?', previous)?.body
    // The previous row may be missing or damaged as well.
    if (!(body instanceof Uint8Array) || !isWhole(previous, body)) return true
    return [...readFrames(previous, body)].some((frame) => frame.tid === tid && frame.last === first - 1)
  }

  #isInTime(position: number, time: number | null): boolean {
    if (time === null) return true
    const sql = 'SELECT position, body FROM reprise_log WHERE position BETWEEN ? AND ? AND position <> ?'
    const times = this.#to.all(sql, position - reach, position + reach, position).flatMap((row) => {
      const at = row.position as number
      const body = row.body as Uint8Array
      const known = isWhole(at, body) ? unsettledTime(at, body) : null
      return known === null ? [] : [known]
    })
    return times.length === 0 || times.some((known) => Math.abs(known - time) < dayMs)
  }
}

function isCounted({ first, last, bytes }: Frame): boolean {
  try {
    return unpackEntries({ first, count: last - first + 1, digest: new Uint8Array(32), bytes }).length > 0
  } catch (error) {
    if (error instanceof RepriseError) return false
    throw error
  }
}
