// What a checkpoint of a pipeline says beside the state of its operators: positions, what sinks have prepared, and the names
// by which state is found again. It is the value of the manifest; the tables of operators lie in stream parts of their own,
// called operator/table/0, /1, …, each a sequence of blocks: size(4 bytes, little endian) and the block as the codec writes it
// (layers/pipeline/rules/state-block.ts). Blocks apply in order: later ones win.

import type { CheckpointPolicy } from '../../../core/checkpoint/checkpoint-policy.ts'
import { RepriseError } from '../../../core/errors.ts'
import { keyGroupsDefault } from '../../../core/key-groups.ts'
import type { Fold } from '../../../engine/model/definition.ts'
import type { FlowMoment } from '../../../engine/model/flow-metrics.ts'
import type { CheckpointKind } from '../rules/coordinator.ts'
import type { Prepared } from '../sink.ts'

/** 'running' also while nobody runs it: it is what the last checkpoint said. */
export type PipelineStage = 'running' | 'suspended' | 'done'

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
  /** 2: operators have several instances, whose tables are called operator/table:0, :1, … */
  readonly format: 1 | 2
  readonly stage: PipelineStage
  /** Of checkpoints: never used twice. */
  readonly checkpoint: number
  /** Read from the sources, over all runs. */
  readonly records: number
  /** Into how many groups keys are divided, for good. */
  readonly keyGroups: number
  /** Into how many instances operators with keys were divided. */
  readonly parallelism: number
  /** By source, by partition. */
  readonly sources: Readonly<Record<string, readonly (readonly [partition: string, position: unknown])[]>>
  /** By source: what its positions mean. Checkpoints of earlier versions have none. */
  readonly sourceKinds?: Readonly<Record<string, string>>
  /** By operator with state: what kind of state it is. */
  readonly operators: Readonly<Record<string, string>>
  /** By operator/table: cells in the stored blocks, and cells that exist. */
  readonly tables: Readonly<Record<string, { readonly stored: number; readonly cells: number }>>
  readonly sinks: Readonly<Record<string, Prepared>>
  readonly letters: number
  /** Where it stands in the feed of its store; null: it does not read it. */
  readonly cursor: string | null
  /** The last ones, newest last: it survives restarts. */
  readonly recent: readonly CheckpointFacts[]
  /** How records flowed when it was taken, for people. Left out by those who wrote before it was noted. */
  readonly flow?: FlowMoment
  /** Traceparents (W3C): of its start, and of the run that made this. Missing where nobody traced. */
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

/** On the pipeline's own timeline: its tasks have timelines of their own, and it is never run whole. */
export const sharedAttribute = 'shared'

/** Beside it: how many partitions a keyed pipeline had when it was first shared. Its keys lie by this number, for good. */
export const partitionsAttribute = 'partitions'

export function sharedError(timeline: string): RepriseError {
  const what = `${timeline} is shared by partitions, each of which has a timeline and state of its own: work on it with rp.work(), or run it under another id`
  return new RepriseError('CONFLICT', what, { timeline })
}

export const pipelineVersion = 'pipeline/1'
export const recentMax = 20

/** Every second: results are visible with their checkpoint. */
export const usualCheckpoint: CheckpointPolicy = { each: '1s' }

/** The checkpoint is the truth: what came after it is read from the sources again. */
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
