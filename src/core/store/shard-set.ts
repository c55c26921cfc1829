// The port of a sharded store beyond `Store`: questions about its databases, and their number. A store exposes it as its member
// `shards` (docs/decisions/store-port.md).

import type { TimelineId } from '../coordinate.ts'
import type { Head } from './records.ts'
import type { Grown, GrowRequest, ShardRow } from './shards.ts'

export interface ShardSet {
  /**
   * The number of the database that has this timeline, as far as is known without I/O. Commits of one batch should all have
   * the same. A wrong answer only costs time.
   */
  placeOf(timeline: TimelineId): number

  /**
   * How far the clock of the database that has this timeline is ahead of the time that `beat` returned, in milliseconds. That
   * clock sets the deadlines of the timeline and dates its mail.
   */
  aheadMs(timeline: TimelineId): number

  /**
   * Whether part of the store did not answer a claim that others answered. timelines({ owner }) finds the claimed timelines,
   * but skips the parts that are unavailable: the caller repeats it until this returns false.
   */
  hasLostClaims(): boolean

  /**
   * Like `Store.head`, but all heads are read at one moment with no mail in transit between the timelines. Null: they change too
   * fast, and the caller tries again.
   */
  moment(timelines: readonly TimelineId[]): Promise<(Head | null)[] | null>

  /**
   * Like `Store.head`, but undefined for a timeline on a database that is unavailable. Rejects only if all databases are
   * unavailable.
   */
  headsInReach(timelines: readonly TimelineId[]): Promise<(Head | null | undefined)[]>

  /** The databases of the set, in their order. */
  list(): Promise<ShardRow[]>

  /**
   * Adds a database and moves timelines to it, or resumes an interrupted move. A caller that was killed in the middle calls
   * it again.
   */
  grow(request: GrowRequest): Promise<Grown>
}

interface Reader {
  readonly shards: ShardSet | null
  head(timelines: readonly TimelineId[]): Promise<(Head | null)[]>
}

/** Heads of any store, undefined for those on a database that is unavailable. */
export function headsInReach(store: Reader, ids: readonly TimelineId[]): Promise<(Head | null | undefined)[]> {
  return store.shards ? store.shards.headsInReach(ids) : store.head(ids)
}

/** Heads of any store as of one moment. Null: they change too fast. */
export function headsOfMoment(store: Reader, ids: readonly TimelineId[]): Promise<(Head | null)[] | null> {
  return store.shards ? store.shards.moment(ids) : store.head(ids)
}
