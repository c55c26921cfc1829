// What whoever watches a program is told.

import type { Capture, Restored } from './captures.ts'
import type { EndReason } from './entries.ts'

export type ExecEvent =
  | ({ readonly kind: 'restored' } & Restored)
  | { readonly kind: 'started'; readonly run: number; readonly attempt: number; readonly pid: number }
  | ({ readonly kind: 'captured' } & Capture)
  /** It could not be taken this time, or will not be: `why` is for people. */
  | { readonly kind: 'not-captured'; readonly why: string }
  | { readonly kind: 'stopping'; readonly signal: string; readonly graceMs: number }
  | { readonly kind: 'progress'; readonly done: number; readonly total: number | null; readonly text: string }
  | ({ readonly kind: 'ended' } & RunEnd)
  | { readonly kind: 'retrying'; readonly attempt: number; readonly inMs: number }
  /** Something that whoever runs it may want to change. */
  | { readonly kind: 'note'; readonly text: string }

/** How one process of the program ended. */
export interface RunEnd {
  readonly run: number
  readonly exitCode: number | null
  readonly signal: string | null
  readonly why: EndReason
  /** How long it had worked since the last capture. */
  readonly lostMs: number
  /** `lostMs` is a bound: nobody saw the end. */
  readonly isAtMost: boolean
}

export interface ExecResult {
  readonly timeline: string
  /** As a shell would say it: 128 and the signal, for one that died of a signal. */
  readonly exitCode: number
  readonly status: 'done' | 'failed' | 'interrupted'
  /** Every process that was started, and one that an earlier start left without a record of its end. */
  readonly runs: readonly RunEnd[]
  readonly captures: number
  readonly restored: Restored | null
  /** The sequence of the newest capture. */
  readonly capture: number | null
}
