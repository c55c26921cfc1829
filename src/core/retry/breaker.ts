// A circuit breaker: after a number of consecutive failures it starts no call for a pause, then one call as a probe. A
// successful probe closes the breaker, a failed one doubles the pause. A final error (`GiveUp`) shows nothing about the
// service: it counts neither as a success nor as a failure, and if the call was the probe, the next call becomes the probe.

import { type Duration, toMs } from '../duration.ts'
import { checkCount, checkOptions } from '../options.ts'

export interface BreakerPolicy {
  /** Consecutive failures after which the breaker opens. Default: 5. */
  readonly failures?: number
  /** How long the breaker stays open before the first probe. Default: 30 seconds. */
  readonly pause?: Duration
  /** Each failed probe doubles the pause, up to this limit. Default: 10 minutes. */
  readonly pauseMax?: Duration
}

export interface BreakerSettings {
  readonly failures: number
  readonly pauseMs: number
  readonly pauseMaxMs: number
}

const known = new Set(['failures', 'pause', 'pauseMax'])

/** `true` is a breaker with default settings, `false` disables it. */
export function resolveBreaker(policy: BreakerPolicy | boolean): BreakerSettings | null {
  if (policy === false) return null
  const given = policy === true ? {} : policy
  checkOptions('breaker', given, known, { maxPause: 'pauseMax' })
  const { failures = 5 } = given
  checkCount('breaker.failures', failures)
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

  /** 0: start the call. Otherwise: try again after this many ms. */
  tryStart(now: number, task: object): number {
    if (this.#openUntil === null) return 0
    if (now < this.#openUntil) return this.#openUntil - now
    if (this.#probe !== null && this.#probe !== task) return 50
    this.#probe = task
    return 0
  }

  /** True: the breaker was open and has just closed. Any success shows that the service is back, not only the probe's. */
  succeeded(): boolean {
    this.#inARow = 0
    this.#probe = null
    if (this.#openUntil === null) return false
    this.#openUntil = null
    this.#pauseMs = this.#settings.pauseMs
    return true
  }

  /** True: the breaker opened, or stays open after a failed probe. `isSure`: this failure alone opens it. */
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

  /** The task ended or was abandoned: if it was the probe, another task may become the probe. */
  left(task: object): void {
    if (this.#probe === task) this.#probe = null
  }
}
