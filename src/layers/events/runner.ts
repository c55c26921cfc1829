// Drives one sink along the feed: reads, applies, waits for more. A handler that throws is poison: by policy the projection
// stops and says so, or sets the event aside and goes on. Store trouble is waited out; what waiting does not mend (damage,
// a version without a path) is tried again too, but whoever waits is told, and the status shows it.

import { type Duration, toMs } from '../../core/duration.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { growingPause } from '../../core/pause.ts'
import type { FeedPosition } from '../../core/ports.ts'
import type { Kernel } from '../../engine/kernel.ts'
import { whileAwaited } from '../../engine/stay-alive.ts'
import type { UnderWay } from '../../engine/worker.ts'
import { PoisonError, quarantinedOf, type Sink } from './sink.ts'
import type { Events, Occurrence } from './source.ts'

export interface RunnerStatus {
  readonly position: string
  /** Events applied since this process started. */
  readonly applied: number
  readonly isCaughtUp: boolean
  /** How long ago the last applied event happened, while there are more to come; else 0. */
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
/** How often somebody who waits for another process looks. */
const elsewhereMs = 50
const firstPauseMs = 20
const longestPauseMs = 5000

export class Runner {
  readonly sink: Sink
  readonly #kernel: Kernel
  readonly #events: Events
  readonly #poison: 'stop' | 'quarantine'
  readonly #unlisten: () => void
  #applied = 0
  #isCaughtUp = false
  #lastEventAt = 0
  #error: Error | null = null
  /** What keeps it from going on, though it tries. */
  #trouble: Error | null = null
  #failures = 0
  /** What the sink holds is of a copy of the store that is no longer up. */
  #mustReload = false
  #isStopped = false
  #isAwake = false
  #wake: (() => void) | null = null
  readonly #unwatch: () => void
  #applying: { readonly events: readonly Occurrence[]; readonly since: number } | null = null
  #waiters: readonly Waiter[] = []
  #loop: Promise<void>

  constructor(kernel: Kernel, events: Events, sink: Sink, poison: 'stop' | 'quarantine') {
    this.#kernel = kernel
    this.#events = events
    this.sink = sink
    this.#poison = poison
    sink.confirmBy?.(() => events.confirm())
    this.#unwatch = kernel.worker.watch(() => this.#underWay())
    this.#unlisten = kernel.store.listen(() => this.wake())
    this.#loop = this.#run()
  }

  get status(): RunnerStatus {
    return {
      position: this.sink.position,
      applied: this.#applied,
      isCaughtUp: this.#isCaughtUp,
      lagMs:
        this.#isCaughtUp || this.#lastEventAt === 0 ? 0 : Math.max(0, this.#kernel.clock.now() - this.#lastEventAt),
      error: this.#error ?? this.#trouble,
      quarantined: this.sink.quarantine.length,
    }
  }

  wake(): void {
    this.#isAwake = true
    this.#wake?.()
  }

