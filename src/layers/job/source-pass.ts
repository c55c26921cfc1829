// One pass over the source for some shards of a job: reads items, skips finished ones, starts the rest within the
// limits, and ends when every item it read is settled. It does not handle rounds or other processes.

import { isReprise, RepriseError } from '../../core/errors.ts'
import { refuseThenable } from '../../core/synchronous.ts'
import type { Host } from '../../engine/host/host.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import { sleep } from '../../lib/waiting.ts'
import type { Cursor } from './entries.ts'
import { fingerprint } from './fingerprint.ts'
import type { ResolvedJob } from './options.ts'
import { PatientReader } from './patient-reader.ts'
import type { Shard } from './shard.ts'
import type { Chunk } from './source.ts'
import { Task } from './task.ts'
import type { Workbench } from './workbench.ts'

const breathEveryMs = 8

export class Pass<T> {
  readonly shards: readonly Shard<Task<T>>[]
  readonly #engine: Host
  readonly #kernel: Kernel
  readonly #job: ResolvedJob<T>
  readonly #bench: Workbench<T>
  readonly #byIndex = new Map<number, Shard<Task<T>>>()
  readonly #controller = new AbortController()
  #stopWaiting: (() => void) | null = null
  #reader: PatientReader<T> | null = null
  #ordinal = 0
  #read = 0
  #breathAt = 0
  #readingSince: number | null = null

  constructor(engine: Host, job: ResolvedJob<T>, shards: readonly Shard<Task<T>>[], bench: Workbench<T>) {
    this.#engine = engine
    this.#kernel = engine.kernel
    this.#job = job
    this.shards = shards
    this.#bench = bench
    for (const shard of shards) this.#byIndex.set(shard.index, shard)
  }

  /** The number of source items that this pass has read. */
  get read(): number {
    return this.#read
  }

  /**
   * Monotonic time since when the pass waits for the source; null if it does not. A followed feed may be silent for
   * long.
   */
  get readingSince(): number | null {
    return this.#job.source.kind === 'feed' ? null : this.#readingSince
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
    }
    this.#reader = new PatientReader(this.#kernel, this.#job, start?.position, context, {
      onFailure: (error, attempt, next) => this.#bench.sourceFailed(error, attempt, next),
      pause: (ms) => this.#pause(ms),
    })
    try {
      return await this.#readAll(this.#reader)
    } catch (error) {
      // Reading was cancelled while the source was failing: the next owner of the shards reads it.
      if (this.#isOff) return false
      if (!isReprise(error, 'POSITION_GONE')) throw error
      // The store was restored to an older copy: the next owner of the shards resumes from the restored state.
      for (const shard of this.shards) await shard.abandon(error)
      return false
    } finally {
      // A source that does not end when it is closed must not keep the job from ending.
      await this.#reader.close()
    }
  }

  /** Stops reading. */
  cancel(reason: RepriseError): void {
    this.#controller.abort(reason)
    this.#stopWaiting?.()
  }

  get #isOff(): boolean {
    if (this.#bench.isStopping || this.#controller.signal.aborted) return true
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
    throw new RepriseError('ABORTED', 'the source is not read any further')
  }

  async #readAll(reader: PatientReader<T>): Promise<boolean> {
    let ahead: Promise<Chunk<T> | null> | Chunk<T> | null = reader.next()
    for (;;) {
      if (ahead instanceof Promise) this.#readingSince = this.#kernel.clock.elapsed()
      const chunk = ahead instanceof Promise ? await this.#orStop(ahead) : ahead
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
          this.#bench.noteMoves(shard)
        }
      }
    }
  }

  /** The source may take long to answer; stopping does not wait for it. */
  #orStop<V>(pending: Promise<V>): Promise<V | 'stopped'> {
    const { signal } = this.#controller
    if (signal.aborted) return Promise.resolve('stopped')
    return new Promise((resolve, reject) => {
      // Not a listener of the signal: adding and removing one costs more than a short item.
      this.#stopWaiting = () => resolve('stopped')
      pending.then(resolve, reject)
    })
  }

  async #work(chunk: Chunk<T>): Promise<boolean> {
    for (let i = 0; i < chunk.items.length; i++) {
      if (this.#isOff) return false
      const isRepeated = chunk.repeated !== undefined && i < chunk.repeated
      const task = this.#taskFor(chunk.items[i]!, chunk.keys?.[i], isRepeated)
      if (task && chunk.unread?.has(i)) await this.#bench.bury(task, chunk.unread.get(i))
      else if (task) {
        if (!this.#bench.tryStart(task) && !(await this.#bench.admit(task))) return false
      } else if ((i & 63) === 0) await this.#yieldToLoop()
    }
    return true
  }

  #taskFor(item: T, own: string | undefined, isRepeated: boolean): Task<T> | null {
    if (!isRepeated) this.#read += 1
    const skipped = () => (isRepeated ? null : this.#bench.skipped())
    const key = identify(this.#job, item, own)
    const print = fingerprint(key)
    const shard = this.#byIndex.get(this.#job.shards === 1 ? 0 : shardOf(print, this.#job.shards))
    // Another process, or another pass, processes the rest.
    if (!shard || shard.isLeaving || shard.lost) return null
    const version = this.#job.version ? this.#job.version(item) : ''
    if (shard.inFlight.has(key, print)) return skipped()
    if (shard.isFinished(key, print, version)) return skipped()
    const letter = shard.state.dead.size > 0 ? shard.state.dead.get(key) : undefined
    if (letter && letter.version === version) return skipped()
    return new Task(item, key, print, version, shard, shard.marks.tip)
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
        if (!(await this.#bench.admit(task))) return false
      }
    }
    if (count > 0) this.#bench.flushBatch()
    return count > 0
  }

  /** Reads the item of a letter that was unreadable. Null: it still is, or it does not belong to this job. */
  async #readAgain(stored: unknown, key: string, shard: Shard<Task<T>>): Promise<T | null> {
    const task = () => new Task(stored as T, key, fingerprint(key), '', shard, null)
    try {
      const { source } = this.#job
      const item = source.readAgain ? source.readAgain(stored) : (stored as T)
      if (item === null) this.#bench.pass(task())
      return item
    } catch (error) {
      await this.#bench.bury(task(), error)
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
