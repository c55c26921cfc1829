// What a store is asked to write: commits, each with its guard, and what becomes of them. The rules as a function: commit/.
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
}

export interface Guard {
  readonly timeline: TimelineId
  /**
   * If given: only while the timeline is in this life, else FENCED. A forget of an earlier life was applied before: ok with
   * `isDuplicate`. Appends need none: the epochs of a later life lie above those of the earlier ones.
   */
  readonly life?: number
  /**
   * The commit applies only while this is the current epoch, else FENCED. With `create`: the last epoch of the life before
   * (Store.past), 0 if the id was never used.
   */
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
   * Make the timeline if it is not there (epoch as in the guard, sequence that of the base, else of the floor, else 0;
   * `digest` is the one there); without it a missing one is NOT_FOUND. Without `floor` a fork has its parent's, any other its
   * own start.
   * NOT_FOUND if the base's timeline is missing; OUT_OF_RANGE if the base is beyond its head, or the fork's floor above
   * the base, or below both the base and the parent's floor (what it needs is gone).
   */
  readonly create?: {
    readonly digest: Digest
    /** If given: only if the new timeline is this life of its id, else FENCED. Default: one more than the life before. */
    readonly life?: number
    /**
     * A copy of a timeline that exists or existed elsewhere (another shard, a backup): it takes over that life and starts from
     * that epoch, whatever the store remembers of the id.
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
 * A commit whose operation id is the timeline's `operation` was already applied. The answer is the same success again with
 * `isDuplicate`: the epoch it had then (guard.epoch, + 1 after take or branch, even if the timeline was claimed since),
 * without `sqlResult`, and its SQL is not called again.
 *
 * Order inside one commit: operation, guard (missing, epoch, sequence, then digest), unlessMail, take, branch, run,
 * publish, marks, drop, trim, the rest (consume, send, cursors). The first refusal counts, and within one part they are
 * looked at in the order named. After `take`, `branch` or both the epoch is guard.epoch + 1, and the rest of this commit is
 * written under it.
 *
 * A shape that can never apply is a bug: the whole batch rejects with INVALID_ARGUMENT before anything is applied. Such are
 * run without guard.seq or branch, one of guard.seq and guard.digest without the other, forget without the whole guard,
 * run.first not the next sequence, forget with anything else, aside with more than attributes, publish, marks, drop and trim,
 * and no guard with anything but send.
 */
export interface Commit {
  readonly operation: OperationId
  /**
   * Null: a commit that only sends messages; its outcome has epoch 0, seq 0, and `isDuplicate` if none of them was new. It is
   * refused with NOT_FOUND if a message is for a life that is over; a commit with a guard drops such a message.
   */
  readonly guard: Guard | null
  /**
   * A change beside the owner, of attributes and the catalog alone: the timeline's `operation` stays as it is, so that a commit
   * of the owner whose answer was lost is still recognised. A repeated `aside` commit is applied again.
   */
  readonly aside?: boolean
  /** Only while the timeline has no unread mail, else MAIL_WAITING. For stores that say `guardsMail`. */
  readonly unlessMail?: boolean
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
   * (of any timeline in the namespace), then BASE_GONE if a base is not in it, then SWEPT if `chunksSince` is below the
   * sweep mark.
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
  /**
   * Named cursors, owned by this timeline. A null position removes the cursor. CONFLICT if another timeline owns the name,
   * or if it would move back.
   */
  readonly cursors?: Readonly<Record<string, FeedPosition | null>>
  /**
   * Remove the timeline and everything of it: runs, catalog, mail, cursors. PINNED while a fork needs it (its floor is below
   * its base's seq) or a checkpoint is pinned. Nothing but `unlessMail` goes with it. One that is not there is already
   * forgotten: ok with `isDuplicate`. The store remembers life and epoch for the next use of the id (Store.past). 'erase':
   * bytes are overwritten where the store can do that, `scrub` finishes it, and the id leaves no digest: instead, every id
   * without a past starts above this life. 'moved': the same for one that lives on elsewhere; nothing is remembered.
   */
  readonly forget?: boolean | 'erase' | 'moved'
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
      /** As it is, without this commit. */
      readonly head: Head | null
      readonly cause?: unknown
    }
