// The ports: the engine's needs from the outside, in as few promises as possible. Stores and simulators implement
// these; nothing here knows SQL, files or sockets. records.ts defines the stored records, commit-request.ts the content of
// one atomic change; upkeep.ts and shard-set.ts define the two ports that a store exposes as members
// (docs/decisions/store-port.md). src/testing/conformance/suite.ts is the executable form of every comment.

import type { Digest, TimelineId, WorkerId } from '../coordinate.ts'
import type { Attribute } from './attribute.ts'
import type { Blobs } from './blobs.ts'
import type { Commit, Outcome } from './commit-request.ts'
import type { EntryRun, FeedPosition, Head, Inbox, ManifestRecord, PastLife } from './records.ts'
import type { RequestBox } from './requests.ts'
import type { ShardSet } from './shard-set.ts'
import type { SqlQuery } from './sql.ts'
import type { Upkeep } from './upkeep.ts'
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
  type PastRepair,
} from './records.ts'
export type {
  ExecuteStatement,
  NewRequest,
  RequestBox,
  RequestClaim,
  RequestPlace,
  RequestQuery,
  RequestRow,
  RequestTarget,
} from './requests.ts'
export type { ShardSet } from './shard-set.ts'
export type { Inspected, Inspection, LossRecord, Renewal, StoreFacts, StoreFault, StoreLoss } from './store-facts.ts'
export type { Salvage, Scrubbing, Upkeep } from './upkeep.ts'
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
  /** Milliseconds that this process was active, without idle time; the value only grows. Absent in virtual time. */
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

export interface DueQuery {
  /** Only timelines in these queues. */
  readonly queues: readonly string[]
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

/** The calls with which the kernel commits, reads and claims. A closed store rejects each of them with CLOSED. */
export interface Store {
  /** The chunks of checkpoints (blobs.ts). */
  readonly blobs: Blobs
  /** The calls of tools and housekeeping, none of which a running timeline needs. */
  readonly upkeep: Upkeep
  /** Null: the store is one database. */
  readonly shards: ShardSet | null
  /** Null: the store cannot take part in a transaction of the application. */
  readonly requests: RequestBox | null
  /** Number of concurrent batches: a caller may call `commit` again while fewer than this are pending. */
  readonly lanes: number
  /** Whether `checkpoints` rejects with STORE_DAMAGED if a record has vanished. */
  readonly countsCheckpoints: boolean

  /**
   * The only write to timelines. Outcomes are in the order of the commits, and later commits of a batch see the effects of
   * earlier ones; each succeeds or is refused by its own guard, and a refused commit leaves no trace.
   *
   * It rejects only if the store as a whole failed. Then each outcome is unknown until a commit with the same operation id is
   * submitted again. A store that does not have to wait may return the outcomes directly, without a promise; a caller must
   * not depend on either.
   */
  commit(commits: readonly Commit[]): Outcome[] | Promise<Outcome[]>

  /**
   * Runs with sequences above `after`, in order: at least one if there is any, stopping at about `bytesMax` (within one run of
   * it). Only of this timeline, not of its base; none for a missing timeline. The digests are as they were written: the
   * caller checks the chain, and must not take the end of a page for the end of the history.
   */
  read(timeline: TimelineId, after: number, bytesMax: number): Promise<EntryRun[]>

  /**
   * The heads in the requested order; null for a missing timeline. One database answers as of one moment, a set of shards may
   * not (`ShardSet.moment`). A head may have moved before the caller sees it: only the guard of a commit proves that it has
   * not.
   */
  head(timelines: readonly TimelineId[]): Promise<(Head | null)[]>

  /**
   * The last forgotten life of each id, in the requested order: the next life starts at its epoch, with the number plus one.
   * An id without a past has epoch 0, time 0 and the lowest life that the store allows: 0, or the highest life of ids that
   * were erased or forgotten long ago (limits.ts, pastLives).
   */
  past(timelines: readonly TimelineId[]): Promise<PastLife[]>

