// The dispatcher claims due timelines (a wakeup reached, or mail) in the queues that this process serves, and passes
// each to its handler under a new epoch. It sleeps until the store notifies, a known wakeup comes, or the poll is due,
// so an idle worker costs next to nothing. Dead workers of this host are retired at once, so that their timelines
// become due, too.

import { assert } from '../../core/assert.ts'
import type { TimelineId, WorkerId } from '../../core/coordinate.ts'
import { isPassingStoreFailure, isReprise } from '../../core/errors.ts'
import { growingPause } from '../../core/retry/pause.ts'
import { epochGuardOf, guardOf } from '../../core/store/commit-guard.ts'
import type { Guard, Head } from '../../core/store/ports.ts'
import { type Kernel, releaseLeft } from '../storage/kernel.ts'
import { soundHeads } from '../storage/sound-page.ts'
import { Wakeups } from './wakeups.ts'

/**
 * Executes one claimed timeline and releases it (or keeps it open). A thrown error is reported, and the timeline stays due: it is
 * released, and this process claims it again after a delay that doubles with each failure.
 */
export type Handler = (head: Head) => Promise<void>

export interface ServeOptions {
  /** How many timelines of this queue run at once. Default: 100. */
  readonly concurrency?: number
}

/** Shared by the dispatchers of a process: the next session releases the timelines that an ended one could not. */
export interface Strays {
  /** This process may own timelines without working on them. */
  mayExist: boolean
  /** Timelines whose release failed: this process may still own them. */
  readonly known: Set<TimelineId>
}

interface Served {
  readonly handler: Handler
  readonly concurrency: number
  active: number
}

/** Together with the heartbeat, an idle worker sends fewer than two requests per second to the store. */
const pollMs = 1200
const claimAtOnce = 200
/** Notifications of the store are handled at most this often. */
const heedMs = 10
/** The delay before a timeline is claimed again whose handler failed: doubled with each failure in a row, up to the maximum. */
const failedMs = 500
const failedMaxMs = 60_000

export class Dispatcher {
  readonly #kernel: Kernel
  readonly #queues = new Map<string, Served>()
  readonly #isHeld: (timeline: TimelineId) => boolean
  readonly #inHand = new Set<TimelineId>()
  #unlisten: (() => void) | null = null
  #cancelTimer: (() => void) | null = null
  #timerAt = Number.POSITIVE_INFINITY
  #isClaiming = false
  #mayHaveLost = false
  /** Owned by this process, not running, and about to be released. */
  readonly #releasing = new Set<TimelineId>()
  readonly #strays: Strays
  /** Timelines whose handler failed: not claimed by this process before `until` (its own clock). */
  readonly #failed = new Map<TimelineId, { readonly failures: number; readonly until: number }>()
  #wantsAnother = false
  #isStopped = false
  #isPaused = false
  #hasClaimed = false
  #hasSucceeded = false
  #failure: unknown = null
  /** Created by this process and executed without a claim. */
  readonly #begun = new Set<string>()
  #claiming: Promise<void> = Promise.resolve()
  #executed = 0
  #lastRetireAt = Number.NEGATIVE_INFINITY
  readonly #wakeups = new Wakeups()
  /** Database time. */
  #lookedAt = 0
  #lastClaimAt = Number.NEGATIVE_INFINITY
  #idle: (() => void)[] = []

  /** `isHeld`: open in this process for another reason than a claim of this dispatcher. */
  constructor(kernel: Kernel, isHeld: (timeline: TimelineId) => boolean, strays: Strays) {
    this.#kernel = kernel
    this.#isHeld = isHeld
    this.#strays = strays
  }

  serve(queue: string, handler: Handler, options: ServeOptions = {}): void {
    this.#queues.set(queue, { handler, concurrency: options.concurrency ?? 100, active: 0 })
    this.#kernel.worker.describe(`queue ${queue}`, options.concurrency ?? 100)
    this.#unlisten ??= this.#kernel.store.listen((mayBeDue = true) => mayBeDue && this.#onNotification())
    this.wake()
  }

