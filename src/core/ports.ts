// The ports: what the engine needs from the outside, in as few promises as possible. Stores and simulators implement
// these; nothing here knows SQL, files or sockets. src/testing/conformance.ts is the executable form of every comment.

import type { Digest, ManifestId, MessageId, OperationId, TimelineId, WorkerId } from './coordinate.ts'

export type Hash = (bytes: Uint8Array) => Digest

export interface Clock {
  /** Milliseconds since 1970, on this machine. Used for records, never for ownership. */
  now(): number
  /** Milliseconds that only grow; for measuring. */
  elapsed(): number
  /** Calls once after the delay; the returned function cancels. */
  after(delayMs: number, call: () => void): () => void
}

export interface Random {
  bytes(count: number): Uint8Array
  /** From 0 up to, not including, 1. */
  number(): number
}

/** Entries of one timeline that became durable together (format in run.ts). */
export interface Run {
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

export type Attribute = string | number | boolean

export interface Head {
  readonly timeline: TimelineId
  /** Last sequence; 0 (or base.seq) when nothing was appended. */
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
  readonly status: string
  /** Database time at which it wants to run again; null: only when mail comes. */
  readonly wakeup: number | null
  /** Number of messages not yet consumed. */
  readonly mail: number
  readonly attributes: Readonly<Record<string, Attribute>>
  /** The operation that wrote last: how a lost answer is asked for. */
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

/** A change to the catalog's notes on one checkpoint. */
export interface ManifestMark {
  readonly id: ManifestId
  readonly verifiedAt?: number
  readonly invalid?: string
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
  /** The commit applies only while this is the current epoch. 0 with `take`: only if nobody ever owned it. */
  readonly epoch: number
  /** If given: only while this is the last sequence. Required with `run`. */
  readonly seq?: number
}

export interface Take {
  readonly worker: WorkerId
  /** From whom it may be taken: nobody but a free one; also from a dead worker; or from anyone. The taker's own counts as free. */
  readonly from: 'free' | 'dead' | 'anyone'
  /** Make the timeline if it is not there (epoch 0, sequence 0, or the base's); without it a missing one is NOT_FOUND. */
  readonly create?: {
    readonly digest: Digest
    readonly base?: Base
    readonly floor?: { readonly seq: number; readonly digest: Digest }
  }
}

/**
 * One atomic change. Everything in it becomes visible and durable together, or nothing does. Other commits in the same
 * batch succeed or fail on their own. A commit whose operation id is the timeline's `operation` was already applied: the
 * answer is the same success again with `wasApplied`.
 *
 * Order inside one commit: guard, take, branch, run, publish, marks, drop, trim, the rest.
 * After `take` or `branch` the epoch is guard.epoch + 1, and the rest of this commit is written under it.
 */
export interface Commit {
  readonly operation: OperationId
  /** Null: a commit that only sends messages. */
  readonly guard: Guard | null
  readonly take?: Take
  /** Give up ownership. */
  readonly release?: boolean
  /** Append: run.first is guard.seq + 1. */
  readonly run?: Run
  /**
   * Roll back: what is here now is renamed to `archive` (status "archived", no owner, no wakeup), and this id goes on
   * as a fork of it at `seq`; owner, queue, priority, attributes, wakeup and unread mail stay with this id. NOT_FOUND,
   * EXISTS (archive taken) or OUT_OF_RANGE otherwise.
   */
  readonly branch?: {
    readonly archive: TimelineId
    readonly seq: number
    readonly digest: Digest
    readonly floor: { readonly seq: number; readonly digest: Digest }
  }
  /** Publish checkpoints. OUT_OF_RANGE if seq is beyond the head, BASE_GONE if a base is not in the catalog (of any timeline). */
  readonly publish?: readonly ManifestRecord[]
  readonly marks?: readonly ManifestMark[]
  /** Take checkpoints out of the catalog. PINNED if one is pinned, or if history is trimmed and no verified, valid one at or above the floor would remain. */
  readonly drop?: readonly ManifestId[]
  /**
   * Trim history up to and including `seq` (the end of a run, or the base's seq). PINNED if any of `restsOn` is not in the
   * catalog, verified and valid; if a fork of this timeline still needs what would go (its floor is below `seq` and below its base's
   * seq); or if a cursor in this namespace has not passed a run that would go.
   */
  readonly trim?: { readonly seq: number; readonly digest: Digest; readonly restsOn: readonly ManifestId[] }
  /** Messages to this timeline that are now part of its history. CONFLICT if one is not there unread. */
  readonly consume?: readonly MessageId[]
  readonly send?: readonly OutgoingMessage[]
  readonly wakeup?: number | null
  readonly queue?: string | null
  readonly priority?: number
  readonly status?: string
  /** Merged into the attributes; null removes one. */
  readonly attributes?: Readonly<Record<string, Attribute | null>>
  /** Named cursors, owned by this timeline. A null position removes the cursor. CONFLICT if another timeline owns the name, or if it would move back. */
  readonly cursors?: Readonly<Record<string, FeedPosition | null>>
  /** Remove the timeline and everything of it. PINNED while a fork needs it or a checkpoint is pinned. Nothing else goes in such a commit. */
  readonly forget?: boolean
  /** The user's SQL in the same transaction. If it throws, the outcome is RIDER_FAILED and nothing is kept. */
  readonly ride?: (sql: Sql) => Promise<unknown> | unknown
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
  | 'RIDER_FAILED'
  | 'WORKER_RETIRED'

export type Outcome =
  | {
      readonly ok: true
      readonly epoch: number
      readonly seq: number
      readonly wasApplied: boolean
      readonly ridden?: unknown
    }
  | {
      readonly ok: false
      readonly code: Refusal
      readonly reason: string
      readonly head: Head | null
      readonly cause?: unknown
    }

export interface WorkerRecord {
  readonly id: WorkerId
  readonly name: string
  /** Identity of the process: host, process namespace, pid and its start, so that a reused pid is not taken for it. */
  readonly host: string
  readonly process: string
  readonly leaseMs: number
  /** Queues and definitions it serves, and its counters: shown to people. */
  readonly info: Readonly<Record<string, Attribute>>
  /** Grows with recoverable progress: alive without progress is stuck. */
  readonly progress: number
}

export interface WorkerRow extends WorkerRecord {
  readonly startedAt: number
  readonly beatAt: number
  readonly progressAt: number
  readonly isAlive: boolean
  readonly isRetired: boolean
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
  readonly run: Run
}

export interface FeedPage {
  readonly items: readonly FeedItem[]
  /** Where to go on: at or after the last item, also when a filter left the page empty. */
  readonly next: FeedPosition
  /** Nothing was left to read when the page was made. */
  readonly isEnd: boolean
}

export interface FeedFilter {
  /** Timelines whose id starts with one of these. */
  readonly prefixes?: readonly string[]
}

export interface TimelineQuery {
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

export interface ChunkRow {
  readonly digest: Digest
  readonly bytes: number
  /** Last put, by the store's clock. */
  readonly touchedAt: number
}

export interface Blobs {
  /** Durable when it resolves. A chunk that is there already is touched: its age starts anew. */
  put(chunks: readonly { readonly digest: Digest; readonly bytes: Uint8Array }[]): Promise<void>
  /** In the order asked; null where missing. The caller checks the digests. */
  get(digests: readonly Digest[]): Promise<(Uint8Array | null)[]>
  /** In digest order. */
  list(after: Digest | null, limit: number): Promise<ChunkRow[]>
  /** Deletes those that were last touched before that time (store's clock), and says how many. */
  delete(digests: readonly Digest[], touchedBefore: number): Promise<number>
}

export interface StoreFacts {
  /** memory, sqlite, postgres, … */
  readonly kind: string
  /** For people; without credentials. */
  readonly location: string
  readonly schemaVersion: number
  /** Settings that durability rests on, as read back from the store: { journal_mode: 'wal', synchronous: 'full' }. */
  readonly durability: Readonly<Record<string, string>>
  readonly isReadOnly: boolean
  /** Bytes on disk, where known. */
  readonly sizeBytes: number | null
}

/** A fault found by the store's own checks, beneath the digest chain. */
export interface StoreFault {
  readonly where: string
  readonly what: string
}

export interface Store {
  readonly blobs: Blobs
  /** Outcomes in the order of the commits. Later commits in the batch see earlier ones. Rejects only if the store as a whole failed: then each outcome is unknown until asked for by the same operation id. */
  commit(commits: readonly Commit[]): Promise<Outcome[]>
  /** Runs that hold sequences above `after`, in order, of this timeline only (not of its base); at least one if there is any, stopping at about `bytesMax`. */
  read(timeline: TimelineId, after: number, bytesMax: number): Promise<Run[]>
  head(timelines: readonly TimelineId[]): Promise<(Head | null)[]>
  /** Unread messages, oldest first. */
  inbox(timeline: TimelineId, limit: number): Promise<Message[]>
  /** Takes timelines of these queues that are due (wakeup reached or mail waiting) and free or owned by a dead worker, most urgent first (priority, then wakeup), each with a new epoch. */
  claim(request: ClaimRequest): Promise<Head[]>
  /** Entries of all timelines in one order: a reader that goes on from `next` never misses an entry that commits later, nor sees one twice. */
  feed(after: FeedPosition, filter: FeedFilter, limit: number): Promise<FeedPage>
  timelines(query: TimelineQuery): Promise<Head[]>
  /** The catalog of one timeline (not of its base), newest sequence first; of equal sequences the newest first. */
  checkpoints(timeline: TimelineId): Promise<ManifestRecord[]>
  cursors(): Promise<CursorRow[]>
  workers(): Promise<WorkerRow[]>
  /** Registers or renews a worker and tells the database time. `ok: false`: it was retired and must not go on under this id. */
  beat(worker: WorkerRecord): Promise<{ readonly ok: boolean; readonly now: number }>
  /** Declares workers dead: their timelines are free at once, their heartbeats refused. */
  retire(workers: readonly WorkerId[]): Promise<void>
  /** Calls when something may be due or readable; may call too often, and may miss: callers poll as well. */
  listen(wake: () => void): () => void
  /** Low-level self-check (pages, indexes), beneath what the engine verifies. */
  inspect(): Promise<StoreFault[]>
  facts(): Promise<StoreFacts>
  /** Forgets consumed messages and retired workers older than that, and gives back space; says what it did. */
  tidy(before: number): Promise<{ readonly messages: number; readonly workers: number }>
  close(): Promise<void>
}
