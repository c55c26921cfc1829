// What a command may use of the run that asks for it: the state it is asked in, the execution that delivers its outcome,
// the clock it waits by, and the record of what came of it. Each kind of command adds what it alone needs.

import type { RepriseError } from '../../../core/errors.ts'
import type { CommitExtras } from '../../../engine/writing/writer.ts'
import type { RunState } from '../history/state.ts'
import type { Alarms } from './alarms.ts'
import type { Command } from './command.ts'
import type { Execution } from './execution.ts'
import type { Working } from './work.ts'

export interface CommandRun {
  /** The id that its user gave it. */
  readonly id: string
  readonly state: RunState
  readonly execution: Execution
  readonly alarms: Alarms
  /** This process lets go of the run: what comes of calls no longer counts. */
  readonly isLeaving: boolean
  /** Database time. */
  now(): number
  /** From 0 up to 1: for pauses between attempts. */
  chance(): number
  /** The idempotency key of a command; `state`: of the run that made it. Default: this run. */
  keyOf(command: Command, state?: RunState): string
  /** What code is told of a command that was cancelled. */
  cancelError(): RepriseError
  /** Work on behalf of the run: it stays in memory until that is done. */
  spawn(work: () => Working): void
  /** One entry, durable when it resolves; then it is delivered to the code. */
  record(type: string, data: unknown, along?: CommitExtras): Promise<void>
}
