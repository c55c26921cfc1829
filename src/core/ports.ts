// The ports: what the engine needs from the outside, in as few promises as possible. Stores and simulators implement
// these; nothing here knows SQL, files or sockets. src/testing/conformance/suite.ts is the executable form of every comment.

import type { Attribute } from './attribute.ts'
import type { Blobs, Change, Rewritable, Rewritten, RunChange } from './blobs.ts'
import type { Digest, ManifestId, MessageId, OperationId, TimelineId, WorkerId } from './coordinate.ts'
import type { SqlQuery } from './sql.ts'
import type { StoreFacts, StoreFault } from './store-facts.ts'
import type { WorkerRecord, WorkerRow } from './worker-row.ts'

export type { Attribute } from './attribute.ts'
export type { Blobs, Change, ChunkRow, Rewritable, Rewritten, RunChange, StoredChunk } from './blobs.ts'
export type { StoreFacts, StoreFault } from './store-facts.ts'
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

/** Entries of one timeline that became durable together (format in run.ts). */
export interface EntryRun {
  readonly first: number
  readonly count: number
  /** Digest of the whole history up to the last entry of this run. */
  readonly digest: Digest
  readonly bytes: Uint8Array
}

/** Where a fork left its parent: history up to and including `seq` is the parent's. */
export interface Base {
  readonly timeline: TimelineId
  readonly seq: number
  readonly digest: Digest
}

export interface Head {
  readonly timeline: TimelineId
  /** Last sequence; when nothing was appended base.seq, else the floor it was made with, else 0. */
  readonly seq: number
  /** 0 until somebody first takes it. */
  readonly epoch: number
  readonly digest: Digest
  readonly owner: WorkerId | null
  /** The owner's worker has beaten within its lease (database clock) and was not retired. */
  readonly isOwnerAlive: boolean
  /** History up to and including this sequence may be gone; `floorDigest` is the digest there. */
  readonly floor: number
  readonly floorDigest: Digest
  readonly base: Base | null
  readonly queue: string | null
  readonly priority: number
  /** '' until set. */
  readonly status: string
  /** Database time at which it wants to run again; null: only when mail comes. */
  readonly wakeup: number | null
  /** Number of messages not yet consumed. */
  readonly mail: number
  readonly attributes: Readonly<Record<string, Attribute>>
  /** The last guarded commit that was applied here: how a lost answer is asked for. A claim, a retirement and mail leave it as it is. */
  readonly operation: OperationId | null
  readonly createdAt: number
  readonly updatedAt: number
}

/** One line of the catalog: a published checkpoint. */
export interface ManifestRecord {
  readonly id: ManifestId
  readonly seq: number
  readonly epoch: number
  /** Digest of history at `seq`: state and coordinate are bound here. */
  readonly digest: Digest
  /** The encoded manifest (core/manifest.ts) and its own digest. */
  readonly body: Uint8Array
  readonly bodyDigest: Digest
  /** The checkpoint whose chunks this one reuses; it must still be in the catalog when this one is published. */
  readonly baseId: ManifestId | null
  readonly createdAt: number
  readonly trigger: string
  readonly label: string | null
  /** Kept until released. */
  readonly isPinned: boolean
  readonly foldVersion: string
  /** Bytes of the whole state as stored, and bytes that this checkpoint added. */
  readonly totalBytes: number
  readonly addedBytes: number
  /** Set by marks. */
  readonly verifiedAt: number | null
  readonly invalid: string | null
  readonly drilledAt: number | null
  readonly drill: string | null
}

/** A checkpoint on its way into the catalog. */
export interface NewManifest extends ManifestRecord {
  /**
   * Every chunk that it names and its base does not was put or touched at this time or later. SWEPT if the sweep mark lies
   * above: a collector that does not know of this checkpoint may take some of them. Left out by one that adds no chunk.
   */
  readonly chunksSince?: number
}

/** A change to the catalog's notes on one checkpoint of the guarded timeline. A mark on one that is gone is dropped. */
export interface ManifestMark {
  readonly id: ManifestId
  readonly verifiedAt?: number
  /** Null takes it back: a later, sound reading showed that nothing is wrong with it. */
  readonly invalid?: string | null
  readonly drilledAt?: number
  readonly drill?: string
  readonly isPinned?: boolean
  readonly label?: string
}

export interface OutgoingMessage {
  /** Chosen by the sender. A second message to the same timeline with the same id is dropped, also after consumption. */
  readonly id: MessageId
  readonly to: TimelineId
  readonly kind: string
  /** An envelope (engine/seal). */
  readonly data: Uint8Array
}