  /**
   * Resolves when everything that is in the feed now was applied, here or by the process that has it; rejects if it stands
   * still here, with ABORTED when the signal fires, and with TIMEOUT when the time is over. The program does not end meanwhile.
   */
  catchUp(options: CatchUpOptions = {}): Promise<void> {
    if (this.#isStopped) return Promise.reject(new RepriseError('CLOSED', 'the projection was closed'))
    const { signal, timeout } = options
    const timeoutMs = timeout === undefined ? null : toMs(timeout, 'timeout')
    if (signal?.aborted) return Promise.reject(aborted(signal))
    const waiting = new Promise<void>((resolve, reject) => {
      const abort = () => end(() => reject(aborted(signal!)))
      const cancel =
        timeoutMs === null
          ? () => undefined
          : this.#kernel.clock.after(timeoutMs, () => end(() => reject(late(timeoutMs, this.status))), true)
      // The page under way may have been read before this call: the next whole round counts.
      const waiter: Waiter = {
        rounds: 2,
        resolve: () => end(resolve),
        reject: (error) => end(() => reject(error)),
      }
      const end = (settle: () => void) => {
        cancel()
        signal?.removeEventListener('abort', abort)
        this.#waiters = this.#waiters.filter((one) => one !== waiter)
        settle()
      }
      signal?.addEventListener('abort', abort, { once: true })
      this.#waiters = [...this.#waiters, waiter]
      this.wake()
    })
    return whileAwaited(waiting)
  }

  /** After a stop on poison: tries again. */
  resume(): void {
    this.#error = null
    this.wake()
  }

  async stop(): Promise<void> {
    if (this.#isStopped) return
    this.#isStopped = true
    this.#unlisten()
    this.wake()
    await this.#loop
    this.#unwatch()
    for (const { reject } of this.#waiters) reject(new RepriseError('CLOSED', 'the projection was closed'))
    await this.sink.close()
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      this.#isAwake = false
      let pauseMs = pollMs
      try {
        if (!this.#error) pauseMs = (await this.#round()) ? pollMs : 0
        else this.#tellWaiters(this.#error)
      } catch (error) {
        pauseMs = await this.#failed(error)
      }
      if (pauseMs > 0 && !this.#isAwake && !this.#isStopped) await this.#sleep(pauseMs)
    }
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
        await this.#sleep(elsewhereMs)
        return false
      }
    }
    const { events, next, isEnd } = await this.#events.page(this.sink.position)
    if (events.length > 0 || next !== this.sink.position) await this.#apply(events, next)
    this.#applied += events.length
    if (events.length > 0) this.#lastEventAt = events[events.length - 1]!.at.time
    if (isEnd && (await this.sink.isCurrent?.()) === false) {
      throw new RepriseError('POSITION_GONE', 'the store does not have what this projection has written')
    }
    this.#failures = 0
    this.#trouble = null
    this.#isCaughtUp = isEnd
    if (isEnd) {
      await this.sink.idle()
      this.#tellWaiters(null)
    }
    return isEnd
  }

  async #apply(events: readonly Occurrence[], next: FeedPosition): Promise<void> {
    this.#applying = { events, since: this.#kernel.clock.elapsed() }
    try {
      await this.sink.apply(events, next)
    } finally {
      this.#applying = null
    }
  }

  /** Told to others with each heartbeat: a handler that hangs while everything else moves. */
  #underWay(): UnderWay[] {
    const applying = this.#applying
    const first = applying?.events[0]
    if (!applying || !first) return []
    const { occurrence, since } = this.sink.handling ?? { occurrence: first, since: applying.since }
    const { timeline, seq } = occurrence.at
    const what = this.sink.handling ? 'handler of' : `${applying.events.length} events, from`
    return [{ timeline: this.sink.where, what: `${what} ${occurrence.type} at ${timeline}@${seq}`, since }]
  }

  /** Behind the position that its owner has stored, nothing of ours is left to read. */
  async #isDoneElsewhere(): Promise<boolean> {
    this.#events.reset()
    try {
      for (let at = await this.sink.stored(); ; ) {
        const { events, next, isEnd } = await this.#events.page(at)
        if (events.length > 0) return false
        if (isEnd) return true
        at = next
      }
    } finally {
      this.#events.reset()
    }
  }

  async #failed(error: unknown): Promise<number> {
    this.#events.reset()
    this.#isCaughtUp = false
    if (error instanceof PoisonError) {
      if (this.#poison === 'quarantine') return await this.#setAside(error)
      this.#error = error
      this.#kernel.events.emit('problem', { where: 'projection', error })
      this.#tellWaiters(error)
      return pollMs
    }
    // What it has may be of entries that are no longer there. Whoever waits goes on waiting, for the end of what there is.
    if (isReprise(error, 'POSITION_GONE')) this.#mustReload = true
    return this.#waitOut(error)
  }

  async #setAside(error: PoisonError): Promise<number> {
    try {
      await this.sink.setAside(quarantinedOf(error))
      return 0
    } catch (failure) {
      return this.#waitOut(failure)
    }
  }

  #waitOut(error: unknown): number {
    this.#failures += 1
    if (!isReprise(error, 'CLOSED')) this.#kernel.events.emit('problem', { where: 'projection', error })
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
    if (this.#waiters.length > 0) this.#isAwake = true
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#kernel.clock.after(ms, () => this.#wake?.())
      this.#wake = () => {
        cancel()
        this.#wake = null
        resolve()
      }
    })
  }
}

function aborted(signal: AbortSignal): RepriseError {
  return new RepriseError('ABORTED', 'aborted while the projection caught up', {}, signal.reason)
}

function late(timeoutMs: number, { position, error }: RunnerStatus): RepriseError {
  return new RepriseError(
    'TIMEOUT',
    `the projection has not caught up within ${timeoutMs} ms`,
    { position },
    error ?? undefined,
  )
}

/** Waiting may mend it: the store, or an owner that changes. */
function mayPass(error: unknown): boolean {
  if (isReprise(error, 'CLOSED', 'ABORTED', 'NOT_FOUND')) return true
  return isReprise(error) && (error.remedy === 'retry' || error.remedy === 'reload')
}
