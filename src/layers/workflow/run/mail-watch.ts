// Checks for mail of the runs in memory. Waiting runs are checked at once when the store notifies; executing runs less
// often, because most of them end before they receive mail. A sender in this process notifies the run directly.

import type { TimelineId } from '../../../core/coordinate.ts'
import { headsInReach } from '../../../core/store/shard-set.ts'
import type { Kernel } from '../../../engine/storage/kernel.ts'
import type { Calls } from './calls.ts'
import type { Mail } from './mail.ts'

/** The parts of a run in memory that mail checks use. */
export interface WatchedRun {
  readonly open: { readonly id: TimelineId }
  readonly residency: { readonly work: { readonly isIdle: boolean } }
  readonly mail: Pick<Mail, 'readSoon'> & { lookedAt: number }
  /** The intent of slow calls is recorded at every check. */
  readonly calls: Pick<Calls, 'noteSlow'>
}

const lookMs = 100
const busyMs = 500
/** The number of runs per check, least recently checked first, so that the cost does not grow with the number of runs. */
const atOnce = 50
/** The interval without a notification of the store: a notification may be lost. */
const silentMs = 1000

export class MailWatch {
  readonly #kernel: Kernel
  readonly #live: ReadonlyMap<string, WatchedRun>
  readonly #onProblem: (error: unknown) => void
  #unlisten: (() => void) | null = null
  #cancel: (() => void) | null = null
  readonly #asking: { timeline: TimelineId; resolve(has: boolean): void; reject(error: unknown): void }[] = []
  #heardAt = Number.NEGATIVE_INFINITY
  #isClosed = false

  constructor(kernel: Kernel, live: ReadonlyMap<string, WatchedRun>, onProblem: (error: unknown) => void) {
    this.#kernel = kernel
    this.#live = live
    this.#onProblem = onProblem
  }

  /** Whether the run has mail now. Concurrent calls share one read. */
  hasMail(timeline: TimelineId): Promise<boolean> {
    return new Promise((resolve, reject) => {
      this.#asking.push({ timeline, resolve, reject })
      if (this.#asking.length === 1) this.#kernel.clock.soon(() => void this.#answer())
    })
  }

  async #answer(): Promise<void> {
    const asking = this.#asking.splice(0)
    try {
      const heads = await headsInReach(
        this.#kernel.store,
        asking.map(({ timeline }) => timeline),
      )
      for (const [i, { resolve }] of asking.entries()) resolve((heads[i]?.mail ?? 0) > 0)
    } catch (error) {
      for (const { reject } of asking) reject(error)
    }
  }

  /** Called when there are runs in memory. */
  start(): void {
    const { store, clock } = this.#kernel
    if (this.#isClosed || this.#cancel) return
    this.#unlisten ??= store.listen((mayBeDue = true) => {
      if (mayBeDue) this.#heardAt = clock.elapsed()
    })
    this.#cancel = clock.after(lookMs, () => {
      this.#cancel = null
      if (this.#isClosed || this.#live.size === 0) return
      void this.#look().catch(this.#onProblem)
      this.start()
    })
  }

  close(): void {
    this.#isClosed = true
    this.#unlisten?.()
    this.#cancel?.()
  }

  async #look(): Promise<void> {
    const { store, clock } = this.#kernel
    const now = clock.elapsed()
    const due: WatchedRun[] = []
    for (const instance of this.#live.values()) {
      instance.calls.noteSlow()
      if (this.#isDue(instance, now)) due.push(instance)
    }
    if (due.length === 0) return
    if (due.length > atOnce) due.sort((a, b) => a.mail.lookedAt - b.mail.lookedAt)
    const looked = due.slice(0, atOnce)
    for (const { mail } of looked) mail.lookedAt = now
    const ids = looked.map(({ open }) => open.id)
    // An unavailable part of the store does not stop the others.
    for (const head of await headsInReach(store, ids)) {
      if (head && head.mail > 0) this.#live.get(head.timeline)?.mail.readSoon()
    }
  }

  #isDue({ mail, residency }: WatchedRun, now: number): boolean {
    const sinceMs = now - mail.lookedAt
    if (sinceMs >= silentMs) return true
    return this.#heardAt >= mail.lookedAt && (residency.work.isIdle || sinceMs >= busyMs)
  }
}
