// A level with its bounds: its time limit, when it is skipped, and how many uploads may wait for it. Any failure there is
// a miss or a skipped upload, reported once, and never an error for the caller.

import { type ErrorCode, RepriseError } from '../../../core/errors.ts'
import { Breaker } from '../../../core/retry/breaker.ts'
import type { Clock } from '../../../core/store/ports.ts'
import { unlessAborted } from '../../base/abortable-wait.ts'
import { type CacheLevel, type LevelAccess, LevelError } from './level.ts'

export interface GuardPorts {
  readonly clock: Clock
  /** Receives a failure, once until the level works again. */
  readonly problem: (error: RepriseError) => void
}

/** A fetched entry; `settle` reports whether it was usable. */
export interface Fetched {
  readonly scope: string
  readonly body: AsyncIterable<Uint8Array>
  settle(error: unknown): void
}

/** After two failures in a row, or one timeout, the level is skipped for half a minute, then for twice as long each time. */
const breaks = { failures: 2, pauseMs: 30_000, pauseMaxMs: 600_000 }
/** A level that transfers less than this per second on average is too slow to be useful. */
const leastPerSecond = 16 * 1024
const uploadsMax = 1000
const uploadsAtOnce = 4

interface Upload {
  readonly key: string
  readonly body: () => Promise<AsyncIterable<Uint8Array> | null>
  readonly mayPut: (access: LevelAccess) => boolean
}

export class GuardedLevel {
  readonly #level: CacheLevel
  readonly #ports: GuardPorts
  readonly #timeoutMs: number
  /** Separate, because a level that can be read may still refuse writes. */
  readonly #reads = new Breaker(breaks)
  readonly #writes = new Breaker(breaks)
  readonly #waiting: Upload[] = []
  readonly #under = new Set<Promise<void>>()
  #access: Promise<LevelAccess> | null = null
  /** Its credentials are refused: for everything, or for writing. */
  #isOff = false
  #isReadOnly = false
  readonly #reasonsReported = new Set<string>()

  constructor(level: CacheLevel, timeoutMs: number, ports: GuardPorts) {
    this.#level = level
    this.#timeoutMs = timeoutMs
    this.#ports = ports
  }

  get name(): string {
    return this.#level.name
  }

