// The ports: the engine's needs from the outside, in as few promises as possible. Stores and simulators implement
// these; nothing here knows SQL, files or sockets. records.ts defines the stored records, commit-request.ts the content of
// one atomic change. src/testing/conformance/suite.ts is the executable form of every comment.

import type { Digest, MessageId, TimelineId, WorkerId } from '../coordinate.ts'
import type { Attribute } from './attribute.ts'
import type { Blobs, Change, LegibleRun, Rewritable, Rewritten, RunChange } from './blobs.ts'
import type { Commit, Outcome } from './commit-request.ts'
import type { EntryRun, FeedPosition, Head, Inbox, ManifestRecord, PastLife } from './records.ts'
import type { Grown, GrowRequest, ShardRow } from './shards.ts'
import type { SqlQuery } from './sql.ts'
import type { Inspection, LossRecord, Renewal, StoreFacts, StoreFault } from './store-facts.ts'
import type { WorkerRecord, WorkerRow } from './worker-row.ts'

export type { Attribute } from './attribute.ts'
export type { Blobs, Change, ChunkRow, LegibleRun, Rewritable, Rewritten, RunChange, StoredChunk } from './blobs.ts'
export type { Commit, Guard, Outcome, Refusal, Sql, Take } from './commit-request.ts'
export {
  type Base,
  type EntryRun,
  type FeedPosition,
  feedStart,
  type Head,
  type Inbox,
  type ManifestMark,
  type ManifestRecord,
  type Message,
  type NewManifest,
  type OutgoingMessage,
  type PastLife,
} from './records.ts'
export type { Inspected, Inspection, LossRecord, Renewal, StoreFacts, StoreFault, StoreLoss } from './store-facts.ts'
export type { WorkerRecord, WorkerRow } from './worker-row.ts'

export type Hash = (bytes: Uint8Array) => Digest

export interface Clock {
  /** Milliseconds since 1970, on this machine. Used in records, never for ownership. */
  now(): number
  /** Monotonic milliseconds, for measurements. */
  elapsed(): number
  /**
   * Calls once after the delay; the returned function cancels. With `isAwaited` the program does not end before the call;
   * without, it may.
   */
  after(delayMs: number, call: () => void, isAwaited?: boolean): () => void
  /** Calls once everything that is ready now has run. */
  soon(call: () => void): void
  /** Calls once the ready promises have run, before any event from outside. */
  next(call: () => void): void
  /** Milliseconds that this process was active, without idle time; they only grow. Absent in virtual time. */
  activeMs?(): number
  /** Keeps the program from ending until the returned function is called. Absent in virtual time. */
  stayAlive?(): () => void
}

export interface Random {
  bytes(count: number): Uint8Array
  /** From 0 up to, not including, 1. */
  number(): number
}

export interface ClaimRequest {
  readonly worker: WorkerId
  /** Only timelines in these queues. */
  readonly queues: readonly string[]
  readonly limit: number
  /** Skips timelines that the caller is already working on. */
  readonly except?: readonly TimelineId[]
}

export interface FeedItem {
  readonly position: FeedPosition
  readonly timeline: TimelineId
  readonly run: EntryRun
}

export interface FeedPage {
  readonly items: readonly FeedItem[]
  /** The position to continue from: at or after the last item, also when a filter left the page empty. */
  readonly next: FeedPosition
  /** There was nothing more to read when the page was made. */
  readonly isEnd: boolean
}

export interface FeedFilter {
  /** Timelines within one of these scopes (core/history/scope.ts), matched by whole segments. An empty list matches nothing. */
  readonly prefixes?: readonly string[]
}

export interface TimelineQuery {
  /**
   * Timelines within this scope (core/history/scope.ts): 'job/' is everything below `job`; 'save/a' is that id, its archives
   * and everything below it, never `save/ab`.
   */
  readonly prefix?: string
  readonly status?: string
  readonly queue?: string
  readonly owner?: WorkerId
  /** All of these must be equal. */
  readonly attributes?: Readonly<Record<string, Attribute>>
  /** Only forks of this timeline. */
  readonly parent?: TimelineId
  /** Ids after this one, in id order (by UTF-8 bytes). */
  readonly after?: TimelineId
  readonly limit: number
}

export interface CursorRow {
  readonly name: string
  readonly owner: TimelineId
  readonly position: FeedPosition
  readonly movedAt: number
}

export interface Scrubbing {
  readonly whole?: boolean
  readonly mayLock?: boolean
}

export interface Store {
  readonly blobs: Blobs
  /** `checkpoints` rejects with STORE_DAMAGED if a record has vanished: the store counts them. */
  readonly countsCheckpoints?: boolean
  /** Number of concurrent batches. Default: one. */
  readonly lanes?: number
  /** The store supports `unlessMail` in commits; otherwise callers must check the inbox first. */
  readonly guardsMail?: boolean

  /**
   * Only of a sharded store: the number of the database that has this timeline, as far as is known without I/O. Commits of one
   * batch should all have the same. A wrong answer only costs time.
   */
  placeOf?(timeline: TimelineId): number

