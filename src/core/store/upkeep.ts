// The port of upkeep: the calls with which tools and housekeeping look after the stored data. A store exposes it as its member
// `upkeep` (docs/decisions/store-port.md); the kernel commits, reads and claims without it.

import type { MessageId, TimelineId } from '../coordinate.ts'
import type { Change, LegibleRun, Rewritable, Rewritten, RunChange } from './blobs.ts'
import type { ManifestRecord, PastLife, PastRepair } from './records.ts'
import type { Inspection, LossRecord, Renewal, StoreFacts, StoreFault } from './store-facts.ts'

export interface Scrubbing {
  readonly whole?: boolean
  readonly mayLock?: boolean
}

export interface Upkeep {
  /** Null: the underlying database is readable as a whole or not at all, and nothing can be salvaged from its parts. */
  readonly salvage: Salvage | null

  /**
   * The kind, location and size of the store, and the settings that determine durability, as the store has them now. Rejects
   * if the store cannot be reached: callers use it as a probe.
   */
  facts(): Promise<StoreFacts>

  /** The names of all namespaces in the same database, including this one once it was written to. */
  namespaces(): Promise<readonly string[]>

  /**
   * Low-level self-check (pages, indexes), below the checks of the engine; in slices, so that other calls can run. It covers
   * all namespaces where they share structures. An empty answer does not prove that histories are whole: `verify` does.
   */
  inspect(inspection?: Inspection): Promise<StoreFault[]>

  /**
   * Passes the stored bytes of one kind (runs, bodies of manifests, unread mail, also to missing timelines) to `change`, at
   * most about `limit` of them, in an order that the store chooses, and stores the results in their place.
   *
   * Nothing else changes: no digest, position, count or time, and no epoch is required, since the new bytes mean the same
   * (core/history/wrapped-record.ts). Bytes written meanwhile may or may not be included.
   */
  rewrite(kind: Rewritable, change: Change, after: string | null, limit: number): Promise<Rewritten>

  /**
   * Replaces named runs of one timeline (core/history/redacted-run.ts). A missing run, or one with another digest, is skipped,
   * unless it is to be repaired (`count`). The old bytes are overwritten where the store can do that, and `scrub` finishes it.
   */
  replace(timeline: TimelineId, runs: readonly RunChange[]): Promise<Pick<Rewritten, 'changed' | 'left'>>

  /**
   * Restores damaged or lost records of the catalog: each replaces the one with its id, or is added. A store that counts
   * records counts them again: `missing` is the number of earlier records that are neither in the catalog nor in `lines`. No
   * epoch is required, since nothing new is published.
   */
  mendCatalog(timeline: TimelineId, lines: readonly ManifestRecord[]): Promise<{ readonly missing: number }>

  /** Whether any timeline of the namespace has a checkpoint, without reading them all. */
  hasCheckpoints(): Promise<boolean>

  /** Ids of consumed messages that are not forgotten yet (tidy), after this one, in an order that the store chooses. */
  consumed(timeline: TimelineId, after: MessageId | null, limit: number): Promise<MessageId[]>

  /** The remembered lives of forgotten ids after this name, in the order of names: part of a backup. */
  pasts(after: string | null, limit: number): Promise<PastLife[]>

  /** Remembers lives from elsewhere (a backup, another shard). An already remembered life is never lowered. */
  recall(pasts: readonly PastLife[]): Promise<void>

  /**
   * Repairs damaged rows among the remembered lives, and replaces lost ones so that no id gets the keys of an earlier life.
   * A store that repairs them with its files (Salvage.renew) reports none.
   */
  mendPasts(): Promise<PastRepair>

  /**
   * Forgets messages consumed and workers retired before that time (their ids are then new again) and lives of ids that were
   * forgotten long before it, and returns space. Reports the numbers. A call may do a part of the work and leave the rest to
   * later calls.
   */
  tidy(before: number): Promise<{ readonly messages: number; readonly workers: number }>

  /**
   * Removes data that was forgotten with 'erase' from the store's files; with `whole`, everything that was ever deleted or
   * replaced. With `mayLock`, also by means that block readers meanwhile. Reports where bytes may remain; empty: nowhere.
   */
  scrub(how?: Scrubbing): Promise<readonly string[]>
}

/** Reads around damage, for a store of which a part may be unreadable while the rest is intact. */
export interface Salvage {
  /** The ids of timelines that anything in the store still names, in no order, even in a damaged store. */
  names(): Promise<readonly TimelineId[]>

  /**
   * Readable runs of a timeline after this sequence, despite gaps between them: up to and including the first whose digest is
   * known, or the last. A run without a digest is proven only by the runs around it.
   */
  legible(timeline: TimelineId, after: number): Promise<readonly LegibleRun[]>

  /**
   * The data that earlier calls of `renew` lost, one record for each call, oldest first. With an id, a person accepts that
   * loss: its record is removed.
   */
  losses(accepted?: string): Promise<LossRecord[]>

  /**
   * Rewrites the files of the store from their intact parts and keeps the old files beside them. No other process may have them
   * open (STORE_BUSY). Reports the data that was lost. Absent: the store has no files, or is a set whose files are renewed one by
   * one.
   */
  renew?(): Promise<Renewal>
}
