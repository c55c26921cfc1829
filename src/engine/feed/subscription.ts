// A durable subscription: drives one sink along the feed. It reads, applies, and waits for more. A handler that throws
// is poison: it is tried again as the retry policy says; then, by policy, the subscription stands still and says so, or
// sets the item aside as a dead letter and goes on. Store trouble is waited out. What waiting does not mend (damage, a
// version without a path) is tried again too, but whoever waits is told, and the status shows it.

import { growingPause } from '../../core/calls/pause.ts'
import { decideRetry, type ResolvedRetry } from '../../core/calls/retry.ts'
import { type Duration, toMs } from '../../core/duration.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { FeedPosition } from '../../core/store/ports.ts'
import { onAbort } from '../base/aborting.ts'
import { whileAwaited } from '../base/stay-alive.ts'
import type { UnderWay } from '../base/worker.ts'
import type { Kernel } from '../storage/kernel.ts'
import { isSame, type Occurred, PoisonError, type Quarantined, type Sink } from './sink.ts'
import { WakeUp } from './wake-up.ts'

export interface Page<Item> {
  readonly items: readonly Item[]
  readonly next: FeedPosition
  readonly isEnd: boolean
  /** The same items, and the places between them at which a reader may stop; left out: there are none. */
  readonly parts?: readonly { readonly items: readonly Item[]; readonly next: FeedPosition }[]
}

/** Where the items come from. */
export interface Reading<Item extends Occurred> {
  page(after: FeedPosition): Promise<Page<Item>>
  /** One item again. Null: it is not there any more, or nobody wants it. */
  at(timeline: string, seq: number): Promise<Item | null>
  /** POSITION_GONE if the store no longer has what was read last. */
  confirm(): Promise<void>
  /** Before going back to an earlier position. */
  reset(): void
}

export interface SubscriptionOptions<Item extends Occurred> {
  /** For errors and events: `projection totals`. */
  readonly name: string
  readonly reading: Reading<Item>
  readonly sink: Sink<Item>
  readonly poison: 'stop' | 'quarantine'
  /** How often an item whose handler throws is tried before it counts as poison. */
  readonly retry: ResolvedRetry
}

export interface SubscriptionStatus {
  readonly position: string
  /** Items applied since this process started. */
  readonly applied: number
  readonly isCaughtUp: boolean
  /** How long ago the last applied item happened, while there are more to come; else 0. */
  readonly lagMs: number
  readonly error: Error | null
  readonly quarantined: number
}

interface Waiter {
  rounds: number
  resolve(): void
  reject(error: unknown): void
}

export interface CatchUpOptions {
  readonly signal?: AbortSignal
  /** TIMEOUT after this; without it, it waits as long as it takes. */
  readonly timeout?: Duration
}

const pollMs = 500
/** Applied in one commit, unless the sink says otherwise. */
const stepItems = 1000
/** How often somebody who waits for another process looks. */
const elsewhereMs = 50
const firstPauseMs = 20
const longestPauseMs = 5000

export class Subscription<Item extends Occurred = Occurred> {
  readonly name: string
  readonly sink: Sink<Item>
  readonly #kernel: Kernel
  readonly #reading: Reading<Item>
  readonly #poison: 'stop' | 'quarantine'
  readonly #retry: ResolvedRetry
  /** When the failing item is handled again, by the monotonic clock. */
  #dueAt = 0
  readonly #news: WakeUp
  readonly #unwatch: () => void
  readonly #tasks: (() => Promise<void>)[] = []
  #applied = 0
  #isCaughtUp = false
  #lastItemAt = 0
  #error: Error | null = null
  /** What keeps it from going on, though it tries. */
  #trouble: Error | null = null
  #failures = 0
  /** The item whose handler threw last, and how often it did in a row. */
  #failing: { readonly letter: Quarantined; readonly times: number } | null = null
  /** What the sink holds is of a copy of the store that is no longer up. */
  #mustReload = false
  #isStopped = false
  #applying: { readonly items: readonly Item[]; readonly since: number } | null = null
  #waiters: readonly Waiter[] = []
  #loop: Promise<void>

