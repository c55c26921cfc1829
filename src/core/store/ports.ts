// The ports: what the engine needs from the outside, in as few promises as possible. Stores and simulators implement
// these; nothing here knows SQL, files or sockets. What is stored is in records.ts, what one atomic change may hold in
// commit-request.ts. src/testing/conformance/suite.ts is the executable form of every comment.

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
  /** Milliseconds since 1970, on this machine. Used for records, never for ownership. */
  now(): number
  /** Milliseconds that only grow; for measuring. */
  elapsed(): number
  /**
   * Calls once after the delay; the returned function cancels. With `isAwaited` somebody waits for the call, and the
   * program does not end before it; without, it may.
   */
  after(delayMs: number, call: () => void, isAwaited?: boolean): () => void
  /** Calls once everything that is ready in this moment has run. */
  soon(call: () => void): void
  /** Calls once the promises that are ready have run, before anything from outside gets its turn. */
  next(call: () => void): void
  /** For how long this process was at work, waiting left out; milliseconds that only grow. Virtual time has none. */
  activeMs?(): number
  /** Somebody waits for us: the program does not end before the returned function is called. Virtual time has none. */
  stayAlive?(): () => void
}

export interface Random {
  bytes(count: number): Uint8Array
  /** From 0 up to, not including, 1. */
  number(): number
}

export interface ClaimRequest {
  readonly worker: WorkerId
  /** Timelines in these queues only. */
  readonly queues: readonly string[]
  readonly limit: number
  /** Skip these: timelines the caller has in hand. */
  readonly except?: readonly TimelineId[]
}

export interface FeedItem {
  readonly position: FeedPosition
  readonly timeline: TimelineId
  readonly run: EntryRun
}

export interface FeedPage {
  readonly items: readonly FeedItem[]
  /** Where to go on: at or after the last item, also when a filter left the page empty. */
  readonly next: FeedPosition
  /** Nothing was left to read when the page was made. */
  readonly isEnd: boolean
}

export interface FeedFilter {
  /** Timelines within one of these scopes (core/history/scope.ts): ids are matched by whole segments. Of none: nothing. */
  readonly prefixes?: readonly string[]
}

export interface TimelineQuery {
  /**
   * Timelines within this scope (core/history/scope.ts): 'job/' is what lies below `job`; 'save/a' is that id, its archives and
   * what lies below it, never `save/ab`.
   */
  readonly prefix?: string
  readonly status?: string
  readonly queue?: string
  readonly owner?: WorkerId
  /** All must be equal. */
  readonly attributes?: Readonly<Record<string, Attribute>>
  /** Forks of this timeline only. */
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
  /** `checkpoints` rejects with STORE_DAMAGED where a line has vanished: the store counts them. */
  readonly countsCheckpoints?: boolean
  /** How many batches it takes at once; one if left out. */
  readonly lanes?: number
  /** It heeds `unlessMail` in commits; else whoever needs that has to look first. */
  readonly guardsMail?: boolean

  /**
   * Only of a store that is made of several: the number of the database that has this timeline, as far as is known without
   * a look. Commits of one batch are best all of the same. A wrong answer costs time and nothing else.
   */
  placeOf?(timeline: TimelineId): number

  /**
   * Only of a store that is made of several: how far the clock of the database that has this timeline is ahead of the time
   * that `beat` returned, in milliseconds. Deadlines of a timeline are set by that clock, which also dates its mail.
   */
  aheadMs?(timeline: TimelineId): number

  /**
   * The one write. Outcomes come in the order of the commits, and later commits of a batch see what earlier ones did; each
   * succeeds or is refused by its own guard.
   *
   * It rejects only if the store as a whole failed. Then each outcome is unknown until it is asked for by the same operation
   * id. A store that does not have to wait may answer at once, without a promise.
   */
  commit(commits: readonly Commit[]): Outcome[] | Promise<Outcome[]>

  /**
   * Runs that hold sequences above `after`, in order: at least one if there is any, stopping at about `bytesMax` (within one
   * run of it). Only of this timeline, not of its base; none of a timeline that is not there.
   */
  read(timeline: TimelineId, after: number, bytesMax: number): Promise<EntryRun[]>

