// A position in the feed of one shard after everything committed before now: that of a run of our own, hidden from
// readers.

import { createHash } from 'node:crypto'
import type { OperationId } from '../../core/coordinate.ts'
import { packEntries } from '../../core/history/entry-run.ts'
import { type FeedPosition, feedStart, type Hash, type Store } from '../../core/store/ports.ts'
import { momentTimeline } from '../../core/store/shards.ts'
import { realTime, sleep } from '../../lib/waiting.ts'
import { noDigest, shardsWorker } from './shards-worker.ts'

const pauseMs = 20
const hash: Hash = (bytes) => new Uint8Array(createHash('sha256').update(bytes).digest())

export class Moments {
  readonly #newOperation: () => OperationId
  /** How far the feed of each shard was read: the next moment is after it. */
  readonly #reached = new Map<number, FeedPosition>()

  constructor(newOperation: () => OperationId) {
    this.#newOperation = newOperation
  }

  async pass(store: Store, shard: number): Promise<FeedPosition> {
    const seq = await this.#append(store)
    const filter = { prefixes: [momentTimeline] }
    for (let after = this.#reached.get(shard) ?? feedStart; ; ) {
      const page = await store.feed(after, filter, 1000)
      const found = page.items.find(({ timeline, run }) => timeline === momentTimeline && run.first === seq)
      after = found?.position ?? page.next
      this.#reached.set(shard, after)
      if (found) return found.position
      // Transactions that began before it are still running: it is not shown yet.
      if (page.isEnd) await sleep(realTime, pauseMs)
    }
  }

  async #append(store: Store): Promise<number> {
    for (;;) {
      const [head] = await store.head([momentTimeline])
      const { seq, digest, epoch } = head ?? { seq: 0, digest: noDigest, epoch: 0 }
      const draft = { type: 'moment', version: 1, time: 0, data: new Uint8Array() }
      const run = packEntries(hash, { before: digest, first: seq + 1, epoch: epoch + 1 }, [draft])
      const [outcome] = await store.commit([
        {
          operation: this.#newOperation(),
          guard: { timeline: momentTimeline, epoch, seq, digest },
          take: { worker: shardsWorker, from: 'anyone', create: { digest: noDigest } },
          release: true,
          run,
        },
      ])
      if (outcome!.ok) return run.first
    }
  }
}