  /** Null: not found, or the level is skipped now. The caller must settle the result. */
  async fetch(key: string): Promise<Fetched | null> {
    const call = {}
    if (this.#isOff || !this.#mayStart(this.#reads, call)) return null
    const watch = new Watch(this.#ports.clock, this.#timeoutMs, this.name)
    const settle = (error: unknown) => {
      watch.end()
      this.#settled('read', this.#reads, call, error)
    }
    try {
      const { scope } = await this.#known(watch)
      const entry = await watch.bounded(this.#level.get(key, watch.signal))
      if (entry) return { scope: entry.scope ?? scope, body: watch.read(entry.body), settle }
      settle(null)
    } catch (error) {
      settle(error)
    }
    return null
  }

  /** Uploads in the background. `body` is opened when its turn comes; null: the entry no longer exists. */
  upload(upload: Upload): void {
    if (this.#isOff || this.#isReadOnly) return
    if (this.#waiting.length >= uploadsMax) {
      this.report('full', 'OVERLOADED', `more than ${uploadsMax} results wait to be sent: some are dropped`)
      return
    }
    this.#waiting.push(upload)
    this.#work()
  }

  /** Resolves when no upload is waiting or running. */
  async settled(): Promise<void> {
    while (this.#under.size > 0) await Promise.allSettled(this.#under)
  }

  /** Reported once per reason, until the level works again. */
  report(reason: string, code: ErrorCode, why: string, cause?: unknown): void {
    if (this.#reasonsReported.has(reason)) return
    this.#reasonsReported.add(reason)
    this.#ports.problem(new RepriseError(code, `the cache ${this.name}: ${why}`, { cache: this.name }, cause))
  }

  #work(): void {
    while (this.#under.size < uploadsAtOnce && this.#waiting.length > 0) {
      const done: Promise<void> = this.#put(this.#waiting.shift()!).finally(() => {
        this.#under.delete(done)
        this.#work()
      })
      this.#under.add(done)
    }
  }

  async #put({ key, body, mayPut }: Upload): Promise<void> {
    const call = {}
    if (this.#isOff || this.#isReadOnly || this.#isDown || !this.#mayStart(this.#writes, call)) return
    const settle = (error: unknown) => this.#settled('write', this.#writes, call, error)
    const watch = new Watch(this.#ports.clock, this.#timeoutMs, this.name)
    let own: unknown = null
    try {
      const access = await this.#known(watch)
      if (!access.mayWrite || !mayPut(access)) return settle(null)
      const opened = await body().catch((error) => {
        own = error
        throw error
      })
      if (!opened) return settle(null)
      const sent = noting(watch.sent(opened, this.#level.pieceBytes ?? 0), (error) => {
        own = error
      })
      await watch.bounded(this.#level.put(key, sent, watch.signal))
      settle(null)
    } catch (error) {
      // A local read error does not count against the level.
      if (own !== null) this.#writes.left(call)
      else if (error instanceof LevelError && error.kind === 'refused') {
        this.#isReadOnly = true
        this.#writes.left(call)
        this.report('read-only', error.code, `nothing is sent: ${error.message}`, error)
      } else settle(error)
    } finally {
      watch.end()
    }
  }

  #mayStart(breaker: Breaker, call: object): boolean {
    return breaker.tryStart(this.#ports.clock.elapsed(), call) === 0
  }

  get #isDown(): boolean {
    return (this.#reads.openUntil ?? 0) > this.#ports.clock.elapsed()
  }

  /** The permissions of its credentials, requested once by the first caller. */
  async #known(watch: Watch): Promise<LevelAccess> {
    this.#access ??= this.#level.access(watch.signal)
    const current = this.#access
    try {
      return await watch.bounded(current)
    } catch (error) {
      if (this.#access === current) this.#access = null
      throw error
    }
  }

  #settled(what: 'read' | 'write', breaker: Breaker, call: object, error: unknown): void {
    if (error === null) {
      breaker.succeeded()
      this.#reasonsReported.delete(what)
    } else if (error instanceof LevelError && error.kind === 'unfit') {
      this.report('unfit', error.code, error.message, error)
    } else if (error instanceof LevelError && error.kind === 'refused') {
      this.#isOff = true
      this.report('off', error.code, `${error.message}: continuing without it`, error)
    } else {
      const why = error instanceof Error ? error.message : String(error)
      const code = codeOf(error)
      // One timeout is enough to skip the level.
      breaker.failed(this.#ports.clock.elapsed(), call, code === 'TIMEOUT')
      // The failure of reads was reported already, which implies that nothing is sent.
      const isKnown = what === 'write' && this.#reasonsReported.has('read')
      const so = what === 'read' ? 'continuing without it' : 'some results are not sent'
      if (!isKnown) this.report(what, code, `${why}: ${so}`, error)
    }
    breaker.left(call)
  }
}

async function* noting(body: AsyncIterable<Uint8Array>, failed: (error: unknown) => void): AsyncGenerator<Uint8Array> {
  try {
    yield* body
  } catch (error) {
    failed(error)
    throw error
  }
}

/** MALFORMED: the content received differs from the content sent. */
function codeOf(error: unknown): ErrorCode {
  return error instanceof LevelError || error instanceof RepriseError ? error.code : 'STORE_UNREACHABLE'
}

/** Aborts a transfer that stalls for too long, or is too slow to finish. Only waiting for the level counts. */
class Watch {
  readonly #ending = new AbortController()
  readonly #clock: Clock
  readonly #timeoutMs: number
  readonly #name: string
  #waitedMs = 0
  #bytes = 0
  #waiting: { readonly since: number; readonly cancel: () => void } | null = null

  constructor(clock: Clock, timeoutMs: number, name: string) {
    this.#clock = clock
    this.#timeoutMs = timeoutMs
    this.#name = name
  }

  get signal(): AbortSignal {
    return this.#ending.signal
  }

  /** Bounded even if the level ignores its signal. */
  async bounded<T>(work: Promise<T>): Promise<T> {
    this.#wait()
    try {
      return await unlessAborted(work, this.signal, this.#name)
    } catch (error) {
      throw this.signal.aborted ? this.signal.reason : error
    } finally {
      this.#arrived()
    }
  }

  async *read(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    const pieces = body[Symbol.asyncIterator]()
    for (;;) {
      const { done, value } = await this.bounded(pieces.next())
      if (done) return
      this.#bytes += value.length
      yield value
    }
  }

  async *sent(body: AsyncIterable<Uint8Array>, pieceBytes: number): AsyncGenerator<Uint8Array> {
    const pieceMs = (pieceBytes / leastPerSecond) * 1000
    for await (const piece of body) {
      this.#bytes += piece.length
      this.#wait(pieceMs)
      yield piece
    }
    // The level reads all of it back before it becomes visible.
    this.#wait((this.#bytes / leastPerSecond) * 1000)
  }

  /** Aborts a transfer that was not read to its end. */
  end(): void {
    this.#arrived()
    this.#ending.abort(new LevelError('fault', 'it was abandoned'))
  }

  #wait(moreMs = 0): void {
    this.#arrived()
    const allowedMs = this.#timeoutMs + (this.#bytes / leastPerSecond) * 1000 - this.#waitedMs
    const ms = Math.max(0, Math.min(this.#timeoutMs + moreMs, allowedMs))
    const late = () => {
      const what = `it did not answer in time (${Math.round(ms)} ms)`
      this.#ending.abort(new LevelError('fault', what, undefined, 'TIMEOUT'))
    }
    this.#waiting = { since: this.#clock.elapsed(), cancel: this.#clock.after(ms, late) }
  }

  #arrived(): void {
    if (!this.#waiting) return
    this.#waitedMs += this.#clock.elapsed() - this.#waiting.since
    this.#waiting.cancel()
    this.#waiting = null
  }
}
