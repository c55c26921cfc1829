// Which object is worked on next. Keys that wait are there once, however often they are added; a key is never worked on twice at
// the same time; one that is added while it is worked on comes again afterwards. After a failure a key rests until its pause is
// over, unless something urgent has happened to it. Pure: it is told the time, and says when to ask again.

import { assert } from '../../../core/assert.ts'
import { TimeQueue } from '../../../core/time-queue.ts'

/** Bugs that a test plants to see that its alarms ring. Never set elsewhere. */
export type PlantedQueueBug = 'forget-added-while-running' | 'run-twice-at-once' | 'ignore-pause' | 'later-wins'

interface Waiting {
  readonly at: number
  /** After a failure: what is not urgent waits as well. */
  readonly isPause: boolean
}

export class WorkQueue {
  readonly #concurrency: number
  readonly #planted: ReadonlySet<string>
  /** In the order in which they came. */
  readonly #ready = new Set<string>()
  readonly #waiting = new Map<string, Waiting>()
  /** Of those that wait; entries that no longer hold are passed over. */
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

  /** Ready, waiting for a time, or being worked on. */
  get size(): number {
    return this.#ready.size + this.#waiting.size + this.#running.size
  }

  /** The same without what only waits for its time: what failed counts. */
  get pending(): number {
    let pauses = 0
    for (const { isPause } of this.#waiting.values()) if (isPause) pauses += 1
    return this.#ready.size + this.#running.size + pauses
  }

  /** Something happened to it. Urgent: also if it rests after a failure. */
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

  /** To be worked on at this time at the latest. */
  addAt(key: string, at: number): void {
    if (this.#running.has(key) || this.#ready.has(key)) return
    const waiting = this.#waiting.get(key)
    if (waiting && !this.#planted.has('later-wins') && (waiting.isPause || waiting.at <= at)) return
    this.#wait(key, { at, isPause: false })
  }

  /** What to work on now; null: nothing, or enough is being worked on. */
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

  /** It could not be started after all. */
  putBack(key: string): void {
    const was = this.#running.get(key)
    assert(was !== undefined, 'only what was given out is put back')
    this.#running.delete(key)
    this.#ready.add(key)
  }

  /** It was worked on. `againAt`: it is to come again then; `isPause`: because it failed. */
  done(key: string, againAt: number | null, isPause = false): void {
    const was = this.#running.get(key)
    assert(was !== undefined, 'only what was given out is done')
    this.#running.delete(key)
    if (was === 'urgent' || (was === 'added' && !isPause)) this.#ready.add(key)
    else if (againAt !== null) this.#wait(key, { at: againAt, isPause })
    else if (was === 'added') this.#ready.add(key)
  }

  /** When something that waits is ready; Infinity: nothing waits. */
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
