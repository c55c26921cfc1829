// A durable subscription: drives one sink along the feed. It reads, applies, and waits for more. A handler that throws is
// poison: it is retried by the retry policy; then, by policy, the subscription stops and reports it, or sets the item aside as
// a dead letter and continues. Store outages are waited out. Errors that waiting does not cure (damage, a version without a
// path) are retried too, but waiting callers are rejected, and the status shows the error.

import { type Duration, toMs } from '../../core/duration.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { checkList, checkOptions, namesOf } from '../../core/options.ts'
import { growingPause } from '../../core/retry/pause.ts'
import { decideRetry, type ResolvedRetry } from '../../core/retry/retry.ts'
import type { FeedPosition } from '../../core/store/ports.ts'
import { onAbort } from '../../lib/waiting.ts'
import { whileAwaited } from '../base/stay-alive.ts'
import type { UnderWay } from '../base/worker.ts'
import type { Kernel } from '../storage/kernel.ts'
import { isOf, isSame, type Occurred, PoisonError, type Quarantined, type SubscriptionSink } from './sink.ts'
import { WakeUp } from './wake-up.ts'

export interface Page<Item> {
  readonly items: readonly Item[]
  readonly next: FeedPosition
  readonly isEnd: boolean
  /** The same items, divided at the positions where a reader may stop. Default: not divided. */
  readonly parts?: readonly { readonly items: readonly Item[]; readonly next: FeedPosition }[]
}

/** The source of items. */
export interface Reading<Item extends Occurred> {
  page(after: FeedPosition): Promise<Page<Item>>
  /** Reads one item again. Null: it no longer exists, or is not for this subscription. */
  at(timeline: string, seq: number): Promise<Item | null>
  /** POSITION_GONE if the store no longer has the last entries read. */
  confirm(): Promise<void>
  /** The subscription calls this before it goes back to an earlier position. */
  reset(): void
}

export interface SubscriptionOptions<Item extends Occurred> {
  /** For errors and events: `projection totals`. */
  readonly name: string
  readonly reading: Reading<Item>
  readonly sink: SubscriptionSink<Item>
  readonly poison: 'stop' | 'quarantine'
  /** How often an item is retried before it is treated as poison. */
  readonly retry: ResolvedRetry
}

export interface SubscriptionStatus {
  readonly position: string
  /** The number of items applied since this process started. */
  readonly applied: number
  readonly isCaughtUp: boolean
  /** The age of the last applied item, while there are more to apply; else 0. */
  readonly lagMs: number
  readonly error: Error | null
  readonly quarantined: number
}

/** Names a dead letter. */
type LetterPlace = Pick<Quarantined, 'timeline' | 'seq'>

interface Waiter {
  rounds: number
  resolve(): void
  reject(error: unknown): void
}

export interface CatchUpOptions {
  readonly signal?: AbortSignal
  /** Rejects with TIMEOUT after this long. Default: no limit. */
  readonly timeout?: Duration
}

const knownCatchUp = namesOf<CatchUpOptions>()('signal timeout')
const pollMs = 500
/** Items applied in one commit, unless the sink has its own number. */
const stepItems = 1000
/** The polling interval while waiting for another process. */
const elsewhereMs = 50
const firstPauseMs = 20
const longestPauseMs = 5000

export class Subscription<Item extends Occurred = Occurred> {
  readonly name: string
  readonly sink: SubscriptionSink<Item>
  readonly #kernel: Kernel
  readonly #reading: Reading<Item>
  readonly #poison: 'stop' | 'quarantine'
  readonly #retry: ResolvedRetry
  /** When the failing item is retried, by the monotonic clock. */
  #dueAt = 0
  readonly #news: WakeUp
  readonly #unwatch: () => void
  readonly #tasks: (() => Promise<void>)[] = []
  #applied = 0
  #isCaughtUp = false
  #lastItemAt = 0
  #error: Error | null = null
  /** The error that blocks progress, while it retries. */
  #trouble: Error | null = null
  #failures = 0
  /** The item whose handler threw last, and the number of consecutive failures. */
  #failing: { readonly letter: Quarantined; readonly times: number } | null = null
  /** True: the sink's state is from a lost copy of the store. */
  #mustReload = false
  #isStopped = false
  #applying: { readonly items: readonly Item[]; readonly since: number } | null = null
  #waiters: readonly Waiter[] = []
  #loop: Promise<void>

  /** @internal */
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

