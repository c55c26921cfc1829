// One of the stores that a sharded store is made of. It may be away: then only what lives on it waits. One probe looks for it
// until it is back; meanwhile nobody else tries to reach it, since every attempt may take seconds. Whoever can do without it is
// told at once, and whoever needs it waits for a moment.

import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Clock, Store } from '../../core/store/ports.ts'
import { mapTimeline } from '../../core/store/shards.ts'

/** Opens the store of one shard; called again after it could not be opened. */
export type OpenShard = () => Promise<Store>

export type Timers = Pick<Clock, 'after' | 'elapsed'>

/** While it is away, the shard is looked for this often. */
const probeMs = 1000
/** Whoever needs it waits so long for it to be back. */
const patienceMs = 4000
/** Without an answer for so long it counts as away for those who can do without it. */
const briefMs = 5000
/** Others who come back with it show first that they live; until then nothing of theirs is claimed. */
const settleMs = 1500
/** After this process stood still, what has arrived meanwhile is read before anybody is said to be late. */
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

  /** As the map has it, whatever the order in which the shards were given. */
  numbered(index: number): this {
    this.index = index
    return this
  }

  /** Nothing is asked of it before this was looked at, whenever it is back. */
  checked(check: (store: Store) => Promise<void>): void {
    this.#check = check
  }

  /** It did not answer when the set was opened. */
  startAway(): void {
    this.#goAway(new Error('it was away'))
  }

  get store(): Store | null {
    return this.#store
  }

  get isAway(): boolean {
    return this.#away !== null
  }

  /** It is there, and was not a moment ago. */
  get isSettling(): boolean {
    return this.#isSettling
  }

  /** Why it is away, for those who ask; null: it is there. */
  get reason(): RepriseError | null {
    return this.#away && this.#awayError()
  }

  /** Calls now or once it is open. */
  whenOpen(call: (store: Store) => void): () => void {
    if (this.#store) call(this.#store)
    else this.#whenOpen.add(call)
    return () => this.#whenOpen.delete(call)
  }

  /** Called when it is there again, before anybody else may ask it. What fails there leaves it away. */
  beforeBack(call: (store: Store) => Promise<void>): void {
    this.#beforeBack.push(call)
  }

  /** Called once it is back, and again once it has settled. */
  onBack(call: () => void): () => void {
    this.#onBack.add(call)
    return () => this.#onBack.delete(call)
  }

  /** For whoever needs it. A failure to reach it says which shard it was. */
  ask<T>(call: (store: Store) => T | Promise<T>): T | Promise<T> {
    return this.#away ? this.#askPatiently(call) : this.askNow(call)
  }

  /** For whoever does not wait: rejects at once if it is away. */
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

  /** For whoever can do without it: it has not long to answer. What it does after that is not known. */
  async askBriefly<T>(call: (store: Store) => T | Promise<T>): Promise<T> {
    const answer = this.askNow(call)
    if (!(answer instanceof Promise)) return answer
    let cancel = () => {}
    const late = new Promise<never>((_, reject) => {
      cancel = this.#timers.after(briefMs, () => {
        cancel = this.#timers.after(lateMs, () => {
          this.#goAway(new Error(`no answer for ${briefMs / 1000} s`))
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
      this.#tellBack()
    })
    this.#tellBack()
  }

  #tellBack(): void {
    for (const call of [...this.#onBack]) call()
  }

  /** Another database in its place is said as it is: nobody waits for that to pass. */
  #awayError(): RepriseError {
    const { error } = this.#away!
    return error instanceof RepriseError && !isUnreachable(error) ? error : awayError(this, error)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancelProbe?.()
    this.#whenOpen.clear()
    this.#tellBack()
    await this.#opening?.catch(() => undefined)
    await this.#store?.close()
  }
}

export const systemTimers: Timers = {
  elapsed: () => performance.now(),
  after(delayMs, call, isAwaited = false) {
    const timer = setTimeout(call, delayMs)
    if (!isAwaited) timer.unref()
    return () => clearTimeout(timer)
  },
}

/** Only what lives there waits. */
export function awayError(shard: Pick<Shard, 'index' | 'name'>, cause?: unknown): RepriseError {
  const reason = cause instanceof Error ? `: ${cause.message}` : ''
  return new RepriseError(
    'STORE_UNREACHABLE',
    `shard ${shard.index} (${shard.name}) is away${reason}`,
    { shard: shard.index, location: shard.name },
    cause,
  )
}

export function isUnreachable(error: unknown): boolean {
  return isReprise(error, 'STORE_UNREACHABLE')
}