export interface Message extends OutgoingMessage {
  readonly sentAt: number
}

/** Unread mail. Of what was durable before `now` (the store's clock) and is unread, nothing is missing but what `limit` left out. */
export interface Inbox {
  readonly messages: Message[]
  readonly now: number
}

/** Opaque; compares as text. `feedStart` is before everything. */
export type FeedPosition = string
export const feedStart: FeedPosition = ''

/** The user's SQL inside the commit's transaction, in the dialect of the store. */
export interface Sql {
  readonly dialect: string
  run(text: string, ...values: readonly unknown[]): Promise<{ readonly changes: number }>
  all(text: string, ...values: readonly unknown[]): Promise<Record<string, unknown>[]>
  get(text: string, ...values: readonly unknown[]): Promise<Record<string, unknown> | undefined>
}

export interface Guard {
  readonly timeline: TimelineId
  /** The commit applies only while this is the current epoch, else FENCED. 0 with `take`: only if nobody ever owned it. */
  readonly epoch: number
  /** If given: only while this is the last sequence, else CONFLICT. Required with `run`. */
  readonly seq?: number
  /**
   * If given: only while this is the head's digest, else CONFLICT. Goes together with `seq`: a store that went back to an
   * older copy can be at the same epoch and sequence with another history, and the digest is what tells.
   */
  readonly digest?: Digest
}

export interface Take {
  readonly worker: WorkerId
  /**
   * From whom it may be taken: nobody but a free one; also from a dead worker (one that never beat is dead); or from
   * anyone; else OWNED. The taker's own counts as free. A retired worker takes nothing: WORKER_RETIRED, looked at first.
   */
  readonly from: 'free' | 'dead' | 'anyone'
  /**
   * Make the timeline if it is not there (epoch 0, sequence that of the base, else of the floor, else 0; `digest` is the
   * one there); without it a missing one is NOT_FOUND. Without `floor` a fork has its parent's, any other its own start.
   * NOT_FOUND if the base's timeline is missing; OUT_OF_RANGE if the base is beyond its head, or the fork's floor above
   * the base, or below both the base and the parent's floor (what it needs is gone).
   */
  readonly create?: {
    readonly digest: Digest
    readonly base?: Base
    readonly floor?: { readonly seq: number; readonly digest: Digest }
  }
}

/**
 * One atomic change. Everything in it becomes visible and durable together, or nothing does. Other commits in the same
 * batch succeed or fail on their own. A commit whose operation id is the timeline's `operation` was already applied: the
 * answer is the same success again with `isDuplicate`: the epoch it had then (guard.epoch, + 1 after take or branch, even
 * if the timeline was claimed since), without `sqlResult`, and its SQL is not called again. A refused commit leaves no trace.
 *
 * Order inside one commit: operation, guard (missing, epoch, sequence, then digest), take, branch, run, publish, marks, drop, trim,
 * the rest (consume, send, cursors); the first refusal counts, and within one part they are looked at in the order named. After `take`, `branch` or both the epoch is guard.epoch + 1, and
 * the rest of this commit is written under it. A shape that can never apply (no guard.seq with run, one of guard.seq and guard.digest without the other, run.first not the next
 * sequence, forget with anything else, no guard with anything but send) is a bug: the whole batch rejects with
 * INVALID_ARGUMENT before anything is applied.
 */