  status(): SubscriptionStatus {
    return {
      position: this.sink.position,
      applied: this.#applied,
      isCaughtUp: this.#isCaughtUp,
      lagMs: this.#isCaughtUp || this.#lastItemAt === 0 ? 0 : Math.max(0, this.#kernel.clock.now() - this.#lastItemAt),
      error: this.#error ?? this.#trouble,
      quarantined: this.sink.quarantine.length,
    }
  }

  /**
   * Resolves when everything now in the feed was applied, here or by the owning process; rejects if the subscription is stopped
   * here, with ABORTED when the signal aborts, and with TIMEOUT when the time has elapsed. It keeps the program running
   * meanwhile.
   */
  async catchUp(options: CatchUpOptions = {}): Promise<void> {
    if (this.#isStopped) throw this.#closed()
    checkOptions('catchUp()', options, knownCatchUp)
    const { signal, timeout } = options
    const timeoutMs = timeout === undefined ? null : toMs(timeout, 'timeout')
    const aborted = () => new RepriseError('ABORTED', `aborted while the ${this.name} caught up`, {}, signal?.reason)
    if (signal?.aborted) throw aborted()
    const waiting = new Promise<void>((resolve, reject) => {
      const abort = () => end(() => reject(aborted()))
      const cancel =
        timeoutMs === null
          ? () => undefined
          : this.#kernel.clock.after(timeoutMs, () => end(() => reject(this.#late(timeoutMs))), true)
      // The current page may have been read before this call: the next whole round counts.
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

  /** Retries after a stop on poison. */
  resume(): void {
    this.#error = null
    this.#news.ring()
  }

  /**
   * Applies dead letters again, all or the given ones, between two pages, once the handler is fixed. Each is applied and
   * removed from the list in one step. Rejects at the first letter that still fails, or whose entry was trimmed; it stays a dead
   * letter.
   */
  async redrive(letters?: readonly LetterPlace[]): Promise<number> {
    if (letters !== undefined) checkList('the dead letters of redrive()', letters)
    return await this.#betweenPages(() => this.#redrive(letters ?? this.sink.quarantine))
  }

  /** Removes dead letters, all or the given ones, without applying them, between two pages. */
  async discard(letters?: readonly LetterPlace[]): Promise<number> {
    if (letters !== undefined) checkList('the dead letters of discard()', letters)
    return await this.#betweenPages(() => this.#discard(letters ?? this.sink.quarantine))
  }

  #betweenPages(task: () => Promise<number>): Promise<number> {
    if (this.#isStopped) return Promise.reject(this.#closed())
    const done = new Promise<number>((resolve, reject) => {
      this.#tasks.push(() => task().then(resolve, reject))
      this.#news.ring()
    })
    return whileAwaited(done)
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
        // New entries do not shorten a pause that a handler requested.
        const dueMs = this.#dueAt - this.#kernel.clock.elapsed()
        if (this.#error) this.#reportWaiters(this.#error)
        else if (dueMs > 0) pauseMs = dueMs
        else pauseMs = (await this.#round()) ? pollMs : 0
      } catch (error) {
        pauseMs = await this.#failed(error)
      }
      if (pauseMs > 0 && !this.#isStopped) await this.#news.wait(pauseMs)
    }
    // Each task finds the subscription closed.
    for (const task of this.#tasks.splice(0)) await task()
  }

  /** True: there was nothing left to read. */
  async #round(): Promise<boolean> {
    if (this.#mustReload) await this.sink.reload()
    this.#mustReload = false
    if (!this.sink.isOwned) {
      await this.sink.idle()
      if (!this.sink.isOwned) {
        // Another process owns it: the only work here is to check its progress for waiting callers.
        if (this.#waiters.length === 0) return true
        if (await this.#isDoneElsewhere()) this.#reportWaiters(null)
        await this.#news.sleep(elsewhereMs)
        return false
      }
    }
    const page = await this.#reading.page(this.sink.position)
    const { isEnd } = page
    // Committed items are not repeated, so a page takes several commits: after a kill, the next run resumes within the page.
    for (const { items, next } of stepsOf(page, this.sink.stepItems ?? stepItems)) {
      if (this.#isStopped) return false
      if (items.length > 0 || next !== this.sink.position) await this.#apply(items, next)
      this.#applied += items.length
      if (items.length > 0) this.#lastItemAt = items[items.length - 1]!.at.time
    }
    if (isEnd && (await this.sink.isCurrent?.()) === false) {
      throw new RepriseError('POSITION_GONE', `the store lacks entries that ${this.name} has written`)
    }
    this.#failures = 0
    this.#trouble = null
    if (this.sink.isOwned) this.#kernel.failures.succeeded(this.sink.where)
    this.#failing = null
    this.#isCaughtUp = isEnd
    if (isEnd) {
      await this.sink.idle()
      this.#reportWaiters(null)
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

  async #discard(letters: readonly LetterPlace[]): Promise<number> {
    for (const at of letters) await this.sink.discard(await this.#letter(at))
    return letters.length
  }

  /** The dead letter at this place. The sink is owned afterwards, if no other process has it. */
  async #letter(at: LetterPlace): Promise<Quarantined> {
    if (this.#isStopped) throw this.#closed()
    if (!this.sink.isOwned) await this.sink.idle()
    const found = this.sink.quarantine.find((letter) => isSame(letter, at))
    if (found) return found
    const { timeline, seq } = at
    const what = `${timeline}@${seq} is not a dead letter of the ${this.name}`
    throw new RepriseError('NOT_FOUND', what, { timeline, seq })
  }

  async #redrive(letters: readonly LetterPlace[]): Promise<number> {
    if (this.#isStopped) throw this.#closed()
    for (const at of letters) {
      const { timeline, seq } = at
      const found = await this.#letter(at)
      const item = await this.#reading.at(timeline, seq)
      if (!item || !isOf(found, item.at)) {
        const what = `${timeline}@${seq} is no longer in history, or has no handler: the ${this.name} cannot apply it`
        throw new RepriseError('OUT_OF_RANGE', what, { timeline, seq })
      }
      await this.sink.redrive(item)
      this.#applied += 1
    }
    return letters.length
  }

  /** The heartbeat reports a handler that hangs while everything else progresses. */
  #underWay(): UnderWay[] {
    const applying = this.#applying
    const first = applying?.items[0]
    if (!applying || !first) return []
    const { item, since } = this.sink.handling ?? { item: first, since: applying.since }
    const { timeline, seq } = item.at
    const what = this.sink.handling ? 'handler of' : `${applying.items.length} events, from`
    return [{ timeline: this.sink.where, what: `${what} ${item.type} at ${timeline}@${seq}`, since }]
  }

  /** True: after the owner's stored position there is nothing left to read. */
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
    // Its state may be from entries that no longer exist. Callers keep waiting, for the end of the current feed.
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
    this.#reportWaiters(error)
    return pollMs
  }

  #waitOut(error: unknown): number {
    this.#failures += 1
    if (!mayPass(error) || this.#failures > 2) void this.#kernel.failures.failed(this.sink.where, error)
    if (!isReprise(error, 'CLOSED')) this.#kernel.events.emit('problem', { where: this.name, error })
    if (!mayPass(error)) {
      this.#trouble = error instanceof Error ? error : new Error(String(error))
      this.#reportWaiters(this.#trouble)
    }
    const pauseMs = growingPause(this.#failures + 1, firstPauseMs, longestPauseMs)
    // The failed attempt itself may have committed, and that write must not shorten the pause.
    if (!mayPass(error)) this.#dueAt = this.#kernel.clock.elapsed() + pauseMs
    return pauseMs
  }

  #reportWaiters(error: Error | null): void {
    for (const waiter of this.#waiters) waiter.rounds -= 1
    const ready = error ? this.#waiters : this.#waiters.filter((waiter) => waiter.rounds <= 0)
    for (const { resolve, reject } of ready) error ? reject(error) : resolve()
    if (this.#waiters.length > 0) this.#news.ring()
  }

  #closed(): RepriseError {
    return new RepriseError('CLOSED', `the ${this.name} was closed`)
  }

  #late(timeoutMs: number): RepriseError {
    const { position, error } = this.status()
    const what = `the ${this.name} did not catch up within ${timeoutMs} ms`
    return new RepriseError('TIMEOUT', what, { position }, error ?? undefined)
  }
}

/** Combines the parts of a page into steps of about `count` items; the last step ends with the page. */
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

/** True: waiting may cure it: a store outage, or a change of owner. */
function mayPass(error: unknown): boolean {
  if (isReprise(error, 'CLOSED', 'ABORTED', 'NOT_FOUND')) return true
  return isReprise(error) && (error.remedy === 'retry' || error.remedy === 'reload')
}
