// One of the stores of a sharded store. While it is unavailable, only its own timelines wait. One probe retries until it is
// back; no other call tries to reach it meanwhile, because every attempt may take seconds. Calls that can do without it
// fail at once, and calls that need it wait for a moment.

import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Clock, Head, Store, TimelineQuery } from '../../core/store/ports.ts'
import { mapTimeline } from '../../core/store/shards.ts'
import { eachPage } from '../../lib/each-page.ts'
import { realTime } from '../../lib/waiting.ts'

/** Opens the store of one shard; called again after a failed attempt. */
export type OpenShard = () => Promise<Store>

export type Timers = Pick<Clock, 'after' | 'elapsed'>

/** While it is unavailable, the shard is probed this often. */
const probeMs = 1000
/** How long a call that needs it waits for its return. */
const patienceMs = 4000
/** Without an answer for this long it counts as away for calls that can do without it. */
const briefMs = 5000
/** After its return, other workers first send a heartbeat; until then, none of their timelines is claimed. */
const settleMs = 1500
/** After this process was suspended, answers that arrived meanwhile are read before a call counts as late. */
const lateMs = 50

export class Shard {
  /** Its number in the map. */
  index: number
  /** For people; without credentials. */
  readonly name: string
  readonly #open: OpenShard
  readonly #timers: Timers
  #store: Store | null = null
  #opening: Promise<Store> | null = null
  #away: { readonly since: number; error: unknown } | null = null
  #cancelProbe: (() => void) | null = null
  #isSettling = false
  #isClosed = false
  #check: ((store: Store) => Promise<void>) | null = null
  readonly #whenOpen = new Set<(store: Store) => void>()
  readonly #beforeBack: ((store: Store) => Promise<void>)[] = []
  readonly #onBack = new Set<() => void>()

  constructor(index: number, name: string, open: OpenShard, timers: Timers = systemTimers) {
    this.index = index
    this.name = name
    this.#open = open
    this.#timers = timers
  }

  /** The number in the map, whatever the order in which the shards were passed. */
  numbered(index: number): this {
    this.index = index
    return this
  }

  /** Checked before the first call after each return. */
  checked(check: (store: Store) => Promise<void>): void {
    this.#check = check
  }

  /** It did not answer when the set was opened. */
  startAway(): void {
    this.#goAway(new Error('it was unreachable'))
  }

  get store(): Store | null {
    return this.#store
  }

  get isAway(): boolean {
    return this.#away !== null
  }

  /** It has just returned. */
  get isSettling(): boolean {
    return this.#isSettling
  }

  /** The reason it is unavailable. Null: it is reachable. */
  get reason(): RepriseError | null {
    return this.#away && this.#awayError()
  }

