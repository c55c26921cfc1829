// Reports of a run: metrics while it runs, and its outcome.

import type { Coordinate } from '../../../core/coordinate.ts'
import type { StageView } from '../stages/plan.ts'
import type { Checkpoints } from './checkpoints.ts'
import type { Flow, OperatorStatus } from './flow.ts'
import type { CheckpointFacts } from './state.ts'

export interface PipelineReport {
  /** 'completed': the sources ended, or the run was drained. 'stopped': the next run resumes it. */
  readonly status: 'completed' | 'stopped' | 'cancelled'
  /** Over all runs of the pipeline. */
  readonly records: number
  readonly deadLetters: number
  /** Null: the run was stopped while it waited for ownership. */
  readonly coordinate: Coordinate | null
  /** The newest checkpoint. */
  readonly checkpoint: string | null
}

export interface SourceStatus {
  readonly name: string
  /** The number of records in this run. */
  readonly records: number
  readonly watermark: number | null
  /** The age of the newest record read, by the clock; null: records have no times, or none has arrived. */
  readonly lagMs: number | null
  /** Partitions that hold the watermark back. */
  readonly slowest: readonly string[]
  readonly isEnded: boolean
}

export interface PipelineStatus {
  readonly status: 'starting' | 'running' | 'stopping' | 'completed' | 'stopped' | 'cancelled' | 'failed'
  readonly records: number
  readonly lateRecords: number
  readonly deadLetters: number
  readonly elapsedMs: number
  /** The time that sources waited for sinks and calls. */
  readonly blockedMs: number
  readonly sources: readonly SourceStatus[]
  readonly operators: readonly OperatorStatus[]
  /** The stages of a run on several threads, with their parts. Empty: all parts are in one thread. */
  readonly stages: readonly StageView[]
  readonly checkpoints: {
    readonly isUnderWay: boolean
    readonly failuresInARow: number
    readonly lastFailure: string | null
    /** The last checkpoints, newest last, including those of earlier runs. */
    readonly recent: readonly CheckpointFacts[]
  }
}

/** Options for waiting: the promise rejects with ABORTED when the signal aborts, and the pipeline continues. */
export interface PipelineWaitOptions {
  readonly signal?: AbortSignal
}

export function statusOf(
  status: PipelineStatus['status'],
  flow: Flow | null,
  checkpoints: Checkpoints | null,
  now: number,
  elapsedMs: number,
): PipelineStatus {
  const sources = flow?.sources ?? []
  return {
    ...{ status, elapsedMs },
    records: sources.reduce((sum, { records }) => sum + records, 0),
    lateRecords: flow?.lateRecords ?? 0,
    deadLetters: flow?.letters.count ?? 0,
    blockedMs: flow?.blockedMs ?? 0,
    sources: sources.map((source) => ({
      ...{ name: source.name, records: source.records, slowest: source.slowest, isEnded: source.isEnded },
      watermark: Number.isFinite(source.watermark) ? source.watermark : null,
      lagMs: source.lagMs(now),
    })),
    operators: flow?.operators() ?? [],
    stages: flow?.stages ?? [],
    checkpoints: {
      isUnderWay: checkpoints?.isUnderWay ?? false,
      failuresInARow: checkpoints?.failures ?? 0,
      lastFailure: checkpoints?.lastFailure ?? null,
      recent: checkpoints?.state.recent ?? [],
    },
  }
}