  /**
   * Only of a sharded store: how far the clock of the database that has this timeline is ahead of the time that `beat`
   * returned, in milliseconds. That clock sets the deadlines of the timeline and dates its mail.
   */
  aheadMs?(timeline: TimelineId): number

  /**
   * The only write. Outcomes are in the order of the commits, and later commits of a batch see the effects of earlier ones;
   * each succeeds or is refused by its own guard.
   *
   * It rejects only if the store as a whole failed. Then each outcome is unknown until a commit with the same operation id is
   * submitted again. A store that does not have to wait may return the outcomes directly, without a promise.
   */
  commit(commits: readonly Commit[]): Outcome[] | Promise<Outcome[]>

  /**
   * Runs with sequences above `after`, in order: at least one if there is any, stopping at about `bytesMax` (within one run of
   * it). Only of this timeline, not of its base; none for a missing timeline.
   */
  read(timeline: TimelineId, after: number, bytesMax: number): Promise<EntryRun[]>

  /** The heads at one moment (but see `moment`), in the requested order; null for a missing timeline. */
  head(timelines: readonly TimelineId[]): Promise<(Head | null)[]>

  /**
   * Like `head`, for stores whose `head` does not reflect one moment (a sharded store), with no mail in flight between the
   * timelines; null: they change too fast. Absent: `head` reflects one moment.
   */
  moment?(timelines: readonly TimelineId[]): Promise<(Head | null)[] | null>

  /**
   * Like `head`, for stores of which a part may be away: undefined for a timeline on that part. Rejects only if all parts are
   * away. Absent: the store is available as a whole, or not at all.
   */
  headsInReach?(timelines: readonly TimelineId[]): Promise<(Head | null | undefined)[]>

  /**
   * The last forgotten life of each id, in the requested order: the next life starts at its epoch, with the number plus one.
   * An id without a past has epoch 0, time 0 and the lowest life that the store allows: 0, or the highest life of ids that
   * were erased or forgotten long ago (limits.ts, pastLives).
   */
  past(timelines: readonly TimelineId[]): Promise<PastLife[]>

  /** The remembered lives of forgotten ids after this name, in the order of names: part of a backup. */
  pasts(after: string | null, limit: number): Promise<PastLife[]>

  /** Remembers lives from elsewhere (a backup, another shard). An already remembered life is never lowered. */
  recall(pasts: readonly PastLife[]): Promise<void>

  /**
   * The identity of the namespace outside of the store: a text that the engine defines. If there is none, the first
   * `proposed` becomes it; with `replaces`, any does. Null: there is none. Durable when it resolves.
   */
  identity(proposed?: string, replaces?: boolean): Promise<string | null>

  /** The names of all namespaces in the same database, including this one once it was written to. */
  namespaces(): Promise<readonly string[]>

  /** Unread messages, oldest first, and the store's time when the read began. */
  inbox(timeline: TimelineId, limit: number): Promise<Inbox>

  /** Ids of consumed messages that are not forgotten yet (tidy), after this one, in an order that the store chooses. */
  consumed?(timeline: TimelineId, after: MessageId | null, limit: number): Promise<MessageId[]>

  /**
   * Takes timelines of these queues that are due (wakeup reached or mail waiting) and free or owned by a dead worker, each with
   * a new epoch. The most urgent come first: higher priority, then earlier wakeup; the store chooses the place of those with
   * mail.
   *
   * Timelines that the caller already owns are not returned: it sees their mail in head(), and finds the claims of a lost
   * answer by timelines({ owner }). Rejects with WORKER_RETIRED for a retired worker.
   */
  claim(request: ClaimRequest): Promise<Head[]>

  /**
   * Whether a part of the store did not answer a claim that others answered. timelines({ owner }) finds the claimed timelines,
   * but skips the parts that are away: the caller repeats it until this returns false. Absent: then `claim` rejects.
   */
  hasLostClaims?(): boolean

  /**
   * Entries of all timelines in one order. A reader that continues from `next` never misses an entry that commits later, nor
   * sees one twice. A position beyond the end belongs to another copy of this store: POSITION_GONE, never an empty page.
   */
  feed(after: FeedPosition, filter: FeedFilter, limit: number): Promise<FeedPage>

  /**
   * Heads that match the whole query, in id order. Attributes are equal in type and value. A field that the store does not
   * know rejects with INVALID_ARGUMENT; it never means "everything".
   */
  timelines(query: TimelineQuery): Promise<Head[]>

  /** The catalog of one timeline (not of its base), newest sequence first; among equal ones the last published first. */
  checkpoints(timeline: TimelineId): Promise<ManifestRecord[]>

  /** Whether any timeline of the namespace has a checkpoint, without reading them all. Optional. */
  hasCheckpoints?(): Promise<boolean>

  /** Every named cursor of the namespace. */
  cursors(): Promise<CursorRow[]>

