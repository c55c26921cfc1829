// The dependencies of every part of the engine and every layer: the ports, the shared services, the limits. Passed in
// as an argument, never global.

import type { Codec } from '../../core/codec/codec.ts'
import { type OperationId, type TimelineId, toHex, type WorkerId } from '../../core/coordinate.ts'
import type { EffectLedger } from '../../core/history/effects.ts'
import type { Limits } from '../../core/limits.ts'
import type { Clock, Commit, Guard, Hash, Outcome, Random, Store } from '../../core/store/ports.ts'
import type { Events } from '../base/events.ts'
import type { Planted } from '../base/planted-bugs.ts'
import type { Tracing } from '../base/tracing.ts'
import type { Worker } from '../base/worker.ts'
import type { NewEntry } from '../model/entry.ts'
import type { ModelRegistry } from '../model/model-registry.ts'
import type { Committer } from './committer.ts'
import type { FailureNotes } from './failure-notes.ts'
import type { RedundantStore } from './redundancy/store.ts'
import type { Sealer } from './seal/seal.ts'
import type { Segments } from './segment-catalog.ts'
import type { Identity } from './store-identity.ts'
import type { TieredBlobs } from './tiered-blobs.ts'

/** Declares dead workers retired, so that their timelines can be taken over (ownership/dead-workers.ts). */
export interface WorkerRetirement {
  /** Retires workers that are known to be dead, and starts a second check of those that may be. Returns the retired ones. */
  retireGone(): Promise<WorkerId[]>
  /** The workers that the running second check retires, if there is one. */
  retiredSoon(): Promise<WorkerId[]>
}

export interface Kernel {
  readonly store: Store
  readonly namespace: string
  readonly clock: Clock
  readonly random: Random
  readonly hash: Hash
  readonly codec: Codec
  readonly sealer: Sealer
  readonly limits: Limits
  readonly events: Events
  readonly committer: Committer
  readonly worker: Worker
  readonly deadWorkers: WorkerRetirement
  /** The identity of this store, and the numbers that new timelines start from. */
  readonly identity: Identity
  /** Failures recorded in the heads of timelines. */
  readonly failures: FailureNotes
  /** The models that this process knows. */
  readonly models: ModelRegistry
  /** Null: chunks have no parity, and catalog entries no second copy. */
  readonly redundancy?: RedundantStore | null
  /** The chunks of the store and its colder tiers; the same as `store.blobs`. */
  readonly tiers: TieredBlobs
  /** Catalog entries that `store.checkpoints` omits: history in a colder tier. */
  readonly segments: Segments
  readonly planted: Planted
  /**
   * Whether folds and other pure user functions run in a zone of the guard, where the clock, randomness and the outside
   * are refused. The first call installs the guard, so that tools without folds run without it.
   */
  guardsFolds(): boolean
  /** A kernel that reads the store as of one moment. Close its store. Null: the store is several databases. */
  freeze(): Promise<Kernel | null>
  /** Members of groups that this process restores; held for every other process (restore-hold.ts). */
  readonly restoring: Set<string>
  /**
   * Chunks younger than this are never collected beside workers of earlier versions. Read mail and retired workers are
   * removed after this time.
   */
  readonly graceMs: number
  /** The tracer, set by its adapter. */
  tracing?: Tracing | null
  /**
   * Writes the entries that `decide` returns for another timeline's ledger; set by the host. Uses the open handle of
   * this process, or else an epoch of its own. Throws OWNED if another process works on the timeline.
   */
  writeTo?(timeline: TimelineId, decide: (ledger: EffectLedger) => readonly NewEntry[]): Promise<void>
  /** A release failed, so this process may still own the timeline, and its mail would wait; set by the host. */
  onStray?(timeline: TimelineId): void
}

export function newOperation(random: Random): OperationId {
  return toHex(random.bytes(12)) as OperationId
}

/** One commit under a new operation id. The caller checks the outcome. */
export function submit(
  { committer, random }: Pick<Kernel, 'committer' | 'random'>,
  commit: Omit<Commit, 'operation'>,
): Promise<Outcome> {
  return committer.submit({ ...commit, operation: newOperation(random) })
}

/**
 * Releases a timeline that this process owns without working on it. False: it failed, and the dispatcher repeats it
 * (`onStray`). Under a newer epoch it is refused, without a loss.
 */
export async function releaseLeft(kernel: Kernel, guard: Guard, extras: Partial<Commit> = {}): Promise<boolean> {
  const outcome = await submit(kernel, { ...extras, guard, release: true }).catch(() => null)
  const isOver = outcome !== null && (outcome.ok || outcome.code === 'FENCED' || outcome.code === 'NOT_FOUND')
  if (!isOver) kernel.onStray?.(guard.timeline)
  return isOver
}

export function newId(random: Random): string {
  return toHex(random.bytes(8))
}
