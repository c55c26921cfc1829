// Write requests to a store: commits with their guards, and their outcomes. commit/ implements the rules as a function.
// Part of the store's contract (ports.ts).

import type { Digest, ManifestId, MessageId, OperationId, TimelineId, WorkerId } from '../coordinate.ts'
import type { Attribute } from './attribute.ts'
import type { Base, EntryRun, FeedPosition, Head, ManifestMark, NewManifest, OutgoingMessage } from './records.ts'

/** The user's SQL inside the commit's transaction, in the dialect of the store. */
export interface Sql {
  readonly dialect: string
  run(text: string, ...values: readonly unknown[]): Promise<{ readonly changes: number }>
  all(text: string, ...values: readonly unknown[]): Promise<Record<string, unknown>[]>
  get(text: string, ...values: readonly unknown[]): Promise<Record<string, unknown> | undefined>
  /**
   * Rows as lists, in the order of the columns, so that two columns may share a name. PostgreSQL: dates, times and intervals as
   * text. For query builders that map values themselves (`reprise/drizzle`).
   */
  rows(text: string, ...values: readonly unknown[]): Promise<unknown[][]>
}

export interface Guard {
  readonly timeline: TimelineId
  /**
   * If set: only while the timeline is in this life, else FENCED. A forget of an earlier life was already applied: ok with
   * `isDuplicate`. Appends do not need it: the epochs of a later life are above those of the earlier ones.
   */
  readonly life?: number
  /**
   * The commit applies only while this is the current epoch, else FENCED. With `create`: the last epoch of the previous life
   * (Store.past), 0 if the id was never used.
   */
  readonly epoch: number
  /** If set: only while this is the last sequence, else CONFLICT. Required with `run`. */
  readonly seq?: number
  /**
   * If set: only while this is the head's digest, else CONFLICT. Required with `seq`: a store that was restored from an older
   * copy can be at the same epoch and sequence with another history, and only the digest differs.
   */
  readonly digest?: Digest
}

export interface Take {
  readonly worker: WorkerId
  /**
   * Allowed previous owners: none (the timeline is free), also a dead worker (one that never beat is dead), or any owner; else
   * OWNED. A timeline that the taker owns is treated as free. A retired worker takes nothing: WORKER_RETIRED, checked first.
   */
  readonly from: 'free' | 'dead' | 'anyone'
  /**
   * Create the timeline if it does not exist (epoch as in the guard, sequence of the base, else of the floor, else 0;
   * `digest` is the digest at that sequence); without it a missing timeline is NOT_FOUND. Without `floor` a fork has its
   * parent's, any other timeline its own start.
   * NOT_FOUND if the base's timeline is missing; OUT_OF_RANGE if the base is beyond its head, or the fork's floor above
   * the base, or below both the base and the parent's floor (the history it needs is gone).
   */
  readonly create?: {
    readonly digest: Digest
    /** If set: only if the new timeline is this life of its id, else FENCED. Default: one more than the previous life. */
    readonly life?: number
    /**
     * A copy of a timeline that exists or existed elsewhere (another shard, a backup): it keeps that life and starts from
     * that epoch, regardless of earlier lives of the id.
     */
    readonly copyOf?: { readonly life: number; readonly epoch: number }
    readonly base?: Base
    readonly floor?: { readonly seq: number; readonly digest: Digest }
  }
}

/**
 * One atomic change. Everything in it becomes visible and durable together, or nothing does. Other commits in the same
 * batch succeed or fail on their own. A refused commit leaves no trace.
 *
 * A commit whose operation id is the timeline's `operation` was already applied. The outcome is the same success again with
 * `isDuplicate`: with the original epoch (guard.epoch, + 1 after take or branch, even if the timeline was claimed since),
 * without `sqlResult`, and its SQL is not called again.
 *
 * Order inside one commit: operation, guard (missing, epoch, sequence, then digest), unlessMail, take, branch, run,
 * publish, marks, drop, trim, the rest (consume, settles, send, cursors). The first refusal counts, and refusals within one
 * part are checked in the order named. After `take`, `branch` or both the epoch is guard.epoch + 1, and the rest of this commit
 * is written under it.
 *
 * A commit of an invalid form is a bug: the whole batch rejects with INVALID_ARGUMENT before anything is applied. Invalid are
 * run without guard.seq or branch, one of guard.seq and guard.digest without the other, forget without the whole guard,
 * run.first not the next sequence, forget with anything else, aside with more than attributes, publish, marks, drop and trim,
 * and no guard with anything but send and settles.
 */
