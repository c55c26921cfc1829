// The options of `stop` of every run. A model adds its own, and never renames these.

import type { Duration } from '../../core/duration.ts'
import { checkOptions, namesOf } from '../../core/options.ts'

export interface StopOptions {
  /** The reason the run is stopped, for its history and for people. */
  readonly reason?: string
  /** How long work in flight may take to end before it is cut off. Default: the limit of the definition. */
  readonly timeout?: Duration
  /** Ends the wait for the end of the run; the run still stops. */
  readonly signal?: AbortSignal
}

const known = namesOf<StopOptions>()('reason timeout signal')

export function checkStop(options: StopOptions, more: readonly string[] = []): void {
  checkOptions('stop', options, new Set([...known, ...more]))
}
