// One pass over the source for some shards of a job: reads items, skips finished ones, starts the rest within the
// limits, and ends when every item it read is settled. It does not handle rounds or other processes.

import { isReprise, RepriseError } from '../../core/errors.ts'
import { refuseThenable } from '../../core/synchronous.ts'
import type { Host } from '../../engine/host/host.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import { sleep } from '../../lib/waiting.ts'
import type { Cursor } from './entries.ts'
import { fingerprint } from './fingerprint.ts'
import type { ItemRunner } from './item-runner.ts'
import type { ResolvedJob } from './options.ts'
import { PatientReader } from './patient-reader.ts'
import type { Receipt } from './queues/held-message.ts'
import type { Shard } from './shard.ts'
import type { Chunk } from './source.ts'
import { Task } from './task.ts'

const breathEveryMs = 8

/** Sources that may have nothing for a long time. */
const silentKinds: ReadonlySet<string> = new Set(['feed', 'queue'])

type Interruption = 'stopped' | 'redriven'

export class Pass<T> {
  readonly shards: readonly Shard<Task<T>>[]
  readonly #engine: Host
  readonly #kernel: Kernel
  readonly #job: ResolvedJob<T>
  readonly #items: ItemRunner<T>
  readonly #byIndex = new Map<number, Shard<Task<T>>>()
  readonly #controller = new AbortController()
  /** Ends the wait for the source. */
  #interrupt: ((why: Interruption) => void) | null = null
  /** Letters were redriven while the source was read. */
  #hasRedriven = false
  #reader: PatientReader<T> | null = null
  #ordinal = 0
  #read = 0
  #breathAt = 0
  #readingSince: number | null = null

  constructor(engine: Host, job: ResolvedJob<T>, shards: readonly Shard<Task<T>>[], items: ItemRunner<T>) {
    this.#engine = engine
    this.#kernel = engine.kernel
    this.#job = job
    this.shards = shards
    this.#items = items
    for (const shard of shards) this.#byIndex.set(shard.index, shard)
  }

  /** The number of source items that this pass has read. */
  get read(): number {
    return this.#read
  }

