// A circuit breaker: after so many failures in a row nothing more is started for a while, then one call is let through as
// a probe. If it succeeds all go on, if it fails the pause doubles. A call that says itself that trying again is of
// no use tells nothing about the service: it counts neither way, and if it was the probe, the next call is.

import { type Duration, toMs } from '../duration.ts'
import { RepriseError } from '../errors.ts'
import { checkOptions } from '../options.ts'

export interface BreakerPolicy {
  /** Failures in a row after which it opens; 5 if left out. */
  readonly failures?: number
  /** How long nothing is started; 30 seconds if left out. */
  readonly pause?: Duration
  /** It doubles with each failed probe, up to this; 10 minutes if left out. */
  readonly pauseMax?: Duration
}

export interface BreakerSettings {
  readonly failures: number
  readonly pauseMs: number
  readonly pauseMaxMs: number
}

const known = new Set(['failures', 'pause', 'pauseMax'])

/** True is a breaker with the usual settings, false none. */
export function resolveBreaker(policy: BreakerPolicy | boolean): BreakerSettings | null {
  if (policy === false) return null
  const given = policy === true ? {} : policy
  checkOptions('breaker', given, known, { maxPause: 'pauseMax' })
  const { failures = 5 } = given
  if (!(Number.isSafeInteger(failures) && failures >= 1)) {
    throw new RepriseError(
      'INVALID_ARGUMENT',
      `breaker.failures must be a whole number of at least 1 (got ${failures})`,
    )
  }
  return {
    failures,
    pauseMs: toMs(given.pause ?? '30s', 'breaker.pause'),
    pauseMaxMs: toMs(given.pauseMax ?? '10m', 'breaker.pauseMax'),
  }
}

export class Breaker {
  readonly #settings: BreakerSettings
  #inARow = 0
  #pauseMs: number
  #openUntil: number | null = null
  #probe: object | null = null

  constructor(settings: BreakerSettings) {
    this.#settings = settings
    this.#pauseMs = settings.pauseMs
  }

  get openUntil(): number | null {
    return this.#openUntil
  }

  /** 0: go. Otherwise: ask again after so many ms. */
  tryStart(now: number, task: object): number {
    if (this.#openUntil === null) return 0
    if (now < this.#openUntil) return this.#openUntil - now
    if (this.#probe !== null && this.#probe !== task) return 50
    this.#probe = task
    return 0
  }

  /** True: it was open and is closed now. Any success shows that the service is back, not only the probe's. */
  succeeded(): boolean {
    this.#inARow = 0
    this.#probe = null
    if (this.#openUntil === null) return false
    this.#openUntil = null
    this.#pauseMs = this.#settings.pauseMs
    return true
  }

  /** True: it opened just now, or stays open after a failed probe. `isSure`: this one is enough. */
  failed(now: number, task: object, isSure = false): boolean {
    this.#inARow += isSure ? this.#settings.failures : 1
    if (this.#openUntil !== null) {
      if (this.#probe !== task) return false
      this.#pauseMs = Math.min(this.#settings.pauseMaxMs, this.#pauseMs * 2)
    } else if (this.#inARow < this.#settings.failures) return false
    this.#probe = null
    this.#openUntil = now + this.#pauseMs
    return true
  }

  /** The task is no longer under way, for whatever reason: if it was the probe, another may be. */
  left(task: object): void {
    if (this.#probe === task) this.#probe = null
  }
}