export interface Commit {
  readonly operation: OperationId
  /** Null: a commit that only sends messages; its outcome has epoch 0, seq 0, and `isDuplicate` if none of them was new. */
  readonly guard: Guard | null
  readonly take?: Take
  /** Give up ownership; the epoch stays. With `take`: a write by a guest. */
  readonly release?: boolean
  /** Append: run.first is guard.seq + 1 (after `branch`: branch.seq + 1). */
  readonly run?: EntryRun
  /**
   * Roll back: what is here now is renamed to `archive` (status "archived", no owner, no wakeup), and this id goes on
   * as a fork of it at `seq`; owner, queue, priority, status, attributes, wakeup, cursors, mail (and the ids of mail consumed)
   * stay with this id. Runs (in the feed too), checkpoints, base, floor, epoch and operation as they were go to the archive,
   * and forks of this id are forks of the archive from then on. NOT_FOUND, EXISTS (archive taken), or OUT_OF_RANGE if seq is
   * beyond the head, the floor above seq, or the floor below both seq and the present floor.
   */
  readonly branch?: {
    readonly archive: TimelineId
    readonly seq: number
    readonly digest: Digest
    readonly floor: { readonly seq: number; readonly digest: Digest }
  }
  /**
   * Publish checkpoints, one after another. OUT_OF_RANGE if seq is beyond the head, then EXISTS if the id is in the catalog
   * (of any timeline in the namespace), then BASE_GONE if a base is not in it, then SWEPT if `chunksSince` is below the sweep mark.
   */
  readonly publish?: readonly NewManifest[]
  readonly marks?: readonly ManifestMark[]
  /**
   * Take checkpoints of this timeline out of the catalog; ids that are not there are passed over. PINNED if one is pinned, or
   * if one goes, history is trimmed (floor above 0) and no verified, valid one at or above the floor would remain.
   */
  readonly drop?: readonly ManifestId[]
  /**
   * Trim history up to and including `seq` (the end of a run, or the base's seq; else OUT_OF_RANGE). PINNED if any of
   * `restsOn` is not in this timeline's catalog at or above `seq`, verified and valid; if a fork of this timeline still needs
   * what would go (its floor is below `seq` and below its base's seq); or if a cursor in this namespace has not passed a run
   * that would go. At or below the floor there is nothing to do: it succeeds. The floor is then `seq`, with `digest`.
   */
  readonly trim?: { readonly seq: number; readonly digest: Digest; readonly restsOn: readonly ManifestId[] }
  /** Messages to this timeline that are now part of its history. CONFLICT if one is not there unread. */
  readonly consume?: readonly MessageId[]
  /** To any id; mail to a timeline that does not exist waits for it (its head stays null, its inbox can be read). */
  readonly send?: readonly OutgoingMessage[]
  readonly wakeup?: number | null
  readonly queue?: string | null
  readonly priority?: number
  readonly status?: string
  /** Merged into the attributes; null removes one. */
  readonly attributes?: Readonly<Record<string, Attribute | null>>
  /** Named cursors, owned by this timeline. A null position removes the cursor. CONFLICT if another timeline owns the name, or if it would move back. */
  readonly cursors?: Readonly<Record<string, FeedPosition | null>>
  /**
   * Remove the timeline and everything of it: runs, catalog, mail, cursors. PINNED while a fork needs it (its floor is below
   * its base's seq) or a checkpoint is pinned. Nothing else goes in such a commit. One that is not there is already
   * forgotten: ok with `isDuplicate`. 'erase': its bytes are overwritten where the store can do that; `scrub` finishes it.
   */
  readonly forget?: boolean | 'erase'
  /**
   * The user's SQL in the same transaction, called last and only if nothing was refused. Its value is `sqlResult`. If it throws,
   * the outcome is RIDER_FAILED with the `cause` and nothing is kept, neither of the commit nor of its SQL.
   */
  readonly userSql?: (sql: Sql) => Promise<unknown> | unknown
}

export type Refusal =
  | 'FENCED'
  | 'CONFLICT'
  | 'OWNED'
  | 'NOT_FOUND'
  | 'EXISTS'
  | 'OUT_OF_RANGE'
  | 'PINNED'
  | 'BASE_GONE'
  | 'SWEPT'
  | 'RIDER_FAILED'
  | 'WORKER_RETIRED'

export type Outcome =
  | {
      readonly ok: true
      readonly epoch: number
      readonly seq: number
      readonly isDuplicate: boolean
      readonly sqlResult?: unknown
    }
  | {
      readonly ok: false
      readonly code: Refusal
      readonly reason: string
      /** As it is, without this commit. */
      readonly head: Head | null
      readonly cause?: unknown
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
  /** Timelines within one of these scopes (core/scope.ts): ids are matched by whole segments. Of none: nothing. */
  readonly prefixes?: readonly string[]
}