  /** The store notifies after every commit, our own included: one claim handles many notifications. */
  #onNotification(): void {
    const sinceMs = this.#kernel.clock.elapsed() - this.#lastClaimAt
    if (sinceMs >= heedMs) this.wake()
    else this.#sleepUntil(this.#kernel.worker.now() + heedMs - sinceMs)
  }

  /** Claimed by this dispatcher, and not released yet. */
  has(timeline: TimelineId): boolean {
    return this.#inHand.has(timeline) || this.#releasing.has(timeline)
  }

  /** The number of timelines that were executed until they ended or waited. */
  get executed(): number {
    return this.#executed
  }

  /** The error of the last claim. Null: it succeeded, or there was none yet. */
  get failure(): unknown {
    return this.#failure
  }

  /** At least one claim was answered. */
  get hasSucceeded(): boolean {
    return this.#hasSucceeded
  }

  /** This process created the timeline and executes it without a claim. */
  began(timeline: string): void {
    this.#begun.add(timeline)
  }

  /** A timeline of `began` ended or waits, or (not `isDone`) was lost. Others are ignored. */
  ended(timeline: string, isDone: boolean): void {
    if (this.#begun.delete(timeline) && isDone) this.#executed += 1
  }

  /** The first claim has not been answered yet. */
  get isBeginning(): boolean {
    return this.#queues.size > 0 && !this.#hasClaimed && !this.#isPaused
  }

  /** The names of the queues that this process serves. */
  get queues(): readonly string[] {
    return [...this.#queues.keys()]
  }

  /** Claims nothing more. The running timelines continue. */
  async pause(): Promise<void> {
    this.#isPaused = true
    await this.#claiming
  }

  /** The running timelines. */
  get inHand(): string[] {
    return [...this.#inHand, ...this.#begun]
  }

  /** A timeline may be due now. */
  wake(): void {
    if (this.#isStopped || this.#isPaused) return
    if (this.#isClaiming) {
      this.#wantsAnother = true
      return
    }
    this.#isClaiming = true
    this.#claiming = this.#claim()
      .then(() => {
        this.#hasSucceeded = true
        this.#failure = null
      })
      .catch((error) => {
        this.#failure = error
        this.#strays.mayExist ||= this.#mayHaveLost
        this.#kernel.events.emit('problem', { where: 'dispatcher', error })
      })
      .finally(() => {
        this.#isClaiming = false
        this.#hasClaimed = true
        if (this.#wantsAnother) {
          this.#wantsAnother = false
          this.wake()
        } else if (!this.#isPaused)
          this.#sleepUntil(this.#wakeups.next(this.#lookedAt, this.#kernel.worker.now() + pollMs))
      })
  }

  /** A timeline was released with this wakeup, by the clock of its database: claims again then, not only at the next poll. */
  expect(wakeup: number, timeline: string): void {
    const { worker } = this.#kernel
    this.#sleepUntil(this.#wakeups.add(wakeup - (worker.now(timeline) - worker.now())))
  }

  /** Stops claiming, and waits for the running timelines. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#unlisten?.()
    this.#cancelTimer?.()
    if (this.#inHand.size > 0) await new Promise<void>((resolve) => this.#idle.push(resolve))
  }

  async #claim(): Promise<void> {
    const { store, worker } = this.#kernel
    const free = [...this.#queues].filter(([, served]) => served.active < served.concurrency)
    if (free.length === 0) return
    await this.#retireGone()
    const id = await worker.register()
    if (this.#mayHaveLost || this.#strays.mayExist) await this.#findLost(id)
    if (this.#strays.known.size > 0) await this.#releaseKnown(id)
    this.#lastClaimAt = this.#kernel.clock.elapsed()
    this.#lookedAt = worker.now()
    for (const { queues, limit } of this.#requests(free)) {
      if (limit <= 0) continue
      this.#mayHaveLost = !this.#kernel.planted.has('claim-answer-forgotten')
      const heads = await store.claim({ worker: id, queues, limit, except: [...this.#inHand, ...this.#postponed()] })
      this.#mayHaveLost = store.shards?.hasLostClaims() ?? false
      for (const head of heads) {
        assert(!this.#inHand.has(head.timeline), 'a timeline in progress is not claimed a second time')
        const served = head.queue === null ? undefined : this.#queues.get(head.queue)
        // A process suspended between the claim and its answer may be declared dead: another owner then has a newer
        // epoch.
        if (!served || head.owner !== id) continue
        if (this.#isPaused) void this.#giveBack(guardOf(head))
        else void this.#execute(served, head)
      }
      if (heads.length === limit) this.#wantsAnother = true
    }
  }

  /** One request for all queues with room for a full claim; one request for each of the others. */
  #requests(free: readonly [string, Served][]): { readonly queues: string[]; readonly limit: number }[] {
    const roomOf = (served: Served) => served.concurrency - served.active
    const wide = free.filter(([, served]) => roomOf(served) >= claimAtOnce).map(([queue]) => queue)
    const narrow = free.filter(([, served]) => roomOf(served) < claimAtOnce)
    const single = narrow.map(([queue, served]) => ({ queues: [queue], limit: roomOf(served) }))
    return wide.length > 0 ? [{ queues: wide, limit: claimAtOnce }, ...single] : single
  }

  /** The answer to a claim was lost: this process owns timelines without working on them. Releases them to be claimed again. */
  async #findLost(worker: WorkerId): Promise<void> {
    const { store } = this.#kernel
    const hadStrays = this.#strays.mayExist
    this.#strays.mayExist = false
    try {
      for (const queue of this.#queues.keys()) {
        // An unreadable timeline is not released; the store's lists report it.
        for await (const head of soundHeads(this.#kernel, { owner: worker, queue, limit: 1000 }, () => undefined)) {
          const { timeline } = head
          if (this.#inHand.has(timeline) || this.#isHeld(timeline) || this.#releasing.has(timeline)) continue
          void this.#giveBack(guardOf(head))
        }
      }
    } catch (error) {
      this.#strays.mayExist ||= hadStrays
      throw error
    }
    this.#mayHaveLost = store.shards?.hasLostClaims() ?? false
  }

  /** A timeline that is open again is released when it is closed. */
  async #releaseKnown(worker: WorkerId): Promise<void> {
    const { known } = this.#strays
    const left = [...known].filter((timeline) => !this.#inHand.has(timeline) && !this.#releasing.has(timeline))
    const free = left.filter((timeline) => !this.#isHeld(timeline))
    const heads = free.length > 0 ? await this.#kernel.store.head(free) : []
    for (const timeline of left) known.delete(timeline)
    for (const head of heads) {
      if (head?.owner === worker && !this.#isHeld(head.timeline)) void this.#giveBack(epochGuardOf(head))
    }
  }

  /** A claim does not wait for it: its database may be unreachable just now, and the others have work to do. */
  async #giveBack(guard: Guard): Promise<void> {
    this.#releasing.add(guard.timeline)
    const isReleased = await releaseLeft(this.#kernel, guard)
    this.#releasing.delete(guard.timeline)
    // Otherwise the next poll repeats it.
    if (isReleased) this.wake()
  }

  /** The handler failed. Another process may succeed, so the timeline is released; this process waits longer each time. */
  #postpone(head: Head): void {
    const { clock, worker } = this.#kernel
    const { timeline } = head
    const failures = (this.#failed.get(timeline)?.failures ?? 0) + 1
    const delayMs = growingPause(failures, failedMs, failedMaxMs)
    this.#failed.set(timeline, { failures, until: clock.elapsed() + delayMs })
    this.#sleepUntil(this.#wakeups.add(worker.now() + delayMs))
    // The handler may have written to it, or have left it open.
    if (this.#isHeld(timeline)) return
    if (this.#isStopped) this.#strays.mayExist = true
    else void this.#giveBack(epochGuardOf(head))
  }

  /** The timelines that this process does not claim yet. */
  *#postponed(): Generator<TimelineId> {
    const now = this.#kernel.clock.elapsed()
    for (const [timeline, { until }] of this.#failed) {
      if (now < until) yield timeline
      // By now another process has it, or it is no longer due.
      else if (now > until + failedMaxMs) this.#failed.delete(timeline)
    }
  }

  async #execute(served: Served, head: Head): Promise<void> {
    served.active += 1
    this.#inHand.add(head.timeline)
    this.#kernel.failures.taken(head.timeline)
    let hasFailed = false
    try {
      await served.handler(head)
      this.#executed += 1
      this.#failed.delete(head.timeline)
    } catch (error) {
      if (this.#isPaused && isReprise(error, 'CLOSED')) {
        // The session ended before the handler had opened the timeline.
        if (!this.#isHeld(head.timeline)) await this.#giveBack(epochGuardOf(head))
        return
      }
      void this.#kernel.failures.failed(head.timeline, error)
      this.#kernel.events.emit('problem', { where: head.timeline, error })
      // The store failed before the handler opened the timeline: this process owns it without working on it.
      if (isPassingStoreFailure(error)) this.#strays.mayExist = true
      else hasFailed = true
    } finally {
      served.active -= 1
      this.#inHand.delete(head.timeline)
      if (hasFailed) this.#postpone(head)
      if (this.#inHand.size === 0) for (const resolve of this.#idle.splice(0)) resolve()
      this.wake()
    }
  }

  async #retireGone(): Promise<void> {
    const { deadWorkers, clock } = this.#kernel
    if (clock.elapsed() - this.#lastRetireAt < pollMs) return
    this.#lastRetireAt = clock.elapsed()
    await deadWorkers.retireGone()
  }

  #sleepUntil(at: number): void {
    if (this.#isStopped || at >= this.#timerAt) return
    this.#cancelTimer?.()
    this.#timerAt = at
    this.#cancelTimer = this.#kernel.clock.after(Math.max(0, at - this.#kernel.worker.now()), () => {
      this.#timerAt = Number.POSITIVE_INFINITY
      this.wake()
    })
  }
}
