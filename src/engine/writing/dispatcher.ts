// The dispatcher: claims timelines that are due (a wakeup reached, or mail) in the queues this process serves, and hands
// each to its handler with a fresh epoch. It sleeps until the store calls, a known wakeup comes, or the poll is due, so
// an idle worker costs next to nothing. Workers of this host that died are retired at once, so their timelines come too.

import { assert } from '../../core/assert.ts'
import type { TimelineId, WorkerId } from '../../core/coordinate.ts'
import { isPassingStoreFailure } from '../../core/errors.ts'
import { guardOf } from '../../core/store/guard.ts'
import type { Head } from '../../core/store/ports.ts'
import { type Kernel, newOperation } from '../storage/kernel.ts'
import { soundHeads } from '../storage/sound-page.ts'
import { Wakeups } from './wakeups.ts'

/** Executes one claimed timeline and lets go of it (or keeps it open). Throwing is reported and leaves it for later. */
export type Handler = (head: Head) => Promise<void>

export interface ServeOptions {
  /** How many of this queue at once; default 100. */
  readonly concurrency?: number
}

interface Served {
  readonly handler: Handler
  readonly concurrency: number
  active: number
}

/** With a heartbeat now and then, an idle worker asks the store less than twice a second. */
const pollMs = 1200
const claimAtOnce = 200
/** Calls of the store are heeded this often. */
const heedMs = 10

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
  /** Ours, not worked on, and about to be let go. */
  readonly #releasing = new Set<TimelineId>()
  #hasStrays = false
  #wantsAnother = false
  #isStopped = false
  #lastRetireAt = Number.NEGATIVE_INFINITY
  readonly #wakeups = new Wakeups()
  /** Database time. */
  #lookedAt = 0
  #lastClaimAt = Number.NEGATIVE_INFINITY
  #idle: (() => void)[] = []

  /** `isHeld`: open in this process for another reason than a claim. */
  constructor(kernel: Kernel, isHeld: (timeline: TimelineId) => boolean) {
    this.#kernel = kernel
    this.#isHeld = isHeld
  }

  serve(queue: string, handler: Handler, options: ServeOptions = {}): void {
    this.#queues.set(queue, { handler, concurrency: options.concurrency ?? 100, active: 0 })
    this.#kernel.worker.describe(`queue ${queue}`, options.concurrency ?? 100)
    this.#unlisten ??= this.#kernel.store.listen((mayBeDue = true) => mayBeDue && this.#heard())
    this.wake()
  }

  /** The store calls after every commit, our own as well: many calls of a moment are answered by one look. */
  #heard(): void {
    const sinceMs = this.#kernel.clock.elapsed() - this.#lastClaimAt
    if (sinceMs >= heedMs) this.wake()
    else this.#sleepUntil(this.#kernel.worker.now() + heedMs - sinceMs)
  }

  /** Something may be due now. */
  wake(): void {
    if (this.#isStopped) return
    if (this.#isClaiming) {
      this.#wantsAnother = true
      return
    }
    this.#isClaiming = true
    void this.#claim()
      .catch((error) => this.#kernel.events.emit('problem', { where: 'dispatcher', error }))
      .finally(() => {
        this.#isClaiming = false
        if (this.#wantsAnother) {
          this.#wantsAnother = false
          this.wake()
        } else this.#sleepUntil(this.#wakeups.next(this.#lookedAt, this.#kernel.worker.now() + pollMs))
      })
  }

  /** A timeline was let go with this wakeup, by the clock of its database: look again then, not only at the next poll. */
  expect(wakeup: number, timeline: string): void {
    const { worker } = this.#kernel
    this.#sleepUntil(this.#wakeups.add(wakeup - (worker.now(timeline) - worker.now())))
  }

  /** Stops claiming, and waits for what is in hand. */
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
    if (this.#mayHaveLost || this.#hasStrays) await this.#findLost(id)
    this.#lastClaimAt = this.#kernel.clock.elapsed()
    this.#lookedAt = worker.now()
    for (const { queues, limit } of this.#requests(free)) {
      if (limit <= 0) continue
      this.#mayHaveLost = !this.#kernel.planted.has('claim-answer-forgotten')
      const heads = await store.claim({ worker: id, queues, limit, except: [...this.#inHand] })
      this.#mayHaveLost = store.hasLostClaims?.() ?? false
      for (const head of heads) {
        assert(!this.#inHand.has(head.timeline), 'what is in hand is not claimed a second time')
        const served = head.queue === null ? undefined : this.#queues.get(head.queue)
        // Who stands still between the claim and its answer may be declared dead. Others then went on: the epoch is theirs.
        if (served && head.owner === id) void this.#execute(served, head)
      }
      if (heads.length === limit) this.#wantsAnother = true
    }
  }

  /** One request for all queues that have room for whatever it may give; the others are asked for one by one. */
  #requests(free: readonly [string, Served][]): { readonly queues: string[]; readonly limit: number }[] {
    const roomOf = (served: Served) => served.concurrency - served.active
    const wide = free.filter(([, served]) => roomOf(served) >= claimAtOnce).map(([queue]) => queue)
    const narrow = free.filter(([, served]) => roomOf(served) < claimAtOnce)
    const single = narrow.map(([queue, served]) => ({ queues: [queue], limit: roomOf(served) }))
    return wide.length > 0 ? [{ queues: wide, limit: claimAtOnce }, ...single] : single
  }

  /** The answer to a claim got lost: what it gave us is ours and nobody works on it. Let go, so that it is claimed again. */
  async #findLost(worker: WorkerId): Promise<void> {
    const { store, committer, random } = this.#kernel
    const hadStrays = this.#hasStrays
    this.#hasStrays = false
    try {
      for (const queue of this.#queues.keys()) {
        // One that cannot be read is nobody's to release; the store's lists name it.
        for await (const head of soundHeads(this.#kernel, { owner: worker, queue, limit: 1000 }, () => undefined)) {
          const { timeline } = head
          if (this.#inHand.has(timeline) || this.#isHeld(timeline) || this.#releasing.has(timeline)) continue
          // Not waited for: it may lie on a database that is away just now, and the others have work to do.
          this.#releasing.add(timeline)
          committer
            .submit({ operation: newOperation(random), guard: guardOf(head), release: true })
            .then(() => this.wake())
            .catch(() => {
              this.#hasStrays = true
            })
            .finally(() => this.#releasing.delete(timeline))
        }
      }
    } catch (error) {
      this.#hasStrays ||= hadStrays
      throw error
    }
    this.#mayHaveLost = store.hasLostClaims?.() ?? false
  }

  async #execute(served: Served, head: Head): Promise<void> {
    served.active += 1
    this.#inHand.add(head.timeline)
    this.#kernel.failures.taken(head.timeline)
    try {
      await served.handler(head)
    } catch (error) {
      void this.#kernel.failures.failed(head.timeline, error)
      this.#kernel.events.emit('problem', { where: head.timeline, error })
      // The store failed before the handler had it open: it is ours, and nobody works on it.
      if (isPassingStoreFailure(error)) this.#hasStrays = true
    } finally {
      served.active -= 1
      this.#inHand.delete(head.timeline)
      if (this.#inHand.size === 0) for (const resolve of this.#idle.splice(0)) resolve()
      this.wake()
    }
  }

  async #retireGone(): Promise<void> {
    const { worker, clock } = this.#kernel
    if (clock.elapsed() - this.#lastRetireAt < pollMs) return
    this.#lastRetireAt = clock.elapsed()
    await worker.retireGone()
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