export interface TimelineQuery {
  /** Timelines within this scope (core/scope.ts): 'job/' is what lies below `job`; 'save/a' is that id, its archives and what lies below it, never `save/ab`. */
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
  /** Outcomes in the order of the commits. Later commits in the batch see earlier ones. Rejects only if the store as a whole failed: then each outcome is unknown until asked for by the same operation id. A store that does not have to wait may answer at once. */
  commit(commits: readonly Commit[]): Outcome[] | Promise<Outcome[]>
  /** Runs that hold sequences above `after`, in order, of this timeline only (not of its base); at least one if there is any, stopping at about `bytesMax` (within one run of it). None of a missing one. */
  read(timeline: TimelineId, after: number, bytesMax: number): Promise<EntryRun[]>
  head(timelines: readonly TimelineId[]): Promise<(Head | null)[]>
  /** Unread messages, oldest first, and the store's time at which the reading began. */
  inbox(timeline: TimelineId, limit: number): Promise<Inbox>
  /**
   * Takes timelines of these queues that are due (wakeup reached or mail waiting) and free or owned by a dead worker, most
   * urgent first (higher priority, then earlier wakeup; where mail without a wakeup falls is the store's choice), each with a
   * new epoch. What the caller owns already is not returned: it sees mail in head(), and finds what a lost answer gave it
   * by timelines({ owner }). Rejects with WORKER_RETIRED for a retired worker.
   */
  claim(request: ClaimRequest): Promise<Head[]>
  /**
   * Entries of all timelines in one order: a reader that goes on from `next` never misses an entry that commits later, nor
   * sees one twice. A position beyond the end is of another copy of this store: POSITION_GONE, never an empty page.
   */
  feed(after: FeedPosition, filter: FeedFilter, limit: number): Promise<FeedPage>
  /** Rejects with INVALID_ARGUMENT for a field it does not know: never "everything". Attributes are equal in type and value. */
  timelines(query: TimelineQuery): Promise<Head[]>
  /** The catalog of one timeline (not of its base), newest sequence first; of equal sequences the one published last first. */
  checkpoints(timeline: TimelineId): Promise<ManifestRecord[]>
  cursors(): Promise<CursorRow[]>
  /** Rows of the user's own tables, as one state has them; never writes. STORE_UNSUPPORTED: it has no SQL. */
  query(query: SqlQuery): Promise<Record<string, unknown>[]>
  workers(): Promise<WorkerRow[]>
  /** Registers or renews a worker and tells the database time. `ok: false`: it was retired and must not go on under this id. */
  beat(worker: WorkerRecord): Promise<{ readonly ok: boolean; readonly now: number }>
  /** Declares workers dead: their timelines are free at once (owner null, same epoch), their heartbeats refused. Of one that never beat nothing is kept. */
  retire(workers: readonly WorkerId[]): Promise<void>
  /** Calls when something may be due or readable; may call too often, and may miss: callers poll as well. `mayBeDue` is false where nothing has become due (due.ts). The returned function ends it. */
  listen(wake: (mayBeDue?: boolean) => void): () => void
  /**
   * Chunks last touched before this time may be swept by a collector at any time. `raiseTo`: it becomes at least that, durable when
   * it resolves; a publication then either is in every catalog read afterwards, or is checked against it. Never falls; 0 at first.
   */
  sweepMark(raiseTo?: number): Promise<number>
  /**
   * Goes through the stored bytes of one kind (runs, bodies of manifests, unread mail, also to timelines that do not exist), at
   * most about `limit` of them, in an order of the store's own, and puts what `change` gives in their place. Nothing else
   * changes: no digest, position, count or time, and no epoch is asked for, since the new bytes mean the same
   * (core/wrapped.ts). What is written meanwhile may or may not be gone through.
   */
  rewrite(kind: Rewritable, change: Change, after: string | null, limit: number): Promise<Rewritten>
  /**
   * The same for runs of one timeline that are named (core/redacted.ts). What is not there, or has another digest, is passed over,
   * unless it is to be mended (`count`). What was there is overwritten where the store can do that, and `scrub` finishes it.
   */
  replace(timeline: TimelineId, runs: readonly RunChange[]): Promise<Pick<Rewritten, 'changed' | 'left'>>
  /** Low-level self-check (pages, indexes), beneath what the engine verifies. */
  inspect(): Promise<StoreFault[]>
  facts(): Promise<StoreFacts>
  /**
   * Forgets messages consumed and workers retired before that (their ids are then new again), and gives back space; says what
   * it did.
   */
  tidy(before: number): Promise<{ readonly messages: number; readonly workers: number }>
  /**
   * Takes what was forgotten with 'erase' out of the store's files; with `whole`, whatever was ever deleted or replaced. With
   * `mayLock`, also by means that keep others from reading meanwhile. Says where bytes may be left; nothing: nowhere.
   */
  scrub(how?: Scrubbing): Promise<readonly string[]>
  /** Ends this handle: everything else then rejects with CLOSED. Closing twice is closing once. What was given in was copied; what was given out is the caller's. */
  close(): Promise<void>
}
