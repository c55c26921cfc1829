// What a run tells: how it flows while it does, and how it ended.

import type { Coordinate } from '../../../core/coordinate.ts'
import type { Checkpoints } from './checkpoints.ts'
import type { Flow, OperatorStatus } from './flow.ts'
import type { CheckpointFacts } from './state.ts'

export interface PipelineReport {
  /** 'done': the sources came to their end, or it was drained. 'suspended': it goes on when it is run again. */
  readonly status: 'done' | 'suspended' | 'cancelled'
  /** Over all runs. */
  readonly records: number
  readonly deadLetters: number
  /** Null: it was stopped while it waited for its turn. */
  readonly coordinate: Coordinate | null
  /** The checkpoint that it stands on. */
  readonly checkpoint: string | null
}

export interface SourceStatus {
  readonly name: string
  /** In this run. */
  readonly records: number
  readonly watermark: number | null
  /** How old the newest record that was read is, by the clock; null: it has no times, or nothing came yet. */
  readonly lagMs: number | null
  /** Partitions that hold the watermark back. */
  readonly slowest: readonly string[]
  readonly isEnded: boolean
}

export interface PipelineStatus {
  readonly status: 'starting' | 'running' | 'stopping' | 'ended'
  readonly records: number
  readonly lateRecords: number
  readonly deadLetters: number
  readonly elapsedMs: number
  /** How long sources had to wait for sinks and calls. */
  readonly blockedMs: number
  readonly sources: readonly SourceStatus[]
  readonly operators: readonly OperatorStatus[]
  readonly checkpoints: {
    readonly isUnderWay: boolean
    readonly failuresInARow: number
    readonly lastFailure: string | null
    /** The last ones, newest last, also of earlier runs. */
    readonly recent: readonly CheckpointFacts[]
  }
}

/** For whatever waits: it rejects with ABORTED when the signal fires, and the pipeline goes on. */
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
    checkpoints: {
      isUnderWay: checkpoints?.isUnderWay ?? false,
      failuresInARow: checkpoints?.failures ?? 0,
      lastFailure: checkpoints?.lastFailure ?? null,
      recent: checkpoints?.state.recent ?? [],
    },
  }
}
