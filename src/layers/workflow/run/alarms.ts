// The timer of one run: its alarms and their callbacks, with one platform timer for the nearest. An alarm does not fire
// by itself: mail that was durable before it is processed first (mail.ts).

import type { Alarm } from '../../../core/history/order-of-facts.ts'
import type { Clock } from '../../../core/store/ports.ts'

export interface SetAlarm extends Alarm {
  readonly id: string
  /** Returns a promise if an entry must be durable before later facts count. */
  readonly ring: () => Promise<unknown> | undefined
}

/** The delay before the next check if the store's clock shows that the alarm is not due yet. */
const againMs = 1

export class Alarms {
  readonly #clock: Clock
  readonly #now: () => number
  readonly #onDue: () => void
  /** Null until the first alarm is set: most runs have no alarms, and there are many runs. */
  #alarms: Map<string, SetAlarm> | null = null
  #cancel: (() => void) | null = null
  #armedFor = Number.POSITIVE_INFINITY
  #heldSince: number | null = null

  /**
   * `now` returns database time as far as it is known; alarms are set in database time. `onDue` is called when an alarm
   * may be due.
   */
  constructor(clock: Clock, now: () => number, onDue: () => void) {
    this.#clock = clock
    this.#now = now
    this.#onDue = onDue
  }

  /** A deadline, which becomes a fact when it passes. */
  set(id: string, at: number, ring: () => Promise<unknown> | undefined): void {
    this.#put({ id, at, ring, isPassing: false })
  }

  /** A time to resume internal work, such as a retry. It does not wait for deferred mail. */
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

  /** The time of the nearest alarm; null if there is none. */
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

  /** Called after mail was read; the store's clock showed `now`. Alarms after `heldSince` wait for the deferred mail. */
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
