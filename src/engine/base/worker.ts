// This process as a worker: one row and one heartbeat, however many timelines it owns. Leases are for liveness only;
// the epoch check in every write keeps out a zombie. A worker that the store declared dead loses all its timelines and
// continues under a new identity.

import { type TimelineId, toHex, type WorkerId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Attribute, Clock, Random, Store, WorkerRow } from '../../core/store/ports.ts'
import type { Events } from './events.ts'
import { isProcessGone, type ProcessIdentity } from './platform.ts'
import { Captures, capturesKey, noCapture } from './running-captures.ts'

export interface WorkerOptions {
  readonly store: Store
  readonly clock: Clock
  readonly random: Random
  readonly events: Events
  readonly name: string
  readonly leaseMs: number
  readonly identity: ProcessIdentity
  readonly isGone?: (other: ProcessIdentity, own: ProcessIdentity) => boolean
}

/** Work of this process that has not ended yet. */
export interface UnderWay {
  readonly timeline: string
  /** For people: 'step charge', 'item 10.1000/7'. */
  readonly what: string
  /** Monotonic time of its start, or of its last sign of life. */
  readonly since: number
  /** The time limit of its own policy. Null: none. */
  readonly limitMs?: number | null
}

/** A timeline whose checkpoints fail repeatedly. */
export interface Failing {
  readonly timeline: string
  readonly failures: number
  readonly reason: string
  readonly since: number
}

/** The report as other processes read it, in database time. */
export interface WorkerReport {
  readonly underWay: readonly Required<UnderWay>[]
  readonly failing: readonly Failing[]
}

/** Shorter work is not reported. */
const reportAfterMs = 1000
const reportedMax = 16

/** The report that a worker stores in its row. @example reportOf(row).underWay */
export function reportOf(row: Pick<WorkerRow, 'info'>): WorkerReport {
  const read = <T>(key: string): T[] => {
    const text = row.info[key]
    return typeof text === 'string' ? (JSON.parse(text) as T[]) : []
  }
  return { underWay: read('under way'), failing: read('failing') }
}

/** A failed heartbeat is retried after the lease divided by this. */
const beatsAgain = 30

export class Worker {
  /** The captures of this process that are putting chunks, reported with every heartbeat. */
  readonly captures = new Captures()
  readonly #options: WorkerOptions
  readonly #info = new Map<string, Attribute>()
  readonly #onRetired = new Set<(id: WorkerId) => void>()
  /** Called after each heartbeat that the store accepted. */
  onBeat: () => void = () => undefined
  readonly #underWay = new Set<() => Iterable<UnderWay>>()
  readonly #failing = new Set<() => Iterable<Failing>>()
  #id: WorkerId
  #progress = 0
  #registered: Promise<void> | null = null
  #isRegistered = false
  #cancelBeat: (() => void) | null = null
  #isClosed = false
  #missedReportedAt = Number.NEGATIVE_INFINITY
  // Database time minus the monotonic clock, so that a wrong wall clock on this machine does no harm.
  #offsetMs: number | null = null
  #leastOffsetMs: number | null = null

  constructor(options: WorkerOptions) {
    this.#options = options
    this.#id = this.#newId()
  }

  /** For people. */
  get name(): string {
    return this.#options.name
  }

  get id(): WorkerId {
    return this.#id
  }

