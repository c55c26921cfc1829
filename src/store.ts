// reprise/store: the port that every store implements, and the engine over a store that is already open.

export type { MeasuredCosts } from './core/checkpoint/costs.ts'
export type { ChunkRef, Segment } from './core/checkpoint/manifest.ts'
export type { Branded, Digest, ManifestId, MessageId, OperationId, TimelineId, WorkerId } from './core/coordinate.ts'
export type { Rewritable } from './core/store/blobs.ts'
export type {
  Base,
  Clock,
  EntryRun,
  Hash,
  ManifestRecord,
  NewRequest,
  OutgoingMessage,
  Random,
  RequestTarget,
  Store,
  WorkerRow,
} from './core/store/ports.ts'
export type { Grown, GrowProgress, GrowRequest, ShardRow } from './core/store/shards.ts'
export type {
  Inspected,
  Inspection,
  LogArchive,
  LossRecord,
  Renewal,
  ShardClock,
  StoreFacts,
  StoreFault,
  StoreLoss,
} from './core/store/store-facts.ts'
export type { WorkerRecord } from './core/store/worker-row.ts'
export { createEngine, type Ports } from './engine/api/open.ts'
export type { ProcessIdentity } from './engine/base/platform.ts'