  /** The heads as one moment had them (but see `moment`), in the order asked; null for a timeline that is not there. */
  head(timelines: readonly TimelineId[]): Promise<(Head | null)[]>

  /**
   * The same where `head` cannot promise one moment (a store made of several), with no mail on its way between them; null: they
   * move too fast. Left out: `head` does.
   */
  moment?(timelines: readonly TimelineId[]): Promise<(Head | null)[] | null>

  /**
   * `head` where a part of the store may be away: undefined for a timeline on that part. Rejects only if all are. Left out: the
   * store is there as a whole, or not at all.
   */
  headsInReach?(timelines: readonly TimelineId[]): Promise<(Head | null | undefined)[]>

  /**
   * The life of each id that was forgotten last, in the order asked: the next one starts at its epoch, with one more life. An
   * id without a past has epoch 0, time 0 and the lowest life that the store allows: 0, or the highest of ids that were erased or
   * forgotten long ago (limits.ts, pastLives).
   */
  past(timelines: readonly TimelineId[]): Promise<PastLife[]>

  /** The remembered lives of forgotten ids after this name, in the order of names: what a backup takes along. */
  pasts(after: string | null, limit: number): Promise<PastLife[]>

  /** Remembers lives from elsewhere (a backup, another shard). A life that is remembered already is never lowered. */
  recall(pasts: readonly PastLife[]): Promise<void>

  /**
   * What the namespace is known by outside of the store: a text of the engine's own. Without one, `proposed` becomes it, for
   * whoever comes first; with `replaces`, in any case. Null: there is none. Durable when it resolves.
   */
  identity(proposed?: string, replaces?: boolean): Promise<string | null>

  /** The names of all namespaces in the same database, this one included once it was written to. */
  namespaces(): Promise<readonly string[]>

  /** Unread messages, oldest first, and the store's time at which the reading began. */
  inbox(timeline: TimelineId, limit: number): Promise<Inbox>

  /** Ids of messages that were consumed and are not forgotten yet (tidy), after this one, in an order of the store's own. */
  consumed?(timeline: TimelineId, after: MessageId | null, limit: number): Promise<MessageId[]>

  /**
   * Takes timelines of these queues that are due (wakeup reached or mail waiting) and free or owned by a dead worker, each with
   * a new epoch. The most urgent come first: higher priority, then earlier wakeup; where those with mail fall is the
   * store's choice.
   *
   * What the caller owns already is not returned: it sees mail in head(), and finds what a lost answer gave it by
   * timelines({ owner }). Rejects with WORKER_RETIRED for a retired worker.
   */
  claim(request: ClaimRequest): Promise<Head[]>

  /**
   * Whether a part of the store gave no answer to a claim that others answered. What it gave is found by timelines({ owner }),
   * which leaves out the parts that are away: it is asked for until this says no. Left out: then `claim` rejects.
   */
  hasLostClaims?(): boolean

  /**
   * Entries of all timelines in one order. A reader that goes on from `next` never misses an entry that commits later, nor sees
   * one twice. A position beyond the end is of another copy of this store: POSITION_GONE, never an empty page.
   */
  feed(after: FeedPosition, filter: FeedFilter, limit: number): Promise<FeedPage>

  /**
   * Heads that match all of the query, in id order. Attributes are equal in type and value. A field that the store does not
   * know rejects with INVALID_ARGUMENT; it never means "everything".
   */
  timelines(query: TimelineQuery): Promise<Head[]>

  /** The catalog of one timeline (not of its base), newest sequence first; of equal ones the one published last first. */
  checkpoints(timeline: TimelineId): Promise<ManifestRecord[]>

  /** Whether any timeline of the namespace has one, without going through them all. A store may lack this. */
  hasCheckpoints?(): Promise<boolean>

  /** Every named cursor of the namespace. */
  cursors(): Promise<CursorRow[]>

  /** Rows of the user's own tables, as one state has them; never writes. STORE_UNSUPPORTED: it has no SQL. */
  query(query: SqlQuery): Promise<Record<string, unknown>[]>

  /** Every worker that has beaten and is not forgotten (tidy, retire), retired ones too. */
  workers(): Promise<WorkerRow[]>

