// Settings of the whole store (its keys, its tiers, the place of its chunks) are stored with the timeline
// `reprise/store`, on the first shard, and every process needs them to open the set. So every other shard has a copy,
// for when the first is unavailable. A copy is only read: a change needs the first shard, and is copied to the reachable ones;
// the others get it when they are back.

import type { Attribute, Head } from '../../core/store/ports.ts'
import { copiedEpochKey, plainHead, settingsTimeline, storeTimeline } from '../../core/store/shards.ts'
import { Mutex } from '../../lib/waiting.ts'
import { isUnreachable, type Shard } from './shard.ts'
import type { ShardMap } from './shard-map.ts'
import { noDigest, shardsWorker } from './shards-worker.ts'

export class Settings {
  readonly #shardMap: ShardMap
  readonly #isReadOnly: boolean
  readonly #copying = new Mutex()
  #copied = -1

  constructor(shardMap: ShardMap, isReadOnly: boolean) {
    this.#shardMap = shardMap
    this.#isReadOnly = isReadOnly
  }

  /** The head of `reprise/store`, or its newest copy on the reachable shards. */
  async head(): Promise<Head | null> {
    try {
      const [found] = await this.#shardMap.find([storeTimeline], 'askNow')
      const head = found!.head && plainHead(found!.head)
      if (head && head.epoch !== this.#copied) await this.copy()
      return head
    } catch (error) {
      if (!isUnreachable(error)) throw error
      return await this.#newestCopy(error)
    }
  }

  /** Called after a change, and for a shard that is back. One at a time, so that an older change never overtakes a newer one. */
  copy(): Promise<void> {
    if (this.#isReadOnly || this.#shardMap.count === 1) return Promise.resolve()
    return this.#copying.run(() => this.#copy()).catch(() => undefined)
  }

  async #copy(): Promise<void> {
    const [found] = await this.#shardMap.find([storeTimeline], 'askNow')
    const head = found!.head
    if (!head) return
    const others = this.#shardMap.shards.filter((shard) => shard.index !== found!.shard && !shard.isAway)
    const done = await Promise.allSettled(others.map((shard) => this.#copyTo(shard, head)))
    if (others.length === this.#shardMap.count - 1 && done.every(({ status }) => status === 'fulfilled'))
      this.#copied = head.epoch
  }

  async #copyTo(shard: Shard, head: Head): Promise<void> {
    const [old] = await shard.askNow((store) => store.head([settingsTimeline]))
    if (old && epochOf(old) >= head.epoch) return
    const gone = Object.keys(old?.attributes ?? {}).map((key): [string, Attribute | null] => [key, null])
    const attributes = { ...Object.fromEntries(gone), ...head.attributes, [copiedEpochKey]: head.epoch }
    // Refused: another process has just copied it.
    await shard.askNow((store) =>
      store.commit([
        {
          operation: this.#shardMap.newOperation(),
          guard: { timeline: settingsTimeline, epoch: old?.epoch ?? 0 },
          take: { worker: shardsWorker, from: 'anyone', create: { digest: noDigest } },
          release: true,
          attributes,
        },
      ]),
    )
  }

  /** From the reachable shards. Null: nothing was ever stored. */
  async #newestCopy(reason: unknown): Promise<Head | null> {
    const there = this.#shardMap.shards.filter((shard) => !shard.isAway)
    const answers = await Promise.allSettled(
      there.map(async (shard) => (await shard.askNow((store) => store.head([settingsTimeline])))[0] ?? null),
    )
    const given = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []))
    if (given.length === 0) throw reason
    const copies = given.filter((copy) => copy !== null).sort((a, b) => epochOf(b) - epochOf(a))
    const [newest] = copies
    return newest ? { ...plainHead(newest), timeline: storeTimeline, epoch: epochOf(newest) } : null
  }
}

function epochOf({ attributes }: Head): number {
  return Number(attributes[copiedEpochKey] ?? -1)
}