  /**
   * Monotonic time since when the pass waits for the source; null if it does not. A followed feed, or a queue, may be
   * silent for long.
   */
  get readingSince(): number | null {
    return silentKinds.has(this.#job.source.kind) ? null : this.#readingSince
  }

  get total(): number | null {
    return this.#reader?.total ?? null
  }

  get fraction(): number | null {
    return this.#reader?.fraction ?? null
  }

  /** The start of the pass: the earliest cursor of its shards. A shard without a cursor starts at the beginning. */
  static startOf<T>(shards: readonly Shard<Task<T>>[]): Cursor | null {
    let start: Cursor | null | undefined
    for (const { state } of shards) {
      if (state.cursor === null) return null
      if (start === undefined || state.cursor.ordinal < start!.ordinal) start = state.cursor
    }
    return start ?? null
  }

  /** Resolves when the source is at its end (true) or reading was cancelled (false). Items may still be in flight. */
  async run(): Promise<boolean> {
    const start = Pass.startOf(this.shards)
    for (const shard of this.shards) shard.marks.begin(start, shard.state.cursor)
    this.#ordinal = start?.ordinal ?? 0
    await this.redrive()
    const { signal } = this.#controller
    const context = {
      signal,
      input: this.shards[0]!.state.input,
      engine: this.#engine,
      timeline: this.shards[0]!.open.id,
      entryKeys: this.shards[0]!.state.entryKeys ?? false,
      slots: this.#job.concurrency * this.#job.batchSize,
    }
    const reader = new PatientReader(this.#kernel, this.#job, start?.position, context, {
      onFailure: (error, attempt, next) => this.#items.sourceFailed(error, attempt, next),
      pause: (ms) => this.#pause(ms),
    })
    this.#reader = reader
    if (this.#job.shards === 1) this.shards[0]!.onReached = (position) => reader.reached(position)
    let isAll = false
    try {
      isAll = await this.#readAll(reader)
      return isAll
    } catch (error) {
      // Reading was cancelled while the source was failing: the next owner of the shards reads it.
      if (this.#isOff) return false
      if (!isReprise(error, 'POSITION_GONE')) throw error
      // The store was restored to an older copy: the next owner of the shards resumes from the restored state.
      for (const shard of this.shards) await shard.abandon(error)
      return false
    } finally {
      // A source that does not end when it is closed must not keep the job from ending.
      if (isAll || !this.#job.source.acknowledges || this.shards.every(({ lost }) => lost)) await this.end()
    }
  }

  /** Stops reading. */
  cancel(reason: RepriseError): void {
    this.#controller.abort(reason)
    this.#interrupt?.('stopped')
  }

  /** Closes the source. Messages whose items were settled are acknowledged before, and the others released. */
  async end(): Promise<void> {
    await this.#reader?.close()
  }

  /** Letters may have been redriven: they are processed next, also while the source has nothing. */
  lettersChanged(): void {
    this.#hasRedriven = true
    this.#interrupt?.('redriven')
  }

  get #isOff(): boolean {
    if (this.#items.isStopping || this.#controller.signal.aborted) return true
    // Called before every item.
    for (const shard of this.shards) if (!shard.isLeaving && !shard.lost) return false
    return true
  }

  /** Sleeps in short intervals: shards may be lost meanwhile. */
  async #pause(ms: number): Promise<void> {
    const { clock } = this.#kernel
    for (const until = clock.elapsed() + ms; !this.#isOff; ) {
      const left = until - clock.elapsed()
      if (left <= 0) return
      await sleep(clock, Math.min(left, 250))
    }
    throw new RepriseError('ABORTED', 'the source is no longer read')
  }

  async #readAll(reader: PatientReader<T>): Promise<boolean> {
    let ahead: Promise<Chunk<T> | null> | Chunk<T> | null = reader.next()
    for (;;) {
      if (ahead instanceof Promise) this.#readingSince = this.#kernel.clock.elapsed()
      const chunk: Chunk<T> | null | 'stopped' = ahead instanceof Promise ? await this.#waitFor(ahead) : ahead
      this.#readingSince = null
      if (chunk === 'stopped') return false
      if (!chunk) return true
      // The next chunk is fetched while this one is processed.
      ahead = reader.next()
      if (ahead instanceof Promise) ahead.catch(() => undefined)
      if (!(await this.#work(chunk))) return false
      this.#ordinal += chunk.items.length - (chunk.repeated ?? 0)
      if (chunk.after) {
        const cursor = { position: chunk.after.position, ordinal: this.#ordinal }
        for (const shard of this.shards) {
          shard.passed(cursor)
          this.#items.noteMoves(shard)
        }
      }
    }
  }

  /** Redriven letters are processed while the source has nothing. */
  async #waitFor<V>(pending: Promise<V>): Promise<V | 'stopped'> {
    for (;;) {
      const came = await this.#orInterrupt(pending)
      this.#interrupt = null
      if (came !== 'redriven') return came
      await this.redrive()
    }
  }

  /** The source may take long to answer; stopping does not wait for it. */
  #orInterrupt<V>(pending: Promise<V>): Promise<V | Interruption> {
    const { signal } = this.#controller
    if (signal.aborted) return Promise.resolve('stopped')
    if (this.#hasRedriven) {
      this.#hasRedriven = false
      return Promise.resolve('redriven')
    }
    return new Promise((resolve, reject) => {
      // Not a listener of the signal: adding and removing one costs more than a short item.
      this.#interrupt = (why) => {
        this.#hasRedriven = false
        resolve(why)
      }
      pending.then(resolve, reject)
    })
  }

  async #work(chunk: Chunk<T>): Promise<boolean> {
    for (let i = 0; i < chunk.items.length; i++) {
      if (this.#isOff) return false
      const isRepeated = chunk.repeated !== undefined && i < chunk.repeated
      const receipt = chunk.receipts?.[i] ?? null
      const unread = chunk.unread?.has(i) ? { error: chunk.unread.get(i) } : this.#unkeyed(chunk.items[i]!, receipt)
      const task =
        unread && receipt
          ? this.#taskFor(receipt.stored as T, receipt.key, isRepeated, receipt, true)
          : this.#taskFor(chunk.items[i]!, chunk.keys?.[i] ?? receipt?.id ?? undefined, isRepeated, receipt)
      if (task && unread) await this.#items.bury(task, unread.error)
      else if (task) {
        if (!this.#items.tryStart(task) && !(await this.#items.admit(task))) return false
      } else if ((i & 63) === 0) await this.#yieldToLoop()
    }
    return true
  }

  /** A message of a queue for which the user's key or version fails is unreadable: it must not stop the others. */
  #unkeyed(item: T, receipt: Receipt | null): { readonly error: unknown } | null {
    if (!receipt) return null
    const { key, version } = this.#job
    try {
      if (key) identify(this.#job, item, undefined)
      version?.(item)
      return null
    } catch (error) {
      return { error }
    }
  }

  #taskFor(
    item: T,
    own: string | undefined,
    isRepeated: boolean,
    receipt: Receipt | null,
    isUnread = false,
  ): Task<T> | null {
    if (!isRepeated) this.#read += 1
    const skipped = () => (isRepeated ? null : this.#items.skipped())
    const key = isUnread ? own! : identify(this.#job, item, own)
    const print = fingerprint(key)
    const shard = this.#byIndex.get(this.#job.shards === 1 ? 0 : shardOf(print, this.#job.shards))
    // Another process, or another pass, processes the rest.
    if (!shard || shard.isLeaving || shard.lost) {
      receipt?.released()
      return null
    }
    const version = this.#job.version && !isUnread ? this.#job.version(item) : ''
    if (shard.inFlight.has(key, print)) {
      if (receipt) shard.inFlight.get(key, print)!.receipt?.join(receipt)
      return skipped()
    }
    const letter = shard.state.dead.size > 0 ? shard.state.dead.get(key) : undefined
    if (shard.isFinished(key, print, version) || (letter && letter.version === version)) {
      // The earlier acknowledgement was lost.
      receipt?.settled()
      return skipped()
    }
    return new Task(item, key, print, version, shard, shard.marks.tip, receipt)
  }

  /** Redriven letters are processed first. Returns true if an item was started. */
  async redrive(): Promise<boolean> {
    let count = 0
    for (const shard of this.shards) {
      if (shard.state.redrive.size === 0 || shard.lost) continue
      for (const [key, { item: stored, hasItem, unread }] of [...shard.state.redrive.entries()]) {
        const print = fingerprint(key)
        if (!hasItem || this.#isOff || shard.inFlight.has(key, print)) continue
        const item = unread ? await this.#readAgain(stored, key, shard) : (stored as T)
        if (item === null) continue
        const version = this.#job.version ? this.#job.version(item) : ''
        const task = new Task(item, key, print, version, shard, null)
        count += 1
        if (!(await this.#items.admit(task))) return false
      }
    }
    if (count > 0) this.#items.flushBatch()
    return count > 0
  }

  /** Reads the item of a letter that was unreadable. Null: it still is, or it does not belong to this job. */
  async #readAgain(stored: unknown, key: string, shard: Shard<Task<T>>): Promise<T | null> {
    const task = () => new Task(stored as T, key, fingerprint(key), '', shard, null)
    try {
      const { source } = this.#job
      const item = source.readAgain ? source.readAgain(stored) : (stored as T)
      if (item === null) this.#items.pass(task())
      return item
    } catch (error) {
      await this.#items.bury(task(), error)
      return null
    }
  }

  /** Skipping can take seconds: heartbeats and commits must run in between. */
  async #yieldToLoop(): Promise<void> {
    const now = this.#kernel.clock.elapsed()
    if (now - this.#breathAt < breathEveryMs) return
    await new Promise<void>((resolve) => this.#kernel.clock.soon(resolve))
    this.#breathAt = this.#kernel.clock.elapsed()
  }
}

export function shardOf(print: string, shards: number): number {
  return ((print.charCodeAt(14) << 8) | print.charCodeAt(15)) % shards
}

const keyLengthMax = 4096

/** The key of an item: from the user's function, else from the source, else the item itself if it is text or a number. */
function identify<T>(
  job: { readonly key: ((item: T) => string | number) | null },
  item: T,
  own: string | undefined,
): string {
  const given: unknown = job.key ? job.key(item) : (own ?? item)
  refuseThenable(given, 'key of a job', 'compute it from the item alone, or set the key of the item in the source')
  if (typeof given === 'string') {
    if (given.length > 0 && given.length <= keyLengthMax) return given
    throw refuse(`the key of an item must have 1 to ${keyLengthMax} characters (got ${given.length})`)
  }
  if (typeof given === 'number' && Number.isFinite(given)) return String(given)
  if (typeof given === 'bigint') return String(given)
  throw refuse(
    job.key
      ? `the key of an item must be a string or a number (got ${typeOf(given)})`
      : 'items must have a key: set `key: (item) => …` in the job',
  )
}

function typeOf(value: unknown): string {
  return value === null ? 'null' : typeof value
}

function refuse(what: string): RepriseError {
  return new RepriseError('INVALID_ARGUMENT', what)
}
