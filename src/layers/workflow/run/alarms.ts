// The clock of one run: at what time it wants to go on, and with what. One timer for the nearest of them. An alarm does
// not ring by itself: mail that was durable before it comes first (mail.ts).

import type { Alarm } from '../../../core/history/order-of-facts.ts'
import type { Clock } from '../../../core/store/ports.ts'

export interface SetAlarm extends Alarm {
  readonly id: string
  /** Gives what has to be durable before anything later counts. */
  readonly ring: () => Promise<unknown> | undefined
}

/** The store's clock says that it is too early: not at once again. */
const againMs = 1

export class Alarms {
  readonly #clock: Clock
  readonly #now: () => number
  readonly #onDue: () => void
  /** None for most runs, and there are many. */
  #alarms: Map<string, SetAlarm> | null = null
  #cancel: (() => void) | null = null
  #armedFor = Number.POSITIVE_INFINITY
  #heldSince: number | null = null

  /** `now` is database time, in which alarms are set, as far as it is known; `onDue` is told that one may be due. */
  constructor(clock: Clock, now: () => number, onDue: () => void) {
    this.#clock = clock
    this.#now = now
    this.#onDue = onDue
  }

  /** A deadline: something becomes a fact when it passes. */
  set(id: string, at: number, ring: () => Promise<unknown> | undefined): void {
    this.#put({ id, at, ring, isPassing: false })
  }

  /** A time to go on with something: it waits for no mail that waits. */
  setPassing(id: string, at: number, ring: () => Promise<unknown> | undefined): void {
    this.#put({ id, at, ring, isPassing: true })
  }

  delete(id: string): void {
    this.#alarms?.delete(id)
  }

  has(id: string): boolean {
    return this.#alarms?.has(id) ?? false
  }

  all(): readonly SetAlarm[] {
    return this.#alarms ? [...this.#alarms.values()] : []
  }

  /** When the nearest rings; null if there is none. */
  nearest(): number | null {
    if (!this.#alarms) return null
    let nearest = Number.POSITIVE_INFINITY
    for (const { at } of this.#alarms.values()) if (at < nearest) nearest = at
    return nearest === Number.POSITIVE_INFINITY ? null : nearest
  }

  ring(alarm: SetAlarm): Promise<unknown> | undefined {
    if (this.#alarms?.get(alarm.id) !== alarm) return undefined
    this.#alarms.delete(alarm.id)
    return alarm.ring()
  }

  /** Mail was read, and the store's clock showed `now`. Alarms from `heldSince` on wait for mail that waits. */
  wasRead(now: number, heldSince: number | null): void {
    this.#heldSince = heldSince
    this.#cancel?.()
    this.#cancel = null
    this.#armedFor = Number.POSITIVE_INFINITY
    this.#arm(now, againMs)
  }

  clear(): void {
    this.#alarms = null
    this.#heldSince = null
    this.#cancel?.()
    this.#cancel = null
    this.#armedFor = Number.POSITIVE_INFINITY
  }

  #put(alarm: SetAlarm): void {
    this.#alarms ??= new Map()
    this.#alarms.set(alarm.id, alarm)
    this.#arm(this.#now(), 0)
  }

  #arm(now: number, leastMs: number): void {
    let nearest = this.#armedFor
    for (const { at, isPassing } of this.#alarms?.values() ?? []) {
      const isHeld = !isPassing && this.#heldSince !== null && at > this.#heldSince
      if (!isHeld && at < nearest) nearest = at
    }
    if (nearest >= this.#armedFor) return
    this.#cancel?.()
    this.#armedFor = nearest
    this.#cancel = this.#clock.after(Math.max(leastMs, nearest - now), () => {
      this.#cancel = null
      this.#armedFor = Number.POSITIVE_INFINITY
      this.#onDue()
    })
  }
}