  /** Calls now, or once it is open. */
  whenOpen(call: (store: Store) => void): () => void {
    if (this.#store) call(this.#store)
    else this.#whenOpen.add(call)
    return () => this.#whenOpen.delete(call)
  }

  /** Called after its return, before any other call. A failure leaves it away. */
  beforeBack(call: (store: Store) => Promise<void>): void {
    this.#beforeBack.push(call)
  }

  /** Called once it is back, and again once it has settled. */
  onBack(call: () => void): () => void {
    this.#onBack.add(call)
    return () => this.#onBack.delete(call)
  }

  /** For calls that need it. An unreachable error names the shard. */
  ask<T>(call: (store: Store) => T | Promise<T>): T | Promise<T> {
    return this.#away ? this.#askPatiently(call) : this.askNow(call)
  }

  /** All its heads that match, in pages. */
  heads(query: Partial<TimelineQuery> = {}): AsyncGenerator<readonly Head[]> {
    return eachPage<Head>((last, limit) =>
      this.ask((store) => store.timelines({ ...query, limit, ...(last && { after: last.timeline }) })),
    )
  }

  /** For calls that do not wait: rejects at once if it is unavailable. */
  askNow<T>(call: (store: Store) => T | Promise<T>): T | Promise<T> {
    if (this.#away) return Promise.reject(this.#awayError())
    if (!this.#store) return this.#askOpened(call)
    try {
      const answer = call(this.#store)
      return answer instanceof Promise ? answer.catch((error) => this.#failed(error)) : answer
    } catch (error) {
      return this.#failed(error)
    }
  }

  /** For calls that can do without it: with a short time limit. The outcome of a late call is unknown. */
  async askBriefly<T>(call: (store: Store) => T | Promise<T>): Promise<T> {
    const answer = this.askNow(call)
    if (!(answer instanceof Promise)) return answer
    let cancel = () => {}
    const late = new Promise<never>((_, reject) => {
      cancel = this.#timers.after(briefMs, () => {
        cancel = this.#timers.after(lateMs, () => {
          this.#goAway(new Error(`no response for ${briefMs / 1000} s`))
          reject(this.#awayError())
        })
      })
    })
    try {
      return await Promise.race([answer, late])
    } finally {
      cancel()
    }
  }

  async #askPatiently<T>(call: (store: Store) => T | Promise<T>): Promise<T> {
    await new Promise<void>((resolve) => {
      const end = () => {
        forget()
        cancel()
        resolve()
      }
      const forget = this.onBack(end)
      const cancel = this.#timers.after(patienceMs, end, true)
    })
    return await this.askNow(call)
  }

  async #askOpened<T>(call: (store: Store) => T | Promise<T>): Promise<T> {
    try {
      return await call(await this.#opened())
    } catch (error) {
      return this.#failed(error)
    }
  }

  #opened(): Promise<Store> {
    this.#opening ??= this.#open()
      .then(async (store) => {
        if (this.#isClosed) await store.close()
        this.#store = store
        for (const call of this.#whenOpen) call(store)
        this.#whenOpen.clear()
        return store
      })
      .finally(() => {
        this.#opening = null
      })
    return this.#opening
  }

  #failed(error: unknown): never {
    if (!isUnreachable(error)) throw error
    this.#goAway(error)
    throw awayError(this, error)
  }

  #goAway(error: unknown): void {
    if (this.#away || this.#isClosed) return
    this.#cancelProbe?.()
    this.#isSettling = false
    this.#away = { since: Date.now(), error }
    this.#probeIn(0)
  }

  #probeIn(delayMs: number): void {
    if (this.#isClosed) return
    this.#cancelProbe = this.#timers.after(delayMs, () => void this.#probe())
  }

  async #probe(): Promise<void> {
    try {
      const store = this.#store ?? (await this.#opened())
      await (this.#check ? this.#check(store) : store.head([mapTimeline]))
      for (const call of this.#beforeBack) await call(store)
    } catch (error) {
      if (this.#away) this.#away.error = error
      this.#probeIn(probeMs)
      return
    }
    this.#away = null
    this.#isSettling = true
    this.#cancelProbe = this.#timers.after(settleMs, () => {
      this.#isSettling = false
      this.#reportBack()
    })
    this.#reportBack()
  }

  #reportBack(): void {
    for (const call of [...this.#onBack]) call()
  }

  /** Another database in its place is reported as such: waiting would not fix that. */
  #awayError(): RepriseError {
    const { error } = this.#away!
    return error instanceof RepriseError && !isUnreachable(error) ? error : awayError(this, error)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancelProbe?.()
    this.#whenOpen.clear()
    this.#reportBack()
    await this.#opening?.catch(() => undefined)
    await this.#store?.close()
  }
}

export const systemTimers: Timers = {
  elapsed: () => performance.now(),
  ...realTime,
}

/** Only timelines on it wait. */
export function awayError(shard: Pick<Shard, 'index' | 'name'>, cause?: unknown): RepriseError {
  const reason = cause instanceof Error ? `: ${cause.message}` : ''
  return new RepriseError(
    'STORE_UNREACHABLE',
    `shard ${shard.index} (${shard.name}) is unreachable${reason}`,
    { shard: shard.index, location: shard.name },
    cause,
  )
}

export function isUnreachable(error: unknown): boolean {
  return isReprise(error, 'STORE_UNREACHABLE')
}