  /**
   * The identity of the namespace outside of the store: a text that the engine defines. If there is none, the first
   * `proposed` becomes it; with `replaces`, any does. Null: there is none. Durable when it resolves. A caller must use the
   * returned text, since another process may have proposed first.
   */
  identity(proposed?: string, replaces?: boolean): Promise<string | null>

  /** Unread messages, oldest first, and the store's time when the read began: all mail that was durable then is included. */
  inbox(timeline: TimelineId, limit: number): Promise<Inbox>

  /**
   * Takes timelines of these queues that are due (wakeup reached or mail waiting) and free or owned by a dead worker, each with
   * a new epoch. The most urgent come first: higher priority, then earlier wakeup; the store chooses the position of those with
   * mail.
   *
   * Timelines that the caller already owns are not returned: it sees their mail in head(), and finds the claims of a lost
   * answer by timelines({ owner }). Rejects with WORKER_RETIRED for a retired worker.
   */
  claim(request: ClaimRequest): Promise<Head[]>

  /**
   * The earliest time by the store's clock at which `claim` may return a timeline of these queues, if nothing is written until
   * then; 0 for mail. For a timeline of a live worker, the end of that worker's lease is used. It may be too early, never too
   * late: for a worker that owns many timelines, the end of the lease is used for all. Null: never.
   */
  nextDue(query: DueQuery): Promise<number | null>

  /**
   * Entries of all timelines in one order. A reader that continues from `next` never misses an entry that commits later, nor
   * sees one twice. A position beyond the end belongs to another copy of this store: POSITION_GONE, never an empty page. A
   * page may be empty before the end; only `isEnd` marks the end.
   */
  feed(after: FeedPosition, filter: FeedFilter, limit: number): Promise<FeedPage>

  /**
   * Heads that match the whole query, in id order. Attributes are equal in type and value. A field that the store does not
   * know rejects with INVALID_ARGUMENT; it never means "everything". Pages are read at different moments.
   */
  timelines(query: TimelineQuery): Promise<Head[]>

  /**
   * The catalog of one timeline (not of its base), newest sequence first; among equal ones the last published first. The
   * bodies are as they were written: the caller checks their digests.
   */
  checkpoints(timeline: TimelineId): Promise<ManifestRecord[]>

  /** Every named cursor of the namespace. A cursor may have moved before the caller sees it, but never back. */
  cursors(): Promise<CursorRow[]>

  /** Rows of the user's own tables, from one consistent state; never writes. STORE_UNSUPPORTED: the store has no SQL. */
  query(query: SqlQuery): Promise<Record<string, unknown>[]>

  /**
   * Every worker that has beaten and is not forgotten (tidy, retire), including retired ones. A worker that is not listed as
   * alive may still write: only the epoch refuses it.
   */
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
   * `mayBeDue` is false if nothing has become due (due.ts); `mayHaveRequests` is true if a request may have been written
   * (requests.ts). The returned function ends it.
   */
  listen(wake: (mayBeDue?: boolean, mayHaveRequests?: boolean) => void): () => void

  /**
   * The sweep mark: a collector may sweep chunks last touched before it at any time. It starts at 0 and never decreases.
   *
   * With `raiseTo` it becomes at least that, durable when it resolves. A publication is then either in every catalog read
   * afterwards, or checked against the mark.
   */
  sweepMark(raiseTo?: number): Promise<number>

  /**
   * The store as of one moment, read-only: every read returns the data that was durable then, also after later commits, deletes
   * and collections. `close` releases it; until then the database keeps data that it would otherwise clean up. A read rejects if
   * the database can no longer return that moment (a lost connection). Null: several databases have no moment in common.
   */
  freeze(): Promise<Store | null>

  /**
   * Ends this handle: every other call then rejects with CLOSED, and closing again has no effect. Inputs were copied; outputs
   * belong to the caller.
   */
  close(): Promise<void>
}
