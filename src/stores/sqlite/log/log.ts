// Reads the log. The runs of one timeline form a linked list: its head has the position of the last run, and each run that of
// the previous one. An index row for every run would dirty one page per timeline in each transaction, so only some runs have
// one (anchors); a read finds the next anchor and walks back from there, over a bounded number of small runs.

import { type Digest, equalBytes } from '../../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../../core/errors.ts'
import { chainDigest } from '../../../core/history/entry-run.ts'
import type { EntryRun, Hash } from '../../../core/store/ports.ts'
import type { Connection } from '../file/connection.ts'
import { isDamage } from '../file/failure.ts'
import type { Timeline } from '../rows/timelines.ts'
import { firstPosition, lastPosition } from './log-end.ts'
import { type Frame, type FrameDraft, findFrame, joinedBefore, type PlacedRun } from './log-row.ts'
import { runsFrom } from './scan-runs.ts'

const anchorEvery = 32
const anchorBytes = 4096
/** Within this many entries before the head, walking back is as fast as finding an anchor. */
const nearHead = 4
const digestEvery = 4
const digestBytes = 512

/** Timelines are staggered, so that timelines growing in step do not all write an anchor in the same transaction. */
export function isAnchor(tid: number, first: number, count: number, bytes: number): boolean {
  return bytes >= anchorBytes || crosses(first + tid * 7, count, anchorEvery)
}

/** Whether the row stores the digest. Otherwise it is computed from the one before, at most a few small runs away. */
export function needsDigest(run: EntryRun): boolean {
  return run.bytes.length >= digestBytes || crosses(run.first, run.count, digestEvery)
}

function crosses(first: number, count: number, every: number): boolean {
  return Math.floor((first + count - 1) / every) !== Math.floor((first - 1) / every)
}

/** The position of a run, and its last sequence. */
interface Place {
  readonly last: number
  readonly position: number
}

function atHead({ head }: Timeline): Place {
  return { last: head.seq, position: head.position }
}

/** Runs of the transaction in progress: they are not in the file yet. */
export interface StagedRuns {
  readonly position: number
  readonly frames: readonly FrameDraft[]
}

export const nothingStaged: StagedRuns = { position: 0, frames: [] }

/** Limits of the row cache: the number of rows, and the size of a row. */
const keptRowsMax = 512
const keptRowBytesMax = 4096

export class Log {
  readonly #connection: Connection
  readonly #hash: Hash
  readonly #staged: StagedRuns
  readonly #kept: Map<number, Uint8Array> | null

  /** `kept`: the row cache of one state of the file, by position; null where the file may change. */
  constructor(
    connection: Connection,
    hash: Hash,
    staged: StagedRuns = nothingStaged,
    kept: Map<number, Uint8Array> | null = null,
  ) {
    this.#connection = connection
    this.#hash = hash
    this.#staged = staged
    this.#kept = kept
  }

