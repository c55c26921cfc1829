// The parts of a run that every command uses: the state, the execution that delivers its outcome, the clock, and the
// record of outcomes. Each kind of command adds its own parts.

import type { RepriseError } from '../../../core/errors.ts'
import type { CommitExtras } from '../../../engine/writing/writer.ts'
import type { RunState } from '../history/state.ts'
import type { Alarms } from './alarms.ts'
import type { Command } from './command.ts'
import type { Execution } from './execution.ts'
import type { Working } from './work-count.ts'

export interface CommandRun {
  /** The id that the user chose for the run. */
  readonly id: string
  readonly state: RunState
  readonly code: CommandCode
  readonly alarms: Alarms
  readonly recorder: {
    /** Writes one entry. Once it is durable, the promise resolves and the entry is delivered to the code. */
    record(type: string, data: unknown, extras?: CommitExtras): Promise<void>
  }
  readonly tenure: {
    /** This process is releasing the run: outcomes of its calls no longer count. */
    readonly isLeaving: boolean
  }
  readonly kernel: {
    readonly random: {
      /** From 0 up to 1, for pauses between attempts. */
      number(): number
    }
  }
  /** Database time. */
  now(): number
  /** Starts work on behalf of the run, which stays in memory until the work is done. */
  spawn(work: () => Working): void
}

/** The code of a run, as its commands see it. */
export interface CommandCode {
  readonly execution: Execution
  /** The idempotency key of a command. `state` is the state of the run that made the command. Default: this run's state. */
  keyOf(command: Command, state?: RunState): string
  /** The error that code receives for a cancelled command. */
  cancelError(): RepriseError
}