  /** Rows of the user's own tables, from one consistent state; never writes. STORE_UNSUPPORTED: the store has no SQL. */
  query(query: SqlQuery): Promise<Record<string, unknown>[]>

  /** Every worker that has beaten and is not forgotten (tidy, retire), including retired ones. */
  workers(): Promise<WorkerRow[]>

  /**
   * Registers or renews a worker and returns the database time. `ok: false`: it was retired and must not continue under this
   * id.
   */
  beat(worker: WorkerRecord): Promise<{ readonly ok: boolean; readonly now: number }>

  /**
   * Declares workers dead: their timelines are free at once (owner null, same epoch), and their heartbeats are refused. No row
   * is kept for a worker that never beat. Workers retired long ago are forgotten (limits.ts, retiredWorkers).
   */
  retire(workers: readonly WorkerId[]): Promise<void>

  /**
   * Calls `wake` when a timeline may be due or readable. It may call too often, and it may miss: callers poll as well.
   * `mayBeDue` is false if nothing has become due (due.ts). The returned function ends it.
   */
  listen(wake: (mayBeDue?: boolean) => void): () => void

  /**
   * The sweep mark: a collector may sweep chunks last touched before it at any time. It is 0 at first and never falls.
   *
   * With `raiseTo` it becomes at least that, durable when it resolves. A publication then either is in every catalog read
   * afterwards, or is checked against the mark.
   */
  sweepMark(raiseTo?: number): Promise<number>

  /**
   * Passes the stored bytes of one kind (runs, bodies of manifests, unread mail, also to missing timelines) to `change`, at
   * most about `limit` of them, in an order that the store chooses, and stores the results in their place.
   *
   * Nothing else changes: no digest, position, count or time, and no epoch is required, since the new bytes mean the same
   * (core/history/wrapped.ts). Bytes written meanwhile may or may not be included.
   */
  rewrite(kind: Rewritable, change: Change, after: string | null, limit: number): Promise<Rewritten>

  /**
   * Replaces named runs of one timeline (core/history/redacted.ts). A missing run, or one with another digest, is skipped,
   * unless it is to be repaired (`count`). The old bytes are overwritten where the store can do that, and `scrub` finishes it.
   */
  replace(timeline: TimelineId, runs: readonly RunChange[]): Promise<Pick<Rewritten, 'changed' | 'left'>>

  /**
   * Restores damaged or lost records of the catalog: each replaces the one with its id, or is added. A store that counts
   * records counts them again: `missing` is the number of earlier records that are neither there nor in `lines`. No epoch is
   * required, since nothing new is published.
   */
  mendCatalog(timeline: TimelineId, lines: readonly ManifestRecord[]): Promise<{ readonly missing: number }>

  /** Low-level self-check (pages, indexes), below the checks of the engine; in slices, so that other calls can run. */
  inspect(inspection?: Inspection): Promise<StoreFault[]>

  /**
   * The ids of timelines that anything in the store still names, in no order, whatever else is damaged. Absent: `timelines`
   * returns them, or the store cannot be read at all.
   */
  names?(): Promise<readonly TimelineId[]>

  /**
   * Readable runs of a timeline after this sequence, despite gaps between them: up to and including the first whose digest is
   * known, or the last. Absent: `read` returns all there are.
   */
  legible?(timeline: TimelineId, after: number): Promise<readonly LegibleRun[]>

  /**
   * Rewrites the files of the store from their sound parts and keeps the old files beside them. No one else may have them open
   * (STORE_BUSY). Reports the data that was lost. Absent: the store has no such files.
   */
  renew?(): Promise<Renewal>

  /**
   * What earlier calls of `renew` could not have, one record for each, oldest first. With an id, a person gives that one up:
   * it is removed. Left out: there is nothing of the kind.
   */
  losses?(givenUp?: string): Promise<LossRecord[]>

  /** Only of a store that is made of several: those. */
  shards?(): Promise<ShardRow[]>

  /**
   * Only of a sharded store: adds a shard and moves timelines to it, or resumes an interrupted move. A caller that was killed
   * in the middle calls it again.
   */
  grow?(request: GrowRequest): Promise<Grown>

  /** The kind, location and size of the store. */
  facts(): Promise<StoreFacts>

  /**
   * Forgets messages consumed and workers retired before that time (their ids are then new again) and lives of ids that were
   * forgotten long before it, and returns space. Reports the numbers.
   */
  tidy(before: number): Promise<{ readonly messages: number; readonly workers: number }>

  /**
   * Removes data that was forgotten with 'erase' from the store's files; with `whole`, everything that was ever deleted or
   * replaced. With `mayLock`, also by means that block readers meanwhile. Reports where bytes may be left; empty: nowhere.
   */
  scrub(how?: Scrubbing): Promise<readonly string[]>

  /**
   * Ends this handle: every other call then rejects with CLOSED, and closing again has no effect. Inputs were copied; outputs
   * belong to the caller.
   */
  close(): Promise<void>
}
