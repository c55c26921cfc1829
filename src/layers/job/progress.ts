// What a run tells about itself: a report at the end, progress while it is under way, and events.

import type { Coordinate } from '../../core/coordinate.ts'
import type { RecoveryReport } from '../../engine/base/recovery-report.ts'
import type { Failure } from './entries.ts'

export interface JobReport {
  readonly status: 'finished' | 'stopped'
  /** In this run, in this process. */
  readonly done: number
  readonly skipped: number
  /** Dead letters of this run. */
  readonly failed: number
  /** Dead letters that the job has now, in all processes and of earlier runs too: until they are sent back or discarded. */
  readonly dead: number
  readonly retried: number
  readonly elapsedMs: number
  /** Where an unfinished run was picked up, or null. */
  readonly resumedFrom: Coordinate | null
  /** How each timeline came back. */
  readonly recoveries: readonly RecoveryReport[]
  /** In flight when the grace time ran out; they are done again. */
  readonly cutOff: number
  readonly round: number
}

export interface JobProgress {
  readonly name: string
  readonly status: 'starting' | 'running' | 'waiting' | 'paused' | 'stopping' | 'finished' | 'stopped'
  readonly done: number
  readonly skipped: number
  readonly failed: number
  readonly retried: number
  readonly inFlight: number
  readonly waiting: number
  /** Items of the source seen so far. */
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
      readonly error: Failure
      readonly next: 'retry' | 'dead'
    }
  | {
      /** The source failed, and is read again from its last position; or its attempts are used up, and the run ends. */
      readonly type: 'source-failure'
      readonly attempt: number
      readonly error: Failure
      readonly next: 'retry' | 'stop'
    }
  | {
      readonly type: 'ended'
      readonly progress: JobProgress
      readonly report: JobReport | null
      readonly error: unknown
    }
