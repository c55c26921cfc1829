// The output of a run: a report at the end, progress before, and events.

import type { Coordinate } from '../../core/coordinate.ts'
import type { RecoveryReport } from '../../engine/base/recovery-report.ts'
import type { ItemFailure } from './entries.ts'

export interface JobReport {
  readonly status: 'completed' | 'stopped'
  /** Done by this run, in this process. */
  readonly done: number
  readonly skipped: number
  /** Dead letters of this run. */
  readonly failed: number
  /** All current dead letters of the job, from all processes and earlier runs, that were not redriven or discarded. */
  readonly dead: number
  readonly retried: number
  readonly elapsedMs: number
  /** The coordinate at which an unfinished run was resumed, or null. */
  readonly resumedFrom: Coordinate | null
  /** The recovery report of each timeline. */
  readonly recoveries: readonly RecoveryReport[]
  /** Items in flight when the grace time ran out; they are processed again. */
  readonly cutOff: number
  readonly round: number
}

export interface JobProgress {
  readonly name: string
  readonly status: 'starting' | 'running' | 'waiting' | 'paused' | 'stopping' | 'completed' | 'stopped'
  readonly done: number
  readonly skipped: number
  readonly failed: number
  readonly retried: number
  readonly inFlight: number
  readonly waiting: number
  /** The number of source items read so far. */
  readonly read: number
  readonly total: number | null
  readonly fraction: number | null
  readonly elapsedMs: number
  readonly resumedFrom: Coordinate | null
  readonly pausedBecause: string | null
}

export type JobEvent =
  | { readonly type: 'started'; readonly progress: JobProgress }
  | { readonly type: 'progress'; readonly progress: JobProgress }
  | {
      readonly type: 'failure'
      readonly key: string
      readonly attempt: number
      readonly error: ItemFailure
      readonly next: 'retry' | 'dead'
    }
  | {
      /** The source failed and is read again from its last position, or its retries are used up and the run ends. */
      readonly type: 'source-failure'
      readonly attempt: number
      readonly error: ItemFailure
      readonly next: 'retry' | 'stop'
    }
  | {
      readonly type: 'ended'
      readonly progress: JobProgress
      readonly report: JobReport | null
      readonly error: unknown
    }
