// Events for the caller that watches a program.

import type { Capture, Restored } from './captures.ts'
import type { EndReason } from './entries.ts'

export type ExecEvent =
  | ({ readonly kind: 'restored' } & Restored)
  | { readonly kind: 'started'; readonly run: number; readonly attempt: number; readonly pid: number }
  | ({ readonly kind: 'captured' } & Capture)
  /** The capture was not possible this time, or will not be made: `why` is for people. */
  | { readonly kind: 'not-captured'; readonly why: string }
  | { readonly kind: 'stopping'; readonly signal: string; readonly graceMs: number; readonly reason: string | null }
  | { readonly kind: 'progress'; readonly done: number; readonly total: number | null; readonly text: string }
  | ({ readonly kind: 'ended' } & RunEnd)
  | { readonly kind: 'retrying'; readonly attempt: number; readonly inMs: number }
  /** A hint about something the caller may want to change. */
  | { readonly kind: 'note'; readonly text: string }

/** The end of one process of the program. */
export interface RunEnd {
  readonly run: number
  readonly exitCode: number | null
  readonly signal: string | null
  readonly why: EndReason
  /** Time worked since the last capture. */
  readonly lostMs: number
  /** `lostMs` is an upper bound: the end was not observed. */
  readonly isAtMost: boolean
}

/** A program in this process, at this moment. */
export interface ExecStatus {
  /** `starting`: also between two attempts. */
  readonly status: 'starting' | 'running' | 'stopping' | ExecResult['status']
  /** Null while no process of it runs. */
  readonly pid: number | null
  /** The number of captures in this execution. */
  readonly captures: number
  /** The sequence of the newest capture. */
  readonly capture: number | null
}

export interface ExecResult {
  readonly timeline: string
  /** As a shell reports it: 128 plus the signal for a process killed by a signal. */
  readonly exitCode: number
  readonly status: 'completed' | 'failed' | 'stopped'
  /** Every started process, and any process of an earlier start without a recorded end. */
  readonly runs: readonly RunEnd[]
  readonly captures: number
  readonly restored: Restored | null
  /** The sequence of the newest capture. */
  readonly capture: number | null
}
