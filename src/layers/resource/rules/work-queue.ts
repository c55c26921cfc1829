// Decides which key is worked on next. A waiting key is queued once, however often it is added; a key is never worked on
// twice at the same time; a key added during its work is queued again afterwards. After a failure a key rests until its pause
// is over, unless an urgent change arrives. Pure: the caller passes the time and reads `dueAt` to schedule the next call.

import { assert } from '../../../core/assert.ts'
import { TimeQueue } from '../../../core/time-queue.ts'

/** Bugs that a test plants to check that it detects them. Never set elsewhere. */
export type PlantedQueueBug = 'forget-added-while-running' | 'run-twice-at-once' | 'ignore-pause' | 'later-wins'

interface Waiting {
  readonly at: number
  /** The wait follows a failure: changes that are not urgent wait as well. */
  readonly isPause: boolean
}

export class WorkQueue {
  readonly #concurrency: number
  readonly #planted: ReadonlySet<string>
  /** In order of arrival. */
  readonly #ready = new Set<string>()
  readonly #waiting = new Map<string, Waiting>()
  /** Times of the waiting keys; outdated entries are skipped. */
  readonly #times = new TimeQueue<string>()
  readonly #running = new Map<string, 'clean' | 'added' | 'urgent'>()

  constructor(concurrency: number, planted: ReadonlySet<string> = new Set()) {
    assert(concurrency >= 1, 'something must be allowed to run')
    this.#concurrency = concurrency
    this.#planted = planted
  }

  get running(): number {
    return this.#running.size
  }

  /** Number of keys that are ready, waiting for a time, or being worked on. */
  get size(): number {
    return this.#ready.size + this.#waiting.size + this.#running.size
  }

  /** The same without keys that wait only for a scheduled time; keys paused after a failure count. */
  get pending(): number {
    let pauses = 0
    for (const { isPause } of this.#waiting.values()) if (isPause) pauses += 1
    return this.#ready.size + this.#running.size + pauses
  }

  /** The key has changed. Urgent: it is ready even during a pause after a failure. */
  add(key: string, isUrgent = false): void {
    const running = this.#running.get(key)
    if (running !== undefined && !this.#planted.has('run-twice-at-once')) {
      if (!this.#planted.has('forget-added-while-running')) {
        this.#running.set(key, isUrgent || running === 'urgent' ? 'urgent' : 'added')
      }
      return
    }
    const waiting = this.#waiting.get(key)
    if (waiting?.isPause && !isUrgent && !this.#planted.has('ignore-pause')) return
    this.#waiting.delete(key)
    this.#ready.add(key)
  }

  /** The key is worked on at this time at the latest. */
  addAt(key: string, at: number): void {
    if (this.#running.has(key) || this.#ready.has(key)) return
    const waiting = this.#waiting.get(key)
    if (waiting && !this.#planted.has('later-wins') && (waiting.isPause || waiting.at <= at)) return
    this.#wait(key, { at, isPause: false })
  }

  /** The next key to work on; null: none is ready, or `concurrency` keys are being worked on. */
  next(now: number): string | null {
    this.#wake(now)
    if (this.#running.size >= this.#concurrency) return null
    for (const key of this.#ready) {
      this.#ready.delete(key)
      this.#running.set(key, 'clean')
      return key
    }
    return null
  }

  /** The key could not be started after all. */
  putBack(key: string): void {
    const was = this.#running.get(key)
    assert(was !== undefined, 'only a key in progress is returned to the queue')
    this.#running.delete(key)
    this.#ready.add(key)
  }

  /** The work on a key has ended. `againAt`: the time to work on it again; `isPause`: because it failed. */
  done(key: string, againAt: number | null, isPause = false): void {
    const was = this.#running.get(key)
    assert(was !== undefined, 'only a key in progress is done')
    this.#running.delete(key)
    if (was === 'urgent' || (was === 'added' && !isPause)) this.#ready.add(key)
    else if (againAt !== null) this.#wait(key, { at: againAt, isPause })
    else if (was === 'added') this.#ready.add(key)
  }

  /** The time at which the next waiting key is ready; Infinity: no key waits. */
  get dueAt(): number {
    for (;;) {
      const at = this.#times.next
      if (at === Number.POSITIVE_INFINITY) return at
      const { items } = this.#times.take(at)!
      const held = [...items].filter((key) => this.#waiting.get(key)?.at === at)
      for (const key of held) this.#times.add(at, key)
      if (held.length > 0) return at
    }
  }

  #wait(key: string, waiting: Waiting): void {
    this.#waiting.set(key, waiting)
    this.#times.add(waiting.at, key)
  }

  #wake(now: number): void {
    for (let due = this.#times.take(now); due; due = this.#times.take(now)) {
      for (const key of due.items) {
        if (this.#waiting.get(key)?.at !== due.time) continue
        this.#waiting.delete(key)
        this.#ready.add(key)
      }
    }
  }
}
