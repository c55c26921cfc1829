// The remnant of a moved timeline: its signpost keeps its runs, because the feed of that shard has shown them to some
// readers and not to others. They are deleted when the timeline is forgotten, and trimmed when it is.

import { type TimelineId, toHex } from '../../core/coordinate.ts'
import { lastSeq } from '../../core/history/entry-run.ts'
import { guardOf } from '../../core/store/commit-guard.ts'
import type { Commit, Head, Store } from '../../core/store/ports.ts'
import { arrivalsScope, remnantKey, signpostStatus, targetOf } from '../../core/store/shards.ts'
import { type Arrival, arrivalsOn, noteArrival } from './arrivals.ts'
import type { ShardMap } from './shard-map.ts'
import { shardsWorker } from './shards-worker.ts'

const attemptsMax = 10

export class Remnants {
  readonly #shardMap: ShardMap

  constructor(shardMap: ShardMap) {
    this.#shardMap = shardMap
  }

  /**
   * The runs that this timeline left behind, if they are still its own, or belong to no timeline because it is gone.
   * `shard`: its current shard.
   */
  async of(id: TimelineId, shard: number, isGone = false): Promise<Arrival | null> {
    if (shard < this.#shardMap.first) return null
    const [arrival] = await this.#arrivals(shard, [id])
    if (!arrival) return null
    const name = await this.nameOf(arrival.remnant)
    return name === id || (isGone && name === null) ? arrival : null
  }

  /**
   * The current id of the runs that were left under this one: its own, or that of the archive that a later rollback
   * made of it.
   * Null: they were forgotten.
   */
  async nameOf(id: TimelineId): Promise<TimelineId | null> {
    const [found] = await this.#shardMap.find([id])
    const { shard } = found!
    const [arrival] = await this.#arrivals(shard, [id])
    if (!arrival) return null
    return await this.#shardMap.shard(shard).ask(async (store) => {
      const query = { prefix: arrivalsScope, attributes: { [remnantKey]: id }, limit: 1000 }
      const noted = (await store.timelines(query)).map(
        ({ timeline }) => timeline.slice(arrivalsScope.length) as TimelineId,
      )
      // An inactive copy that a signpost points to is the timeline (ShardMap).
      const found = await this.#shardMap.find([...new Set([id, ...noted])])
      const there = found.flatMap(({ head, shard: at }) => (head && at === shard ? head : []))
      let perhaps: TimelineId | null = null
      for (const head of there) {
        const answer = await holds(store, head, arrival)
        if (answer === true) return head.timeline
        if (answer === null) perhaps ??= head.timeline
      }
      return perhaps
    })
  }

  /** Before a rollback: copies the notes to its archive. Notes of an archive that is never made are harmless. */
  async share(id: TimelineId, archive: TimelineId, shard: number): Promise<void> {
    const [arrival] = await this.#arrivals(shard, [id])
    if (!arrival) return
    const { newOperation } = this.#shardMap
    await this.#shardMap.shard(shard).ask((store) => noteArrival(store, archive, arrival, newOperation))
  }

  /**
   * After the timeline was forgotten. Its signpost stays, because mail to that id waits there as for any missing
   * timeline. Entries that a cursor has not read stay too, hidden; but if it is erased, the signpost is created again
   * without them.
   */
  async forgotten(id: TimelineId, left: Arrival, isErased: boolean): Promise<void> {
    if (isErased && left.remnant === id) {
      for (let at: Arrival | null = left; at; ) {
        await this.#renew(at.from, id)
        const [earlier]: (Arrival | null)[] = at.from < this.#shardMap.first ? [] : await this.#arrivals(at.from, [id])
        at = earlier ?? null
      }
    } else await this.trim(left, null)
  }

  /** Creates it again without its runs, under an unused epoch. */
  async #renew(at: number, id: TimelineId): Promise<void> {
    const { newOperation } = this.#shardMap
    const shard = this.#shardMap.shard(at)
    for (let attempt = 0; attempt < attemptsMax; attempt++) {
      const [head] = await shard.ask((store) => store.head([id]))
      const target = head ? targetOf(head) : null
      if (!head || target === null) return
      const forget: Commit = { operation: newOperation(), guard: guardOf(head), forget: 'moved' }
      const takes = Array.from({ length: head.epoch }, (_, i): Commit => {
        const take = { worker: shardsWorker, from: 'anyone' as const }
        return { operation: newOperation(), guard: { timeline: id, epoch: i + 1 }, take, release: true }
      })
      const commits = [forget, this.#shardMap.signpost(id, target), ...takes]
      const outcomes = await shard.ask((store) => store.commit(commits))
      if (outcomes[0]!.ok) return
    }
  }

  /** After the timeline was trimmed; null: all of its history. Entries that a cursor still needs stay. */
  async trim({ from, remnant }: Arrival, trim: Pick<Head, 'seq' | 'digest'> | null): Promise<void> {
    const { newOperation } = this.#shardMap
    const store = this.#shardMap.shard(from)
    const [earlier] = from < this.#shardMap.first ? [] : await this.#arrivals(from, [remnant])
    if (earlier) await this.trim(earlier, trim)
    const [head] = await store.ask((one) => one.head([remnant]))
    if (head?.status !== signpostStatus || head.seq <= head.floor) return
    const { seq, digest } = trim && trim.seq < head.seq ? trim : head
    const guard = { timeline: remnant, epoch: head.epoch }
    await store.ask((one) => one.commit([{ operation: newOperation(), guard, trim: { seq, digest, restsOn: [] } }]))
  }

  async #arrivals(shard: number, ids: readonly TimelineId[]): Promise<(Arrival | null)[]> {
    return await this.#shardMap.shard(shard).ask((store) => arrivalsOn(store, ids))
  }
}

/** Whether the moved history is this timeline's own. Null: unknown, because it was trimmed. */
async function holds(store: Store, head: Head, { seq, digest }: Arrival): Promise<boolean | null> {
  if (seq <= (head.base?.seq ?? 0) || head.seq < seq) return false
  if (head.floor === seq) return toHex(head.floorDigest) === digest
  if (head.floor > seq) return null
  const [run] = await store.read(head.timeline, seq - 1, 1)
  return run !== undefined && lastSeq(run) === seq && toHex(run.digest) === digest
}