  lastPosition(): number {
    return lastPosition(this.#connection)
  }

  /** The first position of the log: tidy removed the rows below. */
  firstPosition(): number {
    return firstPosition(this.#connection)
  }

  /** True: the row held nothing, and a later row represents it. */
  isJoined(position: number): boolean {
    const sql = 'SELECT position, body FROM reprise_log WHERE position > ? ORDER BY position LIMIT 1'
    const row = this.#connection.get(sql, position)
    if (!row) return false
    return (row.position as number) - joinedBefore(row.position as number, row.body) <= position
  }

  body(position: number): Uint8Array | null {
    const known = this.#kept?.get(position)
    if (known) return known
    const row = this.#connection.get('SELECT body FROM reprise_log WHERE position = ?', position)
    const body = (row?.body as Uint8Array | undefined) ?? null
    if (this.#kept && body && body.length <= keptRowBytesMax && this.#kept.size < keptRowsMax) {
      this.#kept.set(position, body)
    }
    return body
  }

  /** Runs with sequences above `after`, at least one if there is any, up to about `bytesMax`. */
  read(timeline: Timeline, after: number, bytesMax: number): EntryRun[] {
    const runs: EntryRun[] = []
    let bytes = 0
    let reached = Math.max(after, ownStart(timeline))
    let before: Digest | null = null
    while (reached < timeline.head.seq && timeline.head.position > 0) {
      const placedRuns = this.#readable(timeline, reached, runs.length > 0)
      if (placedRuns.length === 0) return runs
      for (const placed of placedRuns) {
        const { frame } = placed
        if (runs.length > 0 && bytes + frame.bytes.length > bytesMax) return runs
        const digest: Digest = frame.digest ?? this.#chain(before ?? this.#digestBefore(timeline, placed), frame)
        this.#checkHead(timeline, frame, digest)
        runs.push({ first: frame.first, count: frame.last - frame.first + 1, digest, bytes: frame.bytes })
        bytes += frame.bytes.length
        before = digest
        reached = frame.last
      }
    }
    return runs
  }

  /** The next segment; for a damaged one, the part below the damage. Empty: the next run is damaged, and `mayEnd` is true. */
  #readable(timeline: Timeline, after: number, mayEnd: boolean): PlacedRun[] {
    try {
      return this.segment(timeline, after)
    } catch (error) {
      if (!isReprise(error, 'HISTORY_DAMAGED') && !isDamage(error)) throw error
      const found = runsFrom(this.#connection, timeline, after)
      if (found.length === 0 && !mayEnd) throw error
      return found
    }
  }

  /** Runs above `after`, in order, up to the next anchor or the head. */
  segment(timeline: Timeline, after: number): PlacedRun[] {
    const { tid, head } = timeline
    let { last, position } =
      head.seq - after <= nearHead ? atHead(timeline) : (this.#anchor(tid, after) ?? atHead(timeline))
    const placed: PlacedRun[] = []
    while (last > after) {
      const frame = this.frame(timeline, position, last)
      placed.push({ position, frame })
      last = frame.first - 1
      position = frame.previous
    }
    return placed.reverse()
  }

  #anchor(tid: number, after: number): Place | undefined {
    const sql = 'SELECT last, position FROM reprise_anchor WHERE tid = ? AND last > ? ORDER BY last LIMIT 1'
    return this.#connection.get(sql, tid, after) as Place | undefined
  }

  /** The run that ends at `seq`, if there is one. */
  runEndingAt(timeline: Timeline, seq: number): PlacedRun | null {
    if (seq <= ownStart(timeline) || seq > timeline.head.seq) return null
    return this.segment(timeline, seq - 1).find(({ frame }) => frame.last === seq) ?? null
  }

  frame(timeline: Timeline, position: number, last: number): Frame {
    const fault = (what: string, cause?: unknown) =>
      new RepriseError(
        'HISTORY_DAMAGED',
        `history of ${timeline.name} up to sequence ${last}: ${what}`,
        { timeline: timeline.name, seq: last, position },
        cause,
      )
    const staged = position === this.#staged.position ? this.#stagedFrame(timeline.tid, last) : undefined
    if (staged) return staged
    if (position <= 0) throw fault('the run before the next is missing')
    const body = this.body(position)
    if (!body) throw fault(`log row ${position} is missing`)
    try {
      const frame = findFrame(position, body, timeline.tid, last)
      if (frame) return frame
    } catch (cause) {
      if (!(cause instanceof RepriseError)) throw cause
      throw fault(cause.message, cause)
    }
    throw fault(`log row ${position} does not hold it`)
  }

  #stagedFrame(tid: number, last: number): Frame | undefined {
    const draft = this.#staged.frames.find((one) => one.tid === tid && one.run.first + one.run.count - 1 === last)
    return draft && { tid, last, previous: draft.previous, operation: draft.operation, ...draft.run }
  }

  /** The digest of the history up to the end of this run. */
  digestOf(timeline: Timeline, placed: PlacedRun): Digest {
    const { frame } = placed
    const digest = frame.digest ?? this.#chain(this.#digestBefore(timeline, placed), frame)
    this.#checkHead(timeline, frame, digest)
    return digest
  }

  #digestBefore(timeline: Timeline, { frame }: PlacedRun): Digest {
    const seq = frame.first - 1
    try {
      const previous = { position: frame.previous, frame: this.frame(timeline, frame.previous, seq) }
      return previous.frame.digest ?? this.#chain(this.#digestBefore(timeline, previous), previous.frame)
    } catch (error) {
      // The run was trimmed or is damaged. The floor has its digest, and so has a checkpoint there: recovery from a checkpoint
      // must not depend on history below it.
      const { floor, floorDigest } = timeline.head
      if (seq === floor) return floorDigest
      const sql = 'SELECT digest FROM reprise_manifest WHERE tid = ? AND seq = ? ORDER BY number DESC LIMIT 1'
      const manifest = this.#connection.get(sql, timeline.tid, seq)
      if (!manifest) throw error
      return manifest.digest as Digest
    }
  }

  #chain(before: Digest, frame: Frame): Digest {
    return chainDigest(this.#hash, before, frame.bytes)
  }

  /** Double entry: the head and the last run must agree. */
  #checkHead(timeline: Timeline, frame: Frame, digest: Digest): void {
    const { head, name } = timeline
    if (frame.last !== head.seq || equalBytes(digest, head.digest)) return
    throw new RepriseError('HISTORY_DAMAGED', `the head and the last run of ${name} disagree about the digest`, {
      timeline: name,
      seq: head.seq,
    })
  }
}

/** The timeline's own history begins above this sequence. */
export function ownStart({ head }: Timeline): number {
  return Math.max(head.floor, head.base?.seq ?? 0)
}