  /**
   * Registers or renews a worker and tells the database time. `ok: false`: it was retired and must not go on under this id.
   */
  beat(worker: WorkerRecord): Promise<{ readonly ok: boolean; readonly now: number }>

  /**
   * Declares workers dead: their timelines are free at once (owner null, same epoch), and their heartbeats are refused. Of one
   * that never beat, nothing is kept. Those retired long ago are forgotten (limits.ts, retiredWorkers).
   */
  retire(workers: readonly WorkerId[]): Promise<void>

  /**
   * Calls when something may be due or readable. It may call too often, and it may miss: callers poll as well. `mayBeDue` is
   * false where nothing has become due (due.ts). The returned function ends it.
   */
  listen(wake: (mayBeDue?: boolean) => void): () => void

  /**
   * The sweep mark: chunks last touched before it may be swept by a collector at any time. It is 0 at first and never falls.
   *
   * With `raiseTo` it becomes at least that, durable when it resolves. A publication then either is in every catalog read
   * afterwards, or is checked against it.
   */
  sweepMark(raiseTo?: number): Promise<number>

  /**
   * Goes through the stored bytes of one kind (runs, bodies of manifests, unread mail, also to timelines that do not exist), at
   * most about `limit` of them, in an order of the store's own, and puts what `change` gives in their place.
   *
   * Nothing else changes: no digest, position, count or time, and no epoch is asked for, since the new bytes mean the same
   * (core/history/wrapped.ts). What is written meanwhile may or may not be gone through.
   */
  rewrite(kind: Rewritable, change: Change, after: string | null, limit: number): Promise<Rewritten>

  /**
   * The same for runs of one timeline that are named (core/history/redacted.ts). What is not there, or has another digest, is
   * passed over, unless it is to be mended (`count`). What was there is overwritten where the store can do that, and `scrub`
   * finishes it.
   */
  replace(timeline: TimelineId, runs: readonly RunChange[]): Promise<Pick<Rewritten, 'changed' | 'left'>>

  /**
   * Puts lines of the catalog back that were damaged or lost: each takes the place of the one with its id, or is added. A
   * store that counts lines counts them anew: `missing` says how many of those that it had are not there, and have no copy
   * in `lines`. No epoch is asked for, since nothing is published: what was there is there again.
   */
  mendCatalog(timeline: TimelineId, lines: readonly ManifestRecord[]): Promise<{ readonly missing: number }>

  /** Low-level self-check (pages, indexes), beneath what the engine verifies; in slices, so that others have their turn. */
  inspect(inspection?: Inspection): Promise<StoreFault[]>

  /**
   * The ids of timelines, in no order, as far as anything in the store still names them, whatever else of it is damaged.
   * Left out: `timelines` tells them, or the store cannot be read at all.
   */
  names?(): Promise<readonly TimelineId[]>

  /**
   * Runs of a timeline after this sequence, whatever lies between them: those that can be read, up to and including the
   * first whose digest is known, or the last. Left out: `read` gives all that there is.
   */
  legible?(timeline: TimelineId, after: number): Promise<readonly LegibleRun[]>

  /**
   * Writes the files of the store anew from what is sound in them; the old ones stay beside. Nobody else may have them open
   * (STORE_BUSY). What could not be had is said. Left out: there is nothing of the kind.
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
   * Only of a store that is made of several: adds one and moves timelines there, or goes on with that. Whoever is killed in the
   * middle calls it again.
   */
  grow?(request: GrowRequest): Promise<Grown>

  /** What it is and where it lies, and how large it has become. */
  facts(): Promise<StoreFacts>

  /**
   * Forgets messages consumed and workers retired before that time (their ids are then new again), lives of ids that were
   * forgotten long before it, and gives back space. Says what it did.
   */
  tidy(before: number): Promise<{ readonly messages: number; readonly workers: number }>

  /**
   * Takes what was forgotten with 'erase' out of the store's files; with `whole`, whatever was ever deleted or replaced. With
   * `mayLock`, also by means that keep others from reading meanwhile. Says where bytes may be left; nothing: nowhere.
   */
  scrub(how?: Scrubbing): Promise<readonly string[]>

  /**
   * Ends this handle: everything else then rejects with CLOSED, and closing twice is closing once. What was given in was
   * copied; what was given out is the caller's.
   */
  close(): Promise<void>
}