  /**
   * The estimated database time, in which wakeups and leases are measured. Each shard has its own clock, and a deadline
   * belongs to the clock of its timeline's shard; without a timeline, returns the slowest clock.
   */
  now(timeline?: string): number {
    const { clock, store } = this.#options
    if (this.#offsetMs === null) return clock.now()
    const aheadMs = timeline === undefined ? 0 : (store.shards?.aheadMs(timeline as TimelineId) ?? 0)
    return Math.round(clock.elapsed() + this.#offsetMs) + aheadMs
  }

  /**
   * A lower bound of database time, for measuring ages. The estimate of `now` may be off by half a round trip, or by
   * hours in a process that was paused during one.
   */
  earliest(): number {
    const { clock } = this.#options
    return Math.floor(clock.elapsed() + (this.#leastOffsetMs ?? Number.NEGATIVE_INFINITY))
  }

  /** Registers this worker, once, before it first owns a timeline. */
  async register(): Promise<WorkerId> {
    this.#registered ??= this.#beat().then(
      () => {
        this.#isRegistered = true
      },
      (error) => {
        this.#registered = null
        throw error
      },
    )
    await this.#registered
    return this.#id
  }

  /** The worker's id if it is registered already, so that the caller need not wait. */
  get registered(): WorkerId | null {
    return this.#isRegistered ? this.#id : null
  }

  /** Counts recoverable progress, reported with the next heartbeat (A7.2). */
  progressed(entries: number): void {
    this.#progress += entries
  }

  /** Sets a field of the worker's row from its next heartbeat on. Null removes it. */
  describe(key: string, value: Attribute | null): void {
    if (value === null) this.#info.delete(key)
    else this.#info.set(key, value)
  }

  /** Called before each heartbeat, so that other processes see stuck work while the rest progresses. */
  watch(underWay: () => Iterable<UnderWay>): () => void {
    this.#underWay.add(underWay)
    return () => this.#underWay.delete(underWay)
  }

  /**
   * Reports one call with each heartbeat until `end`. `alive` restarts the measurement of its time.
   * @example const call = worker.begin({ timeline, what: 'tool refund' }); try { await refund() } finally { call.end() }
   */
  begin(call: Omit<UnderWay, 'since'>): { alive(): void; end(): void } {
    const { clock } = this.#options
    let since = clock.elapsed()
    const end = this.watch(() => [{ ...call, since }])
    return {
      alive() {
        since = clock.elapsed()
      },
      end,
    }
  }

  /** Unfinished work, oldest first. */
  inHand(): UnderWay[] {
    return [...this.#underWay].flatMap((each) => [...each()]).sort((a, b) => a.since - b.since)
  }

  /** Called before each heartbeat. */
  watchFailing(failing: () => Iterable<Failing>): () => void {
    this.#failing.add(failing)
    return () => this.#failing.delete(failing)
  }

  onRetired(call: (id: WorkerId) => void): () => void {
    this.#onRetired.add(call)
    return () => this.#onRetired.delete(call)
  }

  /** True if the other worker's process ran on this host and has ended. */
  isGoneHere(row: WorkerRow): boolean {
    const { identity, isGone = isProcessGone } = this.#options
    return isGone(row, identity)
  }

  /** Without a second check: the lease is valid, and the process is not known to be gone. */
  isAtWork(row: WorkerRow): boolean {
    return row.isAlive && !row.isRetired && !row.isGone && (row.id === this.#id || !this.isGoneHere(row))
  }

  /** Sends a heartbeat now, so that other processes see changes at once. */
  async beatNow(): Promise<void> {
    if (this.#isRegistered && !this.#isClosed) await this.#beat()
  }

  /** The store declared this worker dead: registers a new identity without waiting for the next heartbeat. */
  async renewNow(): Promise<void> {
    this.#renew()
    await this.register()
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancelBeat?.()
    if (!this.#registered) return
    await this.#registered.catch(() => undefined)
    await this.#options.store.retire([this.#id]).catch(() => undefined)
  }

  /** Stops the heartbeat without retiring the worker, as a crash would. For tests. */
  abandon(): void {
    this.#isClosed = true
    this.#cancelBeat?.()
  }

  async #beat(): Promise<void> {
    const { store, clock, name, leaseMs, identity } = this.#options
    const before = clock.elapsed()
    const answer = await store.beat({
      id: this.#id,
      name,
      host: identity.host,
      process: identity.process,
      leaseMs,
      info: { ...Object.fromEntries(this.#info), ...this.#report() },
      progress: this.#progress,
    })
    this.#offsetMs = answer.now - (before + clock.elapsed()) / 2
    this.#leastOffsetMs = answer.now - clock.elapsed()
    if (!answer.ok) this.#renew()
    else this.#scheduleBeat()
    this.onBeat()
  }

  /** Oldest first, in database time; empty if there is nothing to report. */
  #report(): Record<string, string | number> {
    const { clock } = this.#options
    const elapsed = clock.elapsed()
    const at = (since: number) => this.now() - Math.round(elapsed - since)
    const oldest = <T extends { readonly since: number }>(all: T[]) =>
      all.sort((a, b) => a.since - b.since).slice(0, reportedMax)
    const slow = this.inHand().filter(({ since }) => elapsed - since >= reportAfterMs)
    const underWay = oldest(slow).map(({ timeline, what, since, limitMs = null }) => {
      return { timeline, what: what.slice(0, 200), since: at(since), limitMs }
    })
    const failing = oldest([...this.#failing].flatMap((each) => [...each()])).map((each) => {
      return { ...each, reason: each.reason.slice(0, 300), since: at(each.since) }
    })
    return {
      [capturesKey]: this.captures.oldest ?? noCapture,
      ...(underWay.length > 0 && { 'under way': JSON.stringify(underWay) }),
      ...(failing.length > 0 && { failing: JSON.stringify(failing) }),
    }
  }

  #renew(): void {
    const { events } = this.#options
    const old = this.#id
    this.#id = this.#newId()
    this.#registered = null
    this.#isRegistered = false
    events.emit('worker-retired', { worker: old, because: 'its heartbeat was refused' })
    for (const call of this.#onRetired) call(old)
    events.emit('worker-renewed', { worker: this.#id })
  }

  #scheduleBeat(afterMs = this.#options.leaseMs / 3): void {
    if (this.#isClosed) return
    this.#cancelBeat?.()
    this.#cancelBeat = this.#options.clock.after(afterMs, () => {
      this.#beat().catch((error) => this.#missed(error))
    })
  }

  /** The failed heartbeat may have waited for the store for most of the lease, so the next one comes early. */
  #missed(error: unknown): void {
    const { clock, leaseMs, events } = this.#options
    const isNews = clock.elapsed() - this.#missedReportedAt >= leaseMs / 3
    if (isNews) {
      this.#missedReportedAt = clock.elapsed()
      events.emit('problem', { where: 'heartbeat', error })
    }
    this.#scheduleBeat(leaseMs / beatsAgain)
  }

  #newId(): WorkerId {
    const { name, random } = this.#options
    if (name.length === 0 || name.length > 128) {
      throw new RepriseError('INVALID_ARGUMENT', 'the name of a worker must have 1 to 128 characters', {
        name: name.slice(0, 80),
      })
    }
    return `${name}~${toHex(random.bytes(6))}` as WorkerId
  }
}
