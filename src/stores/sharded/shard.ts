// One of the stores that a sharded store is made of. It may be away: then only what lives on it waits. An away shard is left
// out where all are asked (claims, heartbeats, the feed), and looked for again now and then.

import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Store } from '../../core/ports.ts'

/** Opens the store of one shard; called again after it could not be opened. */
export type OpenShard = () => Promise<Store>

/** While it is away, the shard is asked this often. */
const probeMs = 1000

export class Shard {
  /** Its number in the map. */
  index: number
  /** For people; without credentials. */
  readonly name: string
  readonly #open: OpenShard
  #store: Store | null = null
  #opening: Promise<Store> | null = null
  #awaySince: number | null = null
  #probedAt = 0
  #isClosed = false
  #check: ((store: Store) => Promise<void>) | null = null
  readonly #whenOpen = new Set<(store: Store) => void>()

  constructor(index: number, name: string, open: OpenShard) {
    this.index = index
    this.name = name
    this.#open = open
  }

  /** As the map has it, whatever the order in which the shards were given. */
  numbered(index: number): this {
    this.index = index
    return this
  }

  /** Nothing is asked of it before this was looked at, once it is back. */
  checked(check: (store: Store) => Promise<void>): void {
    this.#check = check
  }

  get store(): Store | null {
    return this.#store
  }

  /** It did not answer when it was last asked, and nobody has looked since. */
  get isAway(): boolean {
    return this.#awaySince !== null && Date.now() - this.#probedAt < probeMs
  }

  get awaySince(): number | null {
    return this.#awaySince
  }

  /** Calls now or once it is open. */
  whenOpen(call: (store: Store) => void): () => void {
    if (this.#store) call(this.#store)
    else this.#whenOpen.add(call)
    return () => this.#whenOpen.delete(call)
  }

  /** Asks the store; a failure to reach it says which shard it was. */
  ask<T>(call: (store: Store) => T | Promise<T>): T | Promise<T> {
    if (this.#store && this.#awaySince === null && !this.#check) {
      try {
        const answer = call(this.#store)
        return answer instanceof Promise ? answer.catch((error) => this.#failed(error)) : answer
      } catch (error) {
        return this.#failed(error)
      }
    }
    return this.#askAnew(call)
  }

  async #askAnew<T>(call: (store: Store) => T | Promise<T>): Promise<T> {
    this.#probedAt = Date.now()
    try {
      const store = this.#store ?? (await this.#opened())
      await this.#check?.(store)
      this.#check = null
      const answer = await call(store)
      this.#awaySince = null
      return answer
    } catch (error) {
      if (!isUnreachable(error)) this.#awaySince = null
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
    this.#awaySince ??= Date.now()
    this.#probedAt = Date.now()
    throw awayError(this, error)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#whenOpen.clear()
    await this.#opening?.catch(() => undefined)
    await this.#store?.close()
  }
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
