// A level with its bounds: how long it may take, when it is left alone, how many uploads wait for it. Whatever goes wrong there
// is a miss or an upload that was not made, told once, and never an error of the one who asked.

import { Breaker } from '../../../core/calls/breaker.ts'
import { type ErrorCode, RepriseError } from '../../../core/errors.ts'
import type { Clock } from '../../../core/store/ports.ts'
import { unlessAborted } from '../../base/aborting.ts'
import { type CacheLevel, type LevelAccess, LevelError } from './level.ts'

export interface GuardPorts {
  readonly clock: Clock
  /** Told of what went wrong, once until it goes well again. */
  readonly problem: (error: RepriseError) => void
}

/** What was found, until `settle` says whether it was good. */
export interface Fetched {
  readonly scope: string
  readonly body: AsyncIterable<Uint8Array>
  settle(error: unknown): void
}

/**
 * After two failures in a row, or one wait in vain, it is left alone for half a minute, then for twice as long each time.
 */
const breaks = { failures: 2, pauseMs: 30_000, pauseMaxMs: 600_000 }
/** A level that gives or takes less than this per second, all in all, is too slow to be of use. */
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
  /** Apart: a level that answers may still take nothing. */
  readonly #reads = new Breaker(breaks)
  readonly #writes = new Breaker(breaks)
  readonly #waiting: Upload[] = []
  readonly #under = new Set<Promise<void>>()
  #access: Promise<LevelAccess> | null = null
  /** Its credentials are refused: for reading too, or for writing. */
  #isOff = false
  #isReadOnly = false
  readonly #told = new Set<string>()

  constructor(level: CacheLevel, timeoutMs: number, ports: GuardPorts) {
    this.#level = level
    this.#timeoutMs = timeoutMs
    this.#ports = ports
  }

  get name(): string {
    return this.#level.name
  }

  /** Null: there is none, or it cannot be asked now. Whoever gets one settles it. */
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

  /** Put in the background. `body` is opened when its turn comes; null: it is not there any more. */
  upload(upload: Upload): void {
    if (this.#isOff || this.#isReadOnly) return
    if (this.#waiting.length >= uploadsMax) {
      this.tell('full', 'OVERLOADED', `more than ${uploadsMax} results wait to be sent: some are not`)
      return
    }
    this.#waiting.push(upload)
    this.#work()
  }

  /** Resolves when nothing is on its way any more. */
  async settled(): Promise<void> {
    while (this.#under.size > 0) await Promise.allSettled(this.#under)
  }

  /** Once per reason, until it goes well again. */
  tell(reason: string, code: ErrorCode, why: string, cause?: unknown): void {
    if (this.#told.has(reason)) return
    this.#told.add(reason)
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
      // What cannot be read here says nothing about the level.
      if (own !== null) this.#writes.left(call)
      else if (error instanceof LevelError && error.kind === 'refused') {
        this.#isReadOnly = true
        this.#writes.left(call)
        this.tell('read-only', error.code, `nothing is sent: ${error.message}`, error)
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

  /** What its credentials may do: asked once, by whoever comes first. */
  async #known(watch: Watch): Promise<LevelAccess> {
    this.#access ??= this.#level.access(watch.signal)
    const asked = this.#access
    try {
      return await watch.bounded(asked)
    } catch (error) {
      if (this.#access === asked) this.#access = null
      throw error
    }
  }

  #settled(what: 'read' | 'write', breaker: Breaker, call: object, error: unknown): void {
    if (error === null) {
      breaker.succeeded()
      this.#told.delete(what)
    } else if (error instanceof LevelError && error.kind === 'unfit') {
      this.tell('unfit', error.code, error.message, error)
    } else if (error instanceof LevelError && error.kind === 'refused') {
      this.#isOff = true
      this.tell('off', error.code, `${error.message}: going on without it`, error)
    } else {
      const why = error instanceof Error ? error.message : String(error)
      const code = codeOf(error)
      // Whoever waited in vain once need not do it a second time.
      breaker.failed(this.#ports.clock.elapsed(), call, code === 'TIMEOUT')
      // Whoever was told that it is down knows that nothing is sent.
      const isKnown = what === 'write' && this.#told.has('read')
      const so = what === 'read' ? 'going on without it' : 'some results are not sent'
      if (!isKnown) this.tell(what, code, `${why}: ${so}`, error)
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

/** What came and is not what was sent is MALFORMED. */
function codeOf(error: unknown): ErrorCode {
  return error instanceof LevelError || error instanceof RepriseError ? error.code : 'STORE_UNREACHABLE'
}

/** Aborts what stands still for too long, or moves too slowly to come to an end. Only waiting for the level counts. */
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

  /** Also where the level does not heed its signal. */
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
    // All of it is read back there before it is visible.
    this.#wait((this.#bytes / leastPerSecond) * 1000)
  }

  /** Lets go of what was not read to its end. */
  end(): void {
    this.#arrived()
    this.#ending.abort(new LevelError('fault', 'it was let go'))
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
