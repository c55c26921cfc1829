// The header of a pipeline's checkpoint: positions, prepared data of sinks, and the names that identify state. The header is
// the value of the manifest; the tables of operators are stored in stream parts of their own, named operator/table/0, /1, …,
// each a sequence of blocks: size (4 bytes, little endian) and the encoded block (layers/pipeline/rules/state-block.ts).
// Blocks apply in order: later ones override earlier ones.

import type { CheckpointPolicy } from '../../../core/checkpoint/checkpoint-policy.ts'
import { RepriseError } from '../../../core/errors.ts'
import { keyGroupsDefault } from '../../../core/key-groups.ts'
import type { Fold } from '../../../engine/model/definition.ts'
import type { FlowMoment } from '../../../engine/model/flow-metrics.ts'
import type { CheckpointKind } from '../rules/coordinator.ts'
import type { Prepared } from '../sink.ts'

/** The stage in the last checkpoint: 'running' even while no process runs the pipeline. */
export type PipelineStage = 'running' | 'suspended' | 'done'

/** The status of the timeline after a checkpoint. Stages are part of stored checkpoints, and keep their names. */
export const statusOfStage = { running: 'running', suspended: 'stopped', done: 'completed' } as const

export interface CheckpointFacts {
  readonly checkpoint: number
  readonly kind: CheckpointKind
  readonly at: number
  readonly ms: number
  readonly bytes: number
  readonly addedBytes: number
  readonly longestStallMs: number
}

export interface PipelineState {
  /** 2: operators have several instances, whose tables are named operator/table:0, :1, … */
  readonly format: 1 | 2
  readonly stage: PipelineStage
  /** The number of the checkpoint: never reused. */
  readonly checkpoint: number
  /** The number of records read from the sources, over all runs. */
  readonly records: number
  /** The number of key groups, fixed permanently. */
  readonly keyGroups: number
  /** The number of instances of operators with keys. */
  readonly parallelism: number
  /** Positions by source and partition. */
  readonly sources: Readonly<Record<string, readonly (readonly [partition: string, position: unknown])[]>>
  /** The kind of positions, by source. Checkpoints of earlier versions lack this. */
  readonly sourceKinds?: Readonly<Record<string, string>>
  /** The kind of state, by operator with state. */
  readonly operators: Readonly<Record<string, string>>
  /** By operator/table: the number of cells in the stored blocks, and the number of existing cells. */
  readonly tables: Readonly<Record<string, { readonly stored: number; readonly cells: number }>>
  readonly sinks: Readonly<Record<string, Prepared>>
  readonly letters: number
  /** The cursor in the feed of the store; null: the pipeline does not read it. */
  readonly cursor: string | null
  /** Facts of the last checkpoints, newest last; they survive restarts. */
  readonly recent: readonly CheckpointFacts[]
  /** The flow at the time of the checkpoint, for people. Checkpoints of earlier versions lack it. */
  readonly flow?: FlowMoment
  /** Traceparents (W3C): of the pipeline's start, and of the run that made this checkpoint. Absent without tracing. */
  readonly trace?: string
  readonly span?: string
}

export const emptyState: PipelineState = {
  format: 1,
  stage: 'running',
  checkpoint: 0,
  records: 0,
  keyGroups: keyGroupsDefault,
  parallelism: 1,
  sources: {},
  operators: {},
  tables: {},
  sinks: {},
  letters: 0,
  cursor: null,
  recent: [],
}

/** Marks the pipeline's own timeline as shared: its tasks have their own timelines, and it is never run as a whole. */
export const sharedAttribute = 'shared'

/** The number of partitions when a keyed pipeline was first shared. It determines the partition of a key permanently. */
export const partitionsAttribute = 'partitions'

export function sharedError(timeline: string): RepriseError {
  const what = `${timeline} is shared by partitions, each with its own timeline and state: execute it with rp.work(), or run it under another id`
  return new RepriseError('CONFLICT', what, { timeline })
}

export const pipelineVersion = 'pipeline/1'
export const recentMax = 20

/** A checkpoint every second: results become visible with their checkpoint. */
export const usualCheckpoint: CheckpointPolicy = { each: '1s' }

/** The checkpoint is the whole state: later records are read from the sources again. */
export const pipelineFold: Fold<PipelineState> = {
  version: pipelineVersion,
  initial: () => emptyState,
  apply: (state) => state,
  immutable: true,
  checkpoint: usualCheckpoint,
  retain: { checkpoints: 3, history: 'needed' },
  authority: 'state',
  rereads: true,
}
