// What every part of the engine and every layer is given: the ports, the shared services, the limits. Passed in, never
// reached for.

import type { Codec } from '../../core/codec/codec.ts'
import { type OperationId, type TimelineId, toHex } from '../../core/coordinate.ts'
import type { EffectLedger } from '../../core/history/effects.ts'
import type { Limits } from '../../core/limits.ts'
import type { Clock, Hash, Random, Store } from '../../core/store/ports.ts'
import type { Events } from '../base/events.ts'
import type { Planted } from '../base/planted.ts'
import type { Tracing } from '../base/tracing.ts'
import type { Worker } from '../base/worker.ts'
import type { NewEntry } from '../model/entry.ts'
import type { Models } from '../model/models.ts'
import type { Committer } from './committer.ts'
import type { FailureNotes } from './failure-notes.ts'
import type { RedundantStore } from './redundancy/store.ts'
import type { Sealer } from './seal/seal.ts'
import type { Segments } from './segment-catalog.ts'
import type { Identity } from './store-identity.ts'
import type { TieredBlobs } from './tiered-blobs.ts'

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
  /** Who this store is to the outside, and what ids start from. */
  readonly identity: Identity
  /** Why work does not advance, noted with its timeline. */
  readonly failures: FailureNotes
  /** What this process knows of the timelines. */
  readonly models: Models
  /** Null: chunks have no parity, and lines of the catalog no second copy. */
  readonly redundancy?: RedundantStore | null
  /** The chunks of the store, and the colder places that it has; they are what `store.blobs` is. */
  readonly tiers: TieredBlobs
  /** Lines of the catalog that `store.checkpoints` leaves out: history that lies in a colder place. */
  readonly segments: Segments
  readonly planted: Planted
  /**
   * Whether folds and other pure functions of the user run in a zone of the guard, where the clock, chance and the outside
   * are refused. The guard is put in place when this is first asked: tools that fold nothing do without.
   */
  guardsFolds(): boolean
  /** Members of groups that this process restores: held for everybody else (held.ts). */
  readonly restoring: Set<string>
  /**
   * Beside workers of earlier versions: chunks younger than this are never collected. Mail read and workers retired are
   * forgotten after it.
   */
  readonly graceMs: number
  /** Whoever traces, set from outside. */
  tracing?: Tracing | null
  /**
   * Writes to another timeline of this store what `decide` returns for its ledger, set by the host: through the handle that is
   * open in this process, else under an epoch of its own. OWNED: another process is at work on it.
   */
  writeTo?(timeline: TimelineId, decide: (ledger: EffectLedger) => readonly NewEntry[]): Promise<void>
}

export function newOperation(random: Random): OperationId {
  return toHex(random.bytes(12)) as OperationId
}

export function newId(random: Random): string {
  return toHex(random.bytes(8))
}
