// Unsettled rows: appends only, committed without the heads of their timelines. The head in the file is then behind, and the
// missing part is in the last rows of the log. Every few rows, and with every other kind of transaction, the heads are written
// and the log is settled again, so there is never much to catch up on.

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

/** After this many rows, or this many bytes in them, heads are written. */
export const unsettledRowsMax = 256
const unsettledBytesMin = 1024 * 1024
const unsettledBytesMax = 8 * 1024 * 1024
/** Writing a head costs about as much as appending this many bytes, so it should not happen much more often. */
const bytesPerHead = 4096

/**
 * Whether heads are due, with this many of them behind. The next process to open the file reads all unsettled rows, hence the
 * bound.
 */
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

  /** Call it when the file may have changed. */
  begin(): void {
    this.#isFresh = false
  }

  /** The log is settled up to this position. */
  pass(position: number): void {
    this.#byTid.clear()
    this.#fault = null
    this.#reached = position
    this.#isFresh = true
  }

  /** The caller wrote the next row, and keeps its heads; pending rows stay pending. */
  advance(position: number): void {
    assert(this.#isFresh, 'a loose append follows a read of all unsettled rows')
    this.#reached = position
  }

  /** Drops all knowledge: the next read starts at the last settled row. */
  forget(): void {
    this.pass(0)
    this.#isFresh = false
  }

  /** The current head, from the head in the file. Only timelines with an owner have unsettled appends. */
  apply(tid: number, head: HeadState): HeadState {
    if (head.owner === null) return head
    this.#refresh()
    if (this.#fault) throw this.#fault
    const runs = this.#byTid.get(tid)
    return runs ? runs.reduce((before, run) => this.#follow(before, run), head) : head
  }

  /** Pending runs by timeline, in any namespace. Throws if a row cannot be read: it is then unknown whose head is behind. */
  pending(): ReadonlyMap<number, readonly UnsettledRun[]> {
    this.#refresh()
    if (this.#fault) throw this.#fault
    return this.#byTid
  }

  #follow(head: HeadState, { position, time, frame }: UnsettledRun): HeadState {
    if (frame.last <= head.seq) return head
    if (frame.first !== head.seq + 1) {
      throw damaged(
        `log row ${position} continues at sequence ${frame.first}, but the head before it is at ${head.seq}`,
        {
          position,
        },
      )
    }
    const digest = frame.digest?.slice() ?? chainDigest(this.#hash, head.digest, frame.bytes)
    const operation: OperationId = frame.operation ?? appendOperation(digest)
    return { ...head, seq: frame.last, digest, position, operation, updatedAt: time }
  }

  #refresh(): void {
    if (this.#isFresh) return
    this.#isFresh = true
    // Unreadable rows may have been repaired: read everything again.
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

  /** The unsettled rows not read yet, newest first. At a settled row, earlier knowledge is obsolete. */
  #rowsSince(): { position: number; time: number; body: Uint8Array }[] {
    const rows: { position: number; time: number; body: Uint8Array }[] = []
    const sql = 'SELECT position, body FROM reprise_log WHERE position > ? ORDER BY position DESC'
    let expected: number | null = null
    // Tidy removed the rows below the start of the log. They were empty, hence settled.
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
