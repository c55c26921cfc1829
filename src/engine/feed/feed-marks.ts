// The last entries that a reader of the feed has read, to check whether the store still has them. A position alone is not
// sufficient: a store that went back to an older copy grows past it again, with other entries below it.

import { equalBytes, type TimelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { isChained, lastSeq } from '../../core/history/entry-run.ts'
import type { FeedPosition, Head } from '../../core/store/ports.ts'
import type { Point } from '../history/history.ts'
import type { Kernel } from '../storage/kernel.ts'
import {
  type ForgottenPoint,
  forgottenPoint,
  forgottenTimeline,
  hasPassed,
  mayBeForgotten,
} from './forgotten-timelines.ts'

/** The number of marks that are kept: the history of the newest may have been forgotten or trimmed meanwhile. */
const checkedMax = 8
const uncheckedMax = 16

/** 'unknown': the evidence was trimmed or forgotten. */
export type Whereabouts = 'there' | 'gone' | 'unknown'

interface Mark {
  readonly timeline: TimelineId
  readonly point: Point
  /** True: the entry was found in the store after it was read or acknowledged. */
  isChecked: boolean
  /** The log of forgotten timelines before this entry was read. */
  readonly forgotten: ForgottenPoint
}

type Ports = Pick<Kernel, 'store' | 'hash' | 'planted'>

export class FeedMarks {
  readonly #kernel: Ports
  readonly #mayBeMadeAgain: boolean
  /** The newest last. */
  #marks: Mark[] = []
  /** The log of forgotten timelines at the last check, and before the current page; null until it was first read. */
  #forgotten: ForgottenPoint | null = null
  #forgottenBefore: ForgottenPoint = { count: 0, last: '' }

  /**
   * `mayBeMadeAgain`: a timeline that was deleted and created again is not a sign of an older copy. A reader of the feed treats
   * it as one and starts over, which is always safe.
   */
  constructor(kernel: Ports, mayBeMadeAgain = false) {
    this.#kernel = kernel
    this.#mayBeMadeAgain = mayBeMadeAgain
  }

  /** Runs before a page is read: if its timelines are forgotten, then only after this. */
  async begin(): Promise<void> {
    this.#forgotten ??= forgottenPoint((await this.#kernel.store.head([forgottenTimeline]))[0] ?? null)
    this.#forgottenBefore = this.#forgotten
  }

  get isEmpty(): boolean {
    return this.#marks.length === 0
  }

  /** Records the last entry of a page. A reader checks its marks after each page, so the page is from the checked store. */
  note(timeline: TimelineId, point: Point): void {
    this.#note(timeline, point, true, this.#lastOf(timeline))
  }

  /**
   * Records an entry that may be newer than a loss. Such an entry proves nothing about earlier marks, and replaces the mark of
   * its timeline only if it was written directly after that mark.
   */
  noteUnchecked(timeline: TimelineId, point: Point, after: Point | null): void {
    const known = this.#lastOf(timeline)
    const replaces = after !== null && known >= 0 && isSame(this.#marks[known]!.point, after)
    this.#note(timeline, point, false, replaces ? known : -1)
  }

  /** The index of the newest mark of the timeline; -1 if there is none. */
  #lastOf(timeline: TimelineId): number {
    const marks = this.#marks
    let at = marks.length - 1
    while (at >= 0 && marks[at]!.timeline !== timeline) at -= 1
    return at
  }

  /** `replaced`: the index of the mark that it replaces, or -1. Every commit passes here: only the mark is allocated. */
  #note(timeline: TimelineId, point: Point, isChecked: boolean, replaced: number): void {
    const marks = this.#marks
    const mark = { timeline, point, isChecked, forgotten: this.#forgottenBefore }
    if (replaced >= 0) removeAt(marks, replaced)
    marks.push(mark)
    if (marks.length <= checkedMax) return
    let count = 0
    let oldest = -1
    for (let i = marks.length - 1; i >= 0; i--) {
      if (marks[i]!.isChecked !== isChecked) continue
      count += 1
      oldest = i
    }
    if (count <= (isChecked ? checkedMax : uncheckedMax)) return
    removeAt(marks, oldest)
  }

  /** POSITION_GONE if the store lacks an unchecked mark, or the newest checked one whose history is still kept. */
  async check(position: FeedPosition): Promise<void> {
    if (this.#kernel.planted.has('feed-trusts-position')) return
    const { store, hash } = this.#kernel
    const marks = this.#marks.toReversed()
    // Read together: a missing timeline was recorded as forgotten before it was removed.
    const [found, ...heads] = await store.head([forgottenTimeline, ...marks.map(({ timeline }) => timeline)])
    const log = found ?? null
    for (const [i, mark] of marks.entries()) {
      const { timeline, point, forgotten } = mark
      const head = heads[i] ?? null
      const place = await whereabouts(this.#kernel, timeline, point, head)
      const isForgotten = mayBeForgotten(hash, log, timeline, forgotten)
      const isGone = head ? place === 'gone' && !(this.#mayBeMadeAgain && isForgotten) : !isForgotten
      if (isGone) throw goneAt(timeline, point, position)
      if (place !== 'there') continue
      if (mark.isChecked) break
      mark.isChecked = true
    }
    if (this.#forgotten && !hasPassed(log, this.#forgotten)) throw goneAt(forgottenTimeline, null, position)
    this.#forgotten = forgottenPoint(log)
  }

  clear(): void {
    this.#marks = []
    this.#forgotten = null
  }
}

/** Unlike `splice`, without a list of the removed. */
function removeAt(marks: Mark[], at: number): void {
  for (let i = at + 1; i < marks.length; i++) marks[i - 1] = marks[i]!
  marks.pop()
}

function isSame(one: Point, other: Point): boolean {
  return one.seq === other.seq && equalBytes(one.digest, other.digest)
}

/** Whether this timeline's history contains this point: on its current branch, or on one that was rolled back. */
export async function whereabouts(
  { store, hash }: Pick<Kernel, 'store' | 'hash'>,
  timeline: TimelineId,
  point: Point,
  known?: Head | null,
): Promise<Whereabouts> {
  let head = known === undefined ? (await store.head([timeline]))[0] : known
  const seen = new Set<string>()
  while (head && !seen.has(head.timeline)) {
    const { base }: Head = head
    seen.add(head.timeline)
    if (point.seq <= head.seq && (!base || point.seq > base.seq)) {
      const found = await at({ store, hash }, head, point)
      if (found !== 'gone') return found
    }
    if (!base) return 'gone'
    ;[head] = await store.head([base.timeline])
  }
  return 'unknown'
}

async function at(kernel: Pick<Kernel, 'store' | 'hash'>, head: Head, point: Point): Promise<Whereabouts> {
  const verdict = (isSame: boolean) => (isSame ? 'there' : 'gone')
  if (point.seq === head.seq || point.seq === head.floor) {
    const isSame = equalBytes(point.seq === head.seq ? head.digest : head.floorDigest, point.digest)
    if (!isSame) await refuseDamagedHead(kernel, head, point)
    return verdict(isSame)
  }
  if (point.seq < head.floor) return 'unknown'
  const [run] = await kernel.store.read(head.timeline, point.seq - 1, 1)
  // The entry was trimmed since its head was read.
  if (!run || run.first > point.seq) return 'unknown'
  return verdict(lastSeq(run) === point.seq && equalBytes(run.digest, point.digest))
}

/**
 * A head that contradicts its own history is damaged: the store did not go back to an older copy. A reader
 * that got POSITION_GONE for it would reload and get the same error again, forever.
 */
async function refuseDamagedHead({ store, hash }: Pick<Kernel, 'store' | 'hash'>, head: Head, point: Point) {
  const isLast = point.seq === head.seq
  const [run] = await store.read(head.timeline, isLast ? point.seq - 1 : point.seq, 1)
  if (!run) return
  const hasPoint = isLast
    ? lastSeq(run) === point.seq && equalBytes(run.digest, point.digest)
    : run.first === point.seq + 1 && isChained(hash, point.digest, run)
  if (!hasPoint) return
  // Read the head again: it may have changed before its history was read.
  const [now] = await store.head([head.timeline])
  const isStill = isLast
    ? now?.seq === point.seq && equalBytes(now.digest, head.digest)
    : now?.floor === point.seq && equalBytes(now.floorDigest, head.floorDigest)
  if (!isStill) return
  const what = `the row of ${head.timeline} has another digest at ${point.seq} than its history`
  throw new RepriseError('HISTORY_DAMAGED', what, { timeline: head.timeline, seq: point.seq })
}

/** Without a point: the log of forgotten timelines is a different one. */
export function goneAt(timeline: TimelineId, point: Point | null, position: FeedPosition): RepriseError {
  const at = point ? `${timeline}@${point.seq}` : timeline
  const what = `the store does not have ${at} as it was read before ${position || 'the start'}: the store was replaced by an older copy`
  return new RepriseError('POSITION_GONE', what, { timeline, ...(point && { seq: point.seq }), position })
}
