// The clock of one run: at what time it wants to go on, and with what. One timer for the nearest of them.

import type { Clock } from '../../core/ports.ts'

interface Alarm {
  readonly at: number
  readonly ring: () => void
}

export class Alarms {
  readonly #clock: Clock
  readonly #now: () => number
  /** None for most runs, and there are many. */
  #alarms: Map<string, Alarm> | null = null
  #cancel: (() => void) | null = null
  #armedFor = Number.POSITIVE_INFINITY

  /** `now` is database time, in which alarms are set. */
  constructor(clock: Clock, now: () => number) {
    this.#clock = clock
    this.#now = now
  }

  set(id: string, at: number, ring: () => void): void {
    this.#alarms ??= new Map()
    this.#alarms.set(id, { at, ring })
    this.#arm()
  }

  delete(id: string): void {
    this.#alarms?.delete(id)
  }

  has(id: string): boolean {
    return this.#alarms?.has(id) ?? false
  }

  /** When the nearest rings; null if there is none. */
  nearest(): number | null {
    if (!this.#alarms) return null
    let nearest = Number.POSITIVE_INFINITY
    for (const { at } of this.#alarms.values()) if (at < nearest) nearest = at
    return nearest === Number.POSITIVE_INFINITY ? null : nearest
  }

  clear(): void {
    this.#alarms = null
    this.#cancel?.()
    this.#cancel = null
    this.#armedFor = Number.POSITIVE_INFINITY
  }

  #arm(): void {
    const nearest = this.nearest()
    if (nearest === null || nearest >= this.#armedFor) return
    this.#cancel?.()
    this.#armedFor = nearest
    this.#cancel = this.#clock.after(Math.max(0, nearest - this.#now()), () => this.#ring())
  }

  #ring(): void {
    this.#cancel = null
    this.#armedFor = Number.POSITIVE_INFINITY
    const now = this.#now()
    const due = [...(this.#alarms ?? [])].filter(([, alarm]) => alarm.at <= now).sort(([, a], [, b]) => a.at - b.at)
    for (const [id, alarm] of due) {
      if (this.#alarms?.get(id) !== alarm) continue
      this.#alarms?.delete(id)
      alarm.ring()
    }
    this.#arm()
  }
}
