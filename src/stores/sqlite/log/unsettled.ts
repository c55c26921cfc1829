// unsettled rows: appends and nothing else, committed without the heads of their timelines. The head in the file is then
// behind, and what it lacks is in the last rows of the log. Every few rows, and with every other kind of transaction, the
// heads are written and the log is settled again, so there is never much to catch up on.

import { assert } from '../../../core/assert.ts'
import type { OperationId } from '../../../core/coordinate.ts'
import { RepriseError } from '../../../core/errors.ts'
import { appendOperation, chainDigest } from '../../../core/history/entry-run.ts'
import type { Hash } from '../../../core/store/ports.ts'
import type { Connection } from '../file/connection.ts'
import { damaged } from '../file/failure.ts'
import type { HeadState } from '../rows/head-state.ts'
import { firstPosition } from './log-end.ts'
import { type Frame, readFrames, unsettledTime } from './log-row.ts'

/** After so many rows, or so many bytes in them, heads are written. */
export const unsettledRowsMax = 256
const unsettledBytesMin = 1024 * 1024
const unsettledBytesMax = 8 * 1024 * 1024
/** To write a head costs about as much as to append so many bytes: it should not happen much more often. */
const bytesPerHead = 4096

/** Whether heads are due, so many of them being behind. What is unsettled is read by whoever comes next, so it has a bound. */
export function areHeadsDue(rows: number, bytes: number, headsBehind: number): boolean {
  const bytesDue = Math.min(unsettledBytesMax, Math.max(unsettledBytesMin, headsBehind * bytesPerHead))
  return rows >= unsettledRowsMax || bytes >= bytesDue
}

export interface UnsettledRun {
  readonly position: number
  readonly time: number
  readonly frame: Frame
}

export class UnsettledRuns {
  readonly #connection: Connection
  readonly #hash: Hash
  readonly #byTid = new Map<number, UnsettledRun[]>()
  #reached = 0
  #isFresh = false
  #fault: RepriseError | null = null

  constructor(connection: Connection, hash: Hash) {
    this.#connection = connection
    this.#hash = hash
  }

  /** The file may have changed since it was last looked at. */
  begin(): void {
    this.#isFresh = false
  }

  /** Up to here the log is settled. */
  pass(position: number): void {
    this.#byTid.clear()
    this.#fault = null
    this.#reached = position
    this.#isFresh = true
  }

  /** The caller wrote the next row, and keeps the heads of it; what is pending stays so. */
  advance(position: number): void {
    assert(this.#isFresh, 'who appends loosely has looked at what others left')
    this.#reached = position
  }

  /** Nothing is known: the next look goes back to where the log is settled. */
  forget(): void {
    this.pass(0)
    this.#isFresh = false
  }

  /** The head as it is, from the head as it is in the file. Only what has an owner is appended to without settling. */
  apply(tid: number, head: HeadState): HeadState {
    if (head.owner === null) return head
    this.#refresh()
    if (this.#fault) throw this.#fault
    const runs = this.#byTid.get(tid)
    return runs ? runs.reduce((before, run) => this.#follow(before, run), head) : head
  }

  /** By timeline, whatever its namespace. Throws where a row cannot be read: then nobody knows whose head is behind. */
  pending(): ReadonlyMap<number, readonly UnsettledRun[]> {
    this.#refresh()
    if (this.#fault) throw this.#fault
    return this.#byTid
  }

  #follow(head: HeadState, { position, time, frame }: UnsettledRun): HeadState {
    if (frame.last <= head.seq) return head
    if (frame.first !== head.seq + 1) {
      throw damaged(`log row ${position} goes on at sequence ${frame.first}, the head before it is at ${head.seq}`, {
        position,
      })
    }
    const digest = frame.digest?.slice() ?? chainDigest(this.#hash, head.digest, frame.bytes)
    const operation: OperationId = frame.operation ?? appendOperation(digest)
    return { ...head, seq: frame.last, digest, position, operation, updatedAt: time }
  }

  #refresh(): void {
    if (this.#isFresh) return
    this.#isFresh = true
    // What could not be read may have been mended: everything is looked at again.
    if (this.#fault) this.pass(0)
    try {
      for (const { position, time, body } of this.#rowsSince().reverse()) {
        for (const frame of readFrames(position, body)) {
          const runs = this.#byTid.get(frame.tid)
          const run = { position, time, frame }
          if (runs) runs.push(run)
          else this.#byTid.set(frame.tid, [run])
        }
      }
    } catch (cause) {
      if (!(cause instanceof RepriseError)) throw cause
      this.#fault = damaged(`the end of the log cannot be read: ${cause.message}`, { ...cause.data })
      this.#fault.cause = cause
    }
  }

  /** Newest first: the unsettled rows that were not looked at yet. Where the log is settled, what was known before is moot. */
  #rowsSince(): { position: number; time: number; body: Uint8Array }[] {
    const rows: { position: number; time: number; body: Uint8Array }[] = []
    const sql = 'SELECT position, body FROM reprise_log WHERE position > ? ORDER BY position DESC'
    let expected: number | null = null
    // Below where the log starts, tidy gave rows back. They were empty, hence settled.
    const from = this.#reached
    const after = Math.max(from, firstPosition(this.#connection) - 1)
    for (const row of this.#connection.iterate(sql, after)) {
      const position = row.position as number
      if (expected === null) this.#reached = position
      else if (position !== expected) throw missing(expected)
      expected = position - 1
      const body = row.body as Uint8Array
      const time = unsettledTime(position, body)
      if (time === null) {
        this.#byTid.clear()
        return rows
      }
      rows.push({ position, time, body })
    }
    if (expected !== null && expected !== after) throw missing(expected)
    if (after > from) this.#byTid.clear()
    return rows
  }
}

function missing(position: number): RepriseError {
  return damaged(`log row ${position} is missing`, { position })
}