export interface Commit {
  readonly operation: OperationId
  /**
   * Null: a commit that only sends messages; its outcome has epoch 0, seq 0, and `isDuplicate` if none of them was new. It is
   * refused with NOT_FOUND if a message is for a life that is over; a commit with a guard drops such a message.
   */
  readonly guard: Guard | null
  /**
   * A change beside the owner, only of attributes and the catalog: the timeline's `operation` is unchanged, so that a commit of
   * the owner whose answer was lost is still recognised. A repeated `aside` commit is applied again.
   */
  readonly aside?: boolean
  /** Only while the timeline has no unread mail, else MAIL_WAITING. */
  readonly unlessMail?: boolean
  readonly take?: Take
  /** Release ownership; the epoch stays. With `take`: a write by a guest. */
  readonly release?: boolean
  /** Append: run.first is guard.seq + 1 (after `branch`: branch.seq + 1). */
  readonly run?: EntryRun
  /**
   * Roll back: the current timeline is renamed to `archive` (status "archived", no owner, no wakeup), and this id continues
   * as a fork of it at `seq`; owner, queue, priority, status, attributes, wakeup, cursors, mail (and the ids of consumed mail)
   * stay with this id. The runs (in the feed too), checkpoints, base, floor, epoch and operation move to the archive
   * unchanged, and forks of this id become forks of the archive. NOT_FOUND, EXISTS (archive taken), or OUT_OF_RANGE if seq is
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
   * (of any timeline in the namespace), then BASE_GONE if a base is not in it, then SWEPT if `chunksSince` is below the
   * sweep mark.
   */
  readonly publish?: readonly NewManifest[]
  readonly marks?: readonly ManifestMark[]
  /**
   * Remove checkpoints of this timeline from the catalog; unknown ids are skipped. PINNED if one is pinned, or if history is
   * trimmed (floor above 0) and no verified, valid checkpoint at or above the floor would remain.
   */
  readonly drop?: readonly ManifestId[]
  /**
   * Trim history up to and including `seq` (the end of a run, or the base's seq; else OUT_OF_RANGE). PINNED if any of
   * `restsOn` is not in this timeline's catalog at or above `seq`, verified and valid; if a fork of this timeline still needs
   * the trimmed history (its floor is below `seq` and below its base's seq); or if a cursor in this namespace has not passed
   * a trimmed run. At or below the floor it succeeds without a change. The floor is then `seq`, with `digest`.
   */
  readonly trim?: { readonly seq: number; readonly digest: Digest; readonly restsOn: readonly ManifestId[] }
  /** Messages to this timeline that are now part of its history. CONFLICT if one is not unread in the inbox. */
  readonly consume?: readonly MessageId[]
  /** Requests that this commit carries out: removed with it (requests.ts). CONFLICT if one no longer exists. */
  readonly settles?: readonly number[]
  /** Messages to any id; mail to a missing timeline waits for it (its head stays null, its inbox can be read). */
  readonly send?: readonly OutgoingMessage[]
  readonly wakeup?: number | null
  readonly queue?: string | null
  readonly priority?: number
  readonly status?: string
  /** Merged into the attributes; a null value removes an attribute. */
  readonly attributes?: Readonly<Record<string, Attribute | null>>
  /**
   * Named cursors, owned by this timeline. A null position removes the cursor. CONFLICT if another timeline owns the name,
   * or if the cursor would move back.
   */
  readonly cursors?: Readonly<Record<string, FeedPosition | null>>
  /**
   * Remove the timeline and everything that belongs to it: runs, catalog, mail, cursors. PINNED while a fork needs it (its
   * floor is below its base's seq) or a checkpoint is pinned. Only `unlessMail` may accompany it. A missing timeline is already
   * forgotten: ok with `isDuplicate`. The store remembers life and epoch for the next use of the id (Store.past). 'erase':
   * bytes are overwritten where the store can do that, `scrub` finishes it, and no digest of the id remains: instead, every id
   * without a past starts above this life. 'moved': for a timeline that continues elsewhere; nothing is remembered.
   */
  readonly forget?: boolean | 'erase' | 'moved'
  /**
   * The user's SQL in the same transaction, called last and only if nothing was refused. Its value is `sqlResult`. If it
   * throws, the outcome is RIDER_FAILED with the `cause`, and neither the commit nor its SQL has any effect.
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
  | 'SHARD_AWAY'
  | 'MAIL_WAITING'
  | 'CHANGE_UNFINISHED'

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
      /** The head without this commit. */
      readonly head: Head | null
      readonly cause?: unknown
    }