  constructor(kernel: Kernel, options: SubscriptionOptions<Item>) {
    const { name, reading, sink, poison, retry } = options
    this.name = name
    this.#kernel = kernel
    this.#reading = reading
    this.sink = sink
    this.#poison = poison
    this.#retry = retry
    sink.confirmBy?.(() => reading.confirm())
    this.#unwatch = kernel.worker.watch(() => this.#underWay())
    this.#news = new WakeUp(kernel)
    this.#loop = this.#run()
  }

  get status(): SubscriptionStatus {
    return {
      position: this.sink.position,
      applied: this.#applied,
      isCaughtUp: this.#isCaughtUp,
      lagMs: this.#isCaughtUp || this.#lastItemAt === 0 ? 0 : Math.max(0, this.#kernel.clock.now() - this.#lastItemAt),
      error: this.#error ?? this.#trouble,
      quarantined: this.sink.quarantine.length,
    }
  }

  /** Items that were passed over, with what their handlers threw. */
  get quarantine(): readonly Quarantined[] {
    return this.sink.quarantine
  }

  /**
   * Resolves when everything that is in the feed now was applied, here or by the process that has it; rejects if it stands
   * still here, with ABORTED when the signal fires, and with TIMEOUT when the time is over. The program does not end meanwhile.
   */
  catchUp(options: CatchUpOptions = {}): Promise<void> {
    if (this.#isStopped) return Promise.reject(this.#closed())
    const { signal, timeout } = options
    const timeoutMs = timeout === undefined ? null : toMs(timeout, 'timeout')
    const aborted = () => new RepriseError('ABORTED', `aborted while the ${this.name} caught up`, {}, signal?.reason)
    if (signal?.aborted) return Promise.reject(aborted())
    const waiting = new Promise<void>((resolve, reject) => {
      const abort = () => end(() => reject(aborted()))
      const cancel =
        timeoutMs === null
          ? () => undefined
          : this.#kernel.clock.after(timeoutMs, () => end(() => reject(this.#late(timeoutMs))), true)
      // The page under way may have been read before this call: the next whole round counts.
      const waiter: Waiter = {
        rounds: 2,
        resolve: () => end(resolve),
        reject: (error) => end(() => reject(error)),
      }
      const end = (settle: () => void) => {
        cancel()
        forget?.()
        this.#waiters = this.#waiters.filter((one) => one !== waiter)
        settle()
      }
      const forget = signal && onAbort(signal, abort)
      this.#waiters = [...this.#waiters, waiter]
      this.#news.ring()
    })
    return whileAwaited(waiting)
  }

  /** After a stop on poison: tries again. */
  resume(): void {
    this.#error = null
    this.#news.ring()
  }

  /**
   * Applies dead letters again, all of them or these, between two pages: once the handler is mended. Each is applied
   * and taken off the list in one step. Rejects at the first that still fails, or whose entry was trimmed; it stays a
   * dead letter.
   */
  redrive(letters?: readonly Pick<Quarantined, 'timeline' | 'seq'>[]): Promise<number> {
    if (this.#isStopped) return Promise.reject(this.#closed())
    const redriving = new Promise<number>((resolve, reject) => {
      this.#tasks.push(() => this.#redrive(letters ?? this.sink.quarantine).then(resolve, reject))
      this.#news.ring()
    })
    return whileAwaited(redriving)
  }

  async stop(): Promise<void> {
    if (this.#isStopped) return
    this.#isStopped = true
    this.#news.close()
    await this.#loop
    this.#unwatch()
    for (const { reject } of this.#waiters) reject(this.#closed())
    await this.sink.close()
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      this.#news.hush()
      let pauseMs = pollMs
      try {
        for (let task = this.#tasks.shift(); task; task = this.#tasks.shift()) await task()
        // News do not cut a pause short that a handler asked for.
        const dueMs = this.#dueAt - this.#kernel.clock.elapsed()
        if (this.#error) this.#tellWaiters(this.#error)
        else if (dueMs > 0) pauseMs = dueMs
        else pauseMs = (await this.#round()) ? pollMs : 0
      } catch (error) {
        pauseMs = await this.#failed(error)
      }
      if (pauseMs > 0 && !this.#isStopped) await this.#news.wait(pauseMs)
    }
    // They see that it is closed.
    for (const task of this.#tasks.splice(0)) await task()
  }

  /** True: nothing was left to read. */
  async #round(): Promise<boolean> {
    if (this.#mustReload) await this.sink.reload()
    this.#mustReload = false
    if (!this.sink.isOwned) {
      await this.sink.idle()
      if (!this.sink.isOwned) {
        // Another process has it: there is nothing to do here but to see how far it is, if somebody waits.
        if (this.#waiters.length === 0) return true
        if (await this.#isDoneElsewhere()) this.#tellWaiters(null)
        await this.#news.sleep(elsewhereMs)
        return false
      }
    }
    const page = await this.#reading.page(this.sink.position)
    const { isEnd } = page
    // What is committed is not done again, so a page is not one commit: who is killed on the way goes on in it.
    for (const { items, next } of stepsOf(page, this.sink.stepItems ?? stepItems)) {
      if (this.#isStopped) return false
      if (items.length > 0 || next !== this.sink.position) await this.#apply(items, next)
      this.#applied += items.length
      if (items.length > 0) this.#lastItemAt = items[items.length - 1]!.at.time
    }
    if (isEnd && (await this.sink.isCurrent?.()) === false) {
      throw new RepriseError('POSITION_GONE', `the store does not have what the ${this.name} has written`)
    }
    this.#failures = 0
    this.#trouble = null
    if (this.sink.isOwned) this.#kernel.failures.succeeded(this.sink.where)
    this.#failing = null
    this.#isCaughtUp = isEnd
    if (isEnd) {
      await this.sink.idle()
      this.#tellWaiters(null)
    }
    return isEnd
  }

  async #apply(items: readonly Item[], next: FeedPosition): Promise<void> {
    this.#applying = { items, since: this.#kernel.clock.elapsed() }
    try {
      await this.sink.apply(items, next)
    } finally {
      this.#applying = null
    }
  }

  async #redrive(letters: readonly Pick<Quarantined, 'timeline' | 'seq'>[]): Promise<number> {
    if (this.#isStopped) throw this.#closed()
    if (!this.sink.isOwned) await this.sink.idle()
    for (const at of letters) {
      const { timeline, seq } = at
      if (!this.sink.quarantine.some((letter) => isSame(letter, at))) {
        throw new RepriseError('NOT_FOUND', `${timeline}@${seq} is no dead letter of the ${this.name} here`, {
          timeline,
          seq,
        })
      }
      const item = await this.#reading.at(timeline, seq)
      if (!item) {
        const what = `${timeline}@${seq} is no longer in history, or has no handler: the ${this.name} cannot apply it`
        throw new RepriseError('OUT_OF_RANGE', what, { timeline, seq })
      }
      await this.sink.redrive(item)
      this.#applied += 1
    }
    return letters.length
  }

  /** Told to others with each heartbeat: a handler that hangs while everything else moves. */
  #underWay(): UnderWay[] {
    const applying = this.#applying
    const first = applying?.items[0]
    if (!applying || !first) return []
    const { item, since } = this.sink.handling ?? { item: first, since: applying.since }
    const { timeline, seq } = item.at
    const what = this.sink.handling ? 'handler of' : `${applying.items.length} events, from`
    return [{ timeline: this.sink.where, what: `${what} ${item.type} at ${timeline}@${seq}`, since }]
  }

  /** Behind the position that its owner has stored, nothing of ours is left to read. */
  async #isDoneElsewhere(): Promise<boolean> {
    this.#reading.reset()
    try {
      for (let at = await this.sink.stored(); ; ) {
        const { items, next, isEnd } = await this.#reading.page(at)
        if (items.length > 0) return false
        if (isEnd) return true
        at = next
      }
    } finally {
      this.#reading.reset()
    }
  }

  async #failed(error: unknown): Promise<number> {
    this.#reading.reset()
    this.#isCaughtUp = false
    if (error instanceof PoisonError) return await this.#poisoned(error)
    // What it has may be of entries that are no longer there. Whoever waits goes on waiting, for the end of what there is.
    if (isReprise(error, 'POSITION_GONE')) this.#mustReload = true
    return this.#waitOut(error)
  }

  async #poisoned(error: PoisonError): Promise<number> {
    const { letter } = error
    const isAgain = this.#failing !== null && isSame(this.#failing.letter, letter)
    const failed = isAgain ? this.#failing!.times + 1 : 1
    const { clock, random, worker } = this.#kernel
    const given = { chance: () => random.number(), now: worker.now() }
    const decision = decideRetry(this.#retry, failed, error.cause, given)
    this.#failing = decision.again ? { letter, times: decision.counts ? failed : failed - 1 } : null
    if (decision.again) {
      if (failed > 1) void this.#kernel.failures.failed(this.sink.where, error)
      this.#dueAt = clock.elapsed() + decision.delayMs
      return decision.delayMs
    }
    if (this.#poison === 'quarantine') {
      try {
        await this.sink.setAside(letter)
        return 0
      } catch (failure) {
        return this.#waitOut(failure)
      }
    }
    this.#error = error
    void this.#kernel.failures.failed(this.sink.where, error)
    this.#kernel.events.emit('problem', { where: this.name, error })
    this.#tellWaiters(error)
    return pollMs
  }

  #waitOut(error: unknown): number {
    this.#failures += 1
    if (!mayPass(error) || this.#failures > 2) void this.#kernel.failures.failed(this.sink.where, error)
    if (!isReprise(error, 'CLOSED')) this.#kernel.events.emit('problem', { where: this.name, error })
    if (!mayPass(error)) {
      this.#trouble = error instanceof Error ? error : new Error(String(error))
      this.#tellWaiters(this.#trouble)
    }
    return growingPause(this.#failures + 1, firstPauseMs, longestPauseMs)
  }

  #tellWaiters(error: Error | null): void {
    for (const waiter of this.#waiters) waiter.rounds -= 1
    const ready = error ? this.#waiters : this.#waiters.filter((waiter) => waiter.rounds <= 0)
    for (const { resolve, reject } of ready) error ? reject(error) : resolve()
    if (this.#waiters.length > 0) this.#news.ring()
  }

  #closed(): RepriseError {
    return new RepriseError('CLOSED', `the ${this.name} was closed`)
  }

  #late(timeoutMs: number): RepriseError {
    const { position, error } = this.status
    const what = `the ${this.name} has not caught up within ${timeoutMs} ms`
    return new RepriseError('TIMEOUT', what, { position }, error ?? undefined)
  }
}

/** The parts of a page, put together into steps of about so many items; the last one leads to its end. */
function stepsOf<Item>({ items, next, parts }: Page<Item>, count: number): Pick<Page<Item>, 'items' | 'next'>[] {
  if (!parts || items.length <= count) return [{ items, next }]
  const steps: { items: readonly Item[]; next: FeedPosition }[] = []
  let open: Item[] = []
  for (const part of parts) {
    for (const item of part.items) open.push(item)
    if (open.length < count) continue
    steps.push({ items: open, next: part.next })
    open = []
  }
  return [...steps, { items: open, next }]
}

/** Waiting may mend it: the store, or an owner that changes. */
function mayPass(error: unknown): boolean {
  if (isReprise(error, 'CLOSED', 'ABORTED', 'NOT_FOUND')) return true
  return isReprise(error) && (error.remedy === 'retry' || error.remedy === 'reload')
}
