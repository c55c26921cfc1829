// Messages between shards. A commit puts them into the outbox of its own shard, in its own transaction; the committing
// process then carries them over, oldest first, and removes them from the outbox once they have arrived. The next
// heartbeat of any process finds messages left by a dead one. A message arrives once, because its id is known at its
// destination.

import type { Head, Store } from '../../core/store/ports.ts'
import { isOfShards, outboxFor } from '../../core/store/shards.ts'
import { realTime, within } from '../../lib/waiting.ts'
import { fromOutbox } from './outbox-message.ts'
import { byReceiver } from './receivers.ts'
import type { ShardMap } from './shard-map.ts'

const atOnce = 500
/** How long a sender waits for its messages to arrive; after that they arrive later. */
const waitMs = 2000

export class Relay {
  readonly #shardMap: ShardMap
  readonly #running = new Map<string, Promise<void>>()
  readonly #next = new Map<string, Promise<void>>()
  #isClosed = false

  constructor(shardMap: ShardMap) {
    this.#shardMap = shardMap
  }

  /** Everything that was in the outbox at the time of the call has arrived when it resolves. */
  carry(from: number, to: number): Promise<void> {
    const key = `${from} ${to}`
    const running = this.#running.get(key)
    if (!running) return this.#start(key, from, to)
    // The running one may have read the outbox before: another follows it, for all callers that wait meanwhile.
    const waiting = this.#next.get(key)
    if (waiting) return waiting
    const next = running
      .catch(() => undefined)
      .then(() => {
        this.#next.delete(key)
        return this.#start(key, from, to)
      })
    this.#next.set(key, next)
    next.catch(() => undefined)
    return next
  }

  /** The same with a time limit: an unavailable shard does not stop the others. */
  async carryPatiently(from: number, to: number): Promise<void> {
    // Processes that know a newly added shard carry its messages.
    if (this.#shardMap.shards[to]?.isAway !== false) return
    await within(
      realTime,
      waitMs,
      this.carry(from, to).catch(() => undefined),
    )
  }

  /** Carries messages that dead processes left in their outboxes. */
  async sweep(): Promise<void> {
    const { shards, count } = this.#shardMap
    await Promise.all(
      shards.map(async (shard, from) => {
        if (shard.isAway || count === 1) return
        const others = shards.filter(({ index }) => index !== from)
        const heads = await shard.askNow((store) => store.head(others.map(({ index }) => outboxFor(index))))
        await Promise.all(
          others.map(({ index, isAway }, i) => ((heads[i]?.mail ?? 0) > 0 && !isAway ? this.carry(from, index) : null)),
        )
      }),
    )
  }

  /** True if all outboxes are empty. */
  async isIdle(): Promise<boolean> {
    const { shards } = this.#shardMap
    const mail = await Promise.all(
      shards.map(async (shard, from) => {
        const others = shards.filter(({ index }) => index !== from)
        const heads = await shard.askNow((store) => store.head(others.map(({ index }) => outboxFor(index))))
        return heads.reduce((sum, head) => sum + (head?.mail ?? 0), 0)
      }),
    )
    return mail.every((count) => count === 0)
  }

  /** When the oldest message of any outbox was sent. Null: there is none. */
  async waitingSince(): Promise<number | null> {
    let oldest: number | null = null
    for (const [from, shard] of this.#shardMap.shards.entries()) {
      for (const { index } of this.#shardMap.shards) {
        if (index === from) continue
        const { messages } = await shard.askNow((store) => store.inbox(outboxFor(index), 1))
        for (const { sentAt } of messages) oldest = Math.min(oldest ?? sentAt, sentAt)
      }
    }
    return oldest
  }

  /** Forwards mail at a signpost, from a sender that did not know that it is one. `head` is claimed. */
  async forward(shard: number, head: Head, target: number): Promise<void> {
    const { shards, newOperation } = this.#shardMap
    const { timeline, epoch } = head
    const { messages } = await shards[shard]!.askNow((store) => store.inbox(timeline, atOnce))
    if (messages.length > 0) {
      const send = messages.map(({ sentAt: _, ...message }) => message)
      await this.#shardMap
        .shard(target)
        .askNow((store) => store.commit([{ operation: newOperation(), guard: null, send }]))
    }
    const consume = messages.map(({ id }) => id)
    await shards[shard]!.askNow((store) =>
      store.commit([{ operation: newOperation(), guard: { timeline, epoch }, consume, release: true }]),
    )
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.allSettled([...this.#running.values()])
  }

  #start(key: string, from: number, to: number): Promise<void> {
    const run = this.#carry(from, to).finally(() => this.#running.delete(key))
    this.#running.set(key, run)
    run.catch(() => undefined)
    return run
  }

  async #carry(from: number, to: number): Promise<void> {
    const { shards, newOperation } = this.#shardMap
    const timeline = outboxFor(to)
    const ask = <T>(call: (store: Store) => T | Promise<T>) => Promise.resolve(shards[from]!.askNow(call))
    while (!this.#isClosed) {
      const [[head], { messages }] = await Promise.all([
        ask((store) => store.head([timeline])),
        ask((store) => store.inbox(timeline, atOnce)),
      ])
      if (!head || messages.length === 0) return
      const letters = messages.map(fromOutbox).filter((message) => !isOfShards(message.to))
      const { reachable: send } = await byReceiver(this.#shardMap, letters)
      if (send.length > 0) {
        const [carried] = await shards[to]!.askNow((store) =>
          store.commit([{ operation: newOperation(), guard: null, send }]),
        )
        // The life of a receiver ended since the read: the next read omits that letter.
        if (!carried!.ok && carried!.code === 'NOT_FOUND') continue
      }
      const consume = messages.map(({ id }) => id)
      // Refused: another process has carried some of them, too. The next read finds the rest.
      await ask((store) =>
        store.commit([{ operation: newOperation(), guard: { timeline, epoch: head.epoch }, consume }]),
      )
      if (messages.length < atOnce) return
    }
  }
}
