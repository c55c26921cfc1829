// Limits the number of concurrent requests and the duration of each. A slot is released when the work ends, even if its
// client already received TIMEOUT. Clients that wait for an unavailable store receive OUTCOME_UNKNOWN well before the time
// limit.

import { RepriseError } from '../core/errors.ts'
import type { Clock } from '../core/store/ports.ts'
import type { Events } from '../engine/base/events.ts'
import type { ServerLimits } from './limits.ts'
import type { Route } from './route.ts'

/** A failed commit is retried within this time; without another retry by then, it has succeeded. */
const troubleMs = 15_000

/** Factor by which a long route may exceed the time limit of other routes. */
export const longTimes = 10

interface Waiting {
  readonly since: number
  readonly allowedMs: number
  readonly route: Route
  reject(error: RepriseError): void
}

export class RequestSlots {
  readonly #limits: ServerLimits
  readonly #clock: Clock
  readonly #offs: (() => void)[]
  readonly #waiting = new Set<Waiting>()
  readonly #ends = new Set<() => void>()
  /** Open streams by token. */
  readonly #streams = new Map<string, number>()
  /** On the monotonic clock: the time of the first and of the last failed commit. */
  #trouble: { readonly since: number; last: number } | null = null
  #cancelLook: (() => void) | null = null
  #watched: { readonly until: number; readonly cancel: () => void } | null = null
  #onIdle: (() => void) | null = null
  #busy = 0
  #uploads = 0
  #isClosing = false

  constructor(limits: ServerLimits, clock: Clock, events: Events) {
    this.#limits = limits
    this.#clock = clock
    this.#offs = [
      events.on('committed', () => {
        this.#trouble = null
      }),
      events.on('store-retry', () => this.#failed()),
    ]
  }

  /** Holds a slot during the work; resolves with its result, or rejects when the client should no longer wait. */
  work<T>(route: Route, act: () => Promise<T>): Promise<T> {
    if (this.#isClosing && !route.isProbe) throw closing()
    if (route.isProbe) return act()
    const { concurrency, requestMs } = this.#limits
    if (this.#busy >= concurrency)
      throw new RepriseError('OVERLOADED', `too many concurrent requests (limit ${concurrency})`)
    // The duration of an upload depends on its client: half of the slots are reserved for other requests.
    const uploadsMax = Math.max(1, concurrency >> 1)
    if (route.takesStream && this.#uploads >= uploadsMax) {
      throw new RepriseError('OVERLOADED', `too many concurrent uploads (limit ${uploadsMax})`)
    }
    this.#busy += 1
    if (route.takesStream) this.#uploads += 1
    return this.#inTime(route, act(), requestMs * (route.isLong ? longTimes : 1))
  }

  /**
   * Holds a slot while a stream is open. `end` is called when the server closes; the returned function releases the slot. One
   * token holds at most half of the slots, so that it cannot lock out the others.
   */
  stream(token: string, end: () => void): () => void {
    if (this.#isClosing) throw closing()
    const { streams } = this.#limits
    if (this.#ends.size >= streams)
      throw new RepriseError('OVERLOADED', `too many clients follow the feed (limit ${streams})`)
    const ownMax = Math.max(1, streams >> 1)
    const own = this.#streams.get(token) ?? 0
    if (own >= ownMax)
      throw new RepriseError('OVERLOADED', `too many clients of this token follow the feed (limit ${ownMax})`)
    const held = () => end()
    this.#ends.add(held)
    this.#streams.set(token, own + 1)
    return () => {
      if (!this.#ends.delete(held)) return
      const left = this.#streams.get(token)! - 1
      if (left === 0) this.#streams.delete(token)
      else this.#streams.set(token, left)
    }
  }

  get streams(): number {
    return this.#ends.size
  }

  get isClosing(): boolean {
    return this.#isClosing
  }

  /** Accepts no new work, ends the streams, and waits up to `closeMs` for the work in progress. */
  async close(): Promise<void> {
    this.#isClosing = true
    for (const end of [...this.#ends]) end()
    if (this.#busy > 0) {
      let cancel = () => {}
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve
        cancel = this.#clock.after(this.#limits.closeMs, resolve, true)
      })
      cancel()
    }
    this.#cancelLook?.()
    this.#watched?.cancel()
    for (const off of this.#offs) off()
  }

  #inTime<T>(route: Route, work: Promise<T>, allowedMs: number): Promise<T> {
    return new Promise((resolve, reject) => {
      const since = this.#clock.elapsed()
      const waiting: Waiting = { since, allowedMs, route, reject: reject }
      this.#waiting.add(waiting)
      this.#watch(since + allowedMs)
      // The slot is released when the work ends, even if its client stopped waiting.
      const over = () => {
        this.#waiting.delete(waiting)
        this.#busy -= 1
        if (route.takesStream) this.#uploads -= 1
        if (this.#busy === 0) this.#onIdle?.()
      }
      work.then(
        (value) => {
          over()
          resolve(value)
        },
        (error) => {
          over()
          reject(error)
        },
      )
    })
  }

  /** One timer for all waiting requests, set for the earliest deadline: most are answered long before. */
  #watch(until: number): void {
    if (this.#watched && this.#watched.until <= until) return
    this.#watched?.cancel()
    const cancel = this.#clock.after(Math.max(0, until - this.#clock.elapsed()), () => this.#late())
    this.#watched = { until, cancel }
  }

  #late(): void {
    this.#watched = null
    const now = this.#clock.elapsed()
    let next = Number.POSITIVE_INFINITY
    for (const waiting of this.#waiting) {
      const { since, allowedMs, route, reject } = waiting
      const until = since + allowedMs
      if (until > now) {
        next = Math.min(next, until)
        continue
      }
      this.#waiting.delete(waiting)
      reject(new RepriseError('TIMEOUT', `${route.id} took longer than ${allowedMs} ms; it may still complete`))
    }
    if (next < Number.POSITIVE_INFINITY) this.#watch(next)
  }

  #failed(): void {
    const now = this.#clock.elapsed()
    if (this.#trouble) this.#trouble.last = now
    else this.#trouble = { since: now, last: now }
    this.#cancelLook ??= this.#clock.after(this.#limits.storeMs, () => this.#look())
  }

  /** Rejects the requests that have waited longer than `storeMs` for an unavailable store. */
  #look(): void {
    this.#cancelLook = null
    const now = this.#clock.elapsed()
    if (!this.#trouble || now - this.#trouble.last > troubleMs) {
      this.#trouble = null
      return
    }
    const { storeMs } = this.#limits
    for (const { since, route, reject } of [...this.#waiting]) {
      if (now - Math.max(since, this.#trouble.since) < storeMs) continue
      const what = `the store does not answer; the outcome of ${route.id} is unknown: repeat the request with the same Idempotency-Key`
      reject(new RepriseError('OUTCOME_UNKNOWN', what))
    }
    this.#cancelLook = this.#clock.after(Math.min(storeMs, 500), () => this.#look())
  }
}

function closing(): RepriseError {
  return new RepriseError('CLOSED', 'this server is closing: try again')
}
