// Where timelines are: the place in the map, or the place that its signpost there points to. Places that this process
// has seen are cached, so that a known timeline costs no read.
// The place in the map is one of the original shards of the set, permanently: its row is the arbiter of an id, even
// if two processes disagree about the map. A timeline on a shard that was added later has a signpost there.

import type { OperationId, TimelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { guardOf } from '../../core/store/commit-guard.ts'
import type { Commit, Head, Outcome } from '../../core/store/ports.ts'
import {
  isArriving,
  moveKey,
  shardOf,
  signpostQueue,
  signpostStatus,
  targetKey,
  targetOf,
} from '../../core/store/shards.ts'
import { activated, activation, discard } from './arrivals.ts'
import type { Shard } from './shard.ts'
import { noDigest, shardsWorker } from './shards-worker.ts'

export interface Found {
  /** On its shard. Null: it does not exist. */
  readonly head: Head | null
  readonly shard: number
}

interface Open {
  readonly id: TimelineId
  readonly at: number
  readonly shard: number
  readonly hops: number
  /** The move that put the signpost that led here. */
  readonly move: unknown
}

export interface PlacesOptions {
  readonly first?: number
  /** The stored map has all of these shards: new families go to all of them. */
  readonly isOpen?: boolean
  readonly isReadOnly?: boolean
  /** For tests: where ids are placed. */
  readonly home?: ((id: string) => number) | undefined
}

const rememberedMax = 65_536

export class ShardMap {
  readonly #shards: Shard[]
  readonly #home: (id: string) => number
  readonly #seen = new Map<string, number>()
  readonly #whenAdded: ((shard: Shard) => void)[] = []
  readonly newOperation: () => OperationId
  /** The original number of shards. */
  readonly first: number
  /** The stored map has all of these shards: new families go to all of them. */
  isOpen: boolean
  readonly isReadOnly: boolean
  /** The stored map has more shards than this process was opened with. */
  #isOutdated = false

  constructor(shards: readonly Shard[], newOperation: () => OperationId, options: PlacesOptions = {}) {
    this.#shards = [...shards]
    this.newOperation = newOperation
    this.first = options.first ?? shards.length
    this.isOpen = options.isOpen ?? true
    this.isReadOnly = options.isReadOnly ?? false
    this.#home = options.home ?? ((id) => shardOf(id, this.first))
  }

  get shards(): readonly Shard[] {
    return this.#shards
  }

  get count(): number {
    return this.#shards.length
  }

  /** Shards were added to the set. */
  get hasGrown(): boolean {
    return this.count > this.first
  }

  add(shard: Shard): void {
    this.#shards.push(shard.numbered(this.count))
    for (const call of this.#whenAdded) call(shard)
  }

  /** Calls for all current shards, and for those added later. */
  eachShard(call: (shard: Shard) => void): void {
    for (const shard of this.#shards) call(shard)
    this.#whenAdded.push(call)
  }

  /** The shard of this number. Throws SHARDS_GREW for one that was added since. */
  shard(index: number): Shard {
    const shard = this.#shards[index]
    if (shard) return shard
    this.#isOutdated = true
    throw this.#grew()
  }

  /** Records the number of shards in the stored map. */
  learn(count: number): void {
    if (count === this.count) this.isOpen = true
    if (count > this.count) this.#isOutdated = true
  }

  /** Refuses operations that must see everything if this process lacks a shard. Throws SHARDS_GREW. */
  refuseOutdated(): void {
    if (this.#isOutdated) throw this.#grew()
  }

  #grew(): RepriseError {
    const what = `the set has more shards than the ${this.count} that this process opened: timelines moved to a new one`
    return new RepriseError('SHARDS_GREW', what, { given: this.count })
  }

  /** The place in the map. */
  home(id: string): number {
    return this.#home(id)
  }

  /** Where a new family is created. */
  placement(id: string): number {
    return this.hasGrown && this.isOpen ? shardOf(id, this.count) : this.#home(id)
  }

  /** Where it was seen; undefined: not read yet. */
  seen(id: string): number | undefined {
    return this.#seen.get(id)
  }

  /** Where it was seen, or else where to read first. */
  guess(id: string): number {
    return this.#seen.get(id) ?? this.#home(id)
  }

  note(id: string, shard: number): void {
    // Least recently used ids are dropped; those in use stay, because their clock is that of their shard.
    if (this.#seen.delete(id)) {
      this.#seen.set(id, shard)
      return
    }
    if (this.#seen.size >= rememberedMax) {
      for (const oldest of this.#seen.keys()) {
        this.#seen.delete(oldest)
        if (this.#seen.size < (rememberedMax * 7) / 8) break
      }
    }
    this.#seen.set(id, shard)
  }

  forget(id: string): void {
    this.#seen.delete(id)
  }

  async locate(id: TimelineId): Promise<number> {
    const seen = this.#seen.get(id)
    // In a set that has grown it may have moved since.
    if (seen !== undefined && !this.hasGrown) return seen
    const [found] = await this.find([id])
    return found!.shard
  }

  /** In the order requested. For a missing timeline, `shard` is where it would be created. */
  async find(ids: readonly TimelineId[], how: 'ask' | 'askNow' = 'ask'): Promise<Found[]> {
    const found = new Array<Found>(ids.length)
    let open = ids.map((id, at): Open => ({ id, at, shard: this.guess(id), hops: 0, move: null }))
    while (open.length > 0) {
      const targets = byShard(open, ({ shard }) => shard)
      const further: Open[] = []
      await Promise.all(
        [...targets].map(async ([shard, some]) => {
          const heads = await this.shard(shard)[how]((store) => store.head(some.map(({ id }) => id)))
          for (const [i, one] of some.entries()) {
            const head = heads[i] ?? null
            if (head && isArriving(head)) {
              const read = await this.#arrive(one, head)
              if ('shard' in read) further.push(read)
              else found[one.at] = { head: read.head, shard }
              continue
            }
            const next = this.#follow(one.id, shard, head, one.hops)
            if (next === null) found[one.at] = { head, shard }
            else if (next === 'gone') found[one.at] = { head: null, shard }
            else further.push({ ...one, shard: next, hops: one.hops + 1, move: head?.attributes[moveKey] })
          }
        }),
      )
      open = further
    }
    return found
  }

  /** Where to read next. Null: it is here, or does not exist. */
  #follow(id: TimelineId, shard: number, head: Head | null, hops: number): number | 'gone' | null {
    if (!head) {
      const wasSeen = this.#seen.delete(id)
      return wasSeen && hops === 0 && shard !== this.#home(id) ? this.#home(id) : null
    }
    const target = targetOf(head)
    if (target === null) {
      this.note(id, shard)
      return null
    }
    this.#seen.delete(id)
    return hops > this.count ? 'gone' : target
  }

  /**
   * A copy that a signpost points to becomes the timeline, if both belong to the same move: it gets its queue and
   * wakeup. Any other copy was left by an abandoned move, and is deleted; a read-only store leaves both as they are and
   * returns the result. Returns the next read otherwise.
   */
  async #arrive(open: Open, head: Head): Promise<Open | Pick<Found, 'head'>> {
    const { id, shard, move } = open
    // A cached place names no move: only the signpost decides whether this copy is the timeline.
    if (move === null) {
      this.#seen.delete(id)
      return shard === this.#home(id) ? { head: null } : { ...open, shard: this.#home(id) }
    }
    const isTimeline = head.attributes[moveKey] === move
    if (this.isReadOnly) return { head: isTimeline ? activated(head) : null }
    const { newOperation } = this
    if (isTimeline) await this.shard(shard).ask((store) => store.commit([activation(head, newOperation)]))
    else await this.shard(shard).ask((store) => discard(store, id, newOperation))
    return open
  }

  /**
   * Settles these inactive copies on a shard, and returns those that are timelines. A copy whose original was forgotten
   * before it had a signpost is deleted: it would keep its parent from being forgotten.
   */
  async settle(shard: number, copies: readonly Head[]): Promise<Head[]> {
    const found = copies.length > 0 ? await this.find(copies.map(({ timeline }) => timeline)) : []
    const orphans = this.isReadOnly ? [] : copies.filter((_, i) => found[i]!.head === null)
    if (orphans.length > 0) {
      const { newOperation } = this
      // The guard has the life of the copy: a later copy of a new timeline of that id stays.
      const forget = orphans.map((head) => ({
        operation: newOperation(),
        guard: guardOf(head),
        forget: 'moved' as const,
      }))
      await this.shard(shard).ask((store) => store.commit(forget))
    }
    return found.flatMap(({ head, shard: at }) => (head && at === shard ? head : []))
  }

  /**
   * Puts a signpost where this id would be created, so that it can be created on another shard. Returns where it is, or
   * is to be created.
   */
  async point(id: TimelineId, to: number): Promise<number> {
    let from = this.#home(id)
    for (let hops = 0; hops <= this.count; hops++) {
      if (from === to) return to
      const [outcome] = await this.shard(from).askNow((store) => store.commit([this.signpost(id, to)]))
      if (outcome?.ok !== false) return to
      const target = outcome.head && targetOf(outcome.head)
      if (target === null) return from
      from = target
    }
    return from
  }

  /** The life of a forgotten id is stored at its home: a creation on another shard continues from there. */
  async bringPast(id: TimelineId, to: number): Promise<void> {
    const [past] = await this.shard(this.home(id)).ask((store) => store.past([id]))
    if (past!.life > 0) await this.shard(to).ask((store) => store.upkeep.recall([past!]))
  }

  signpost(id: TimelineId, to: number): Commit {
    return {
      operation: this.newOperation(),
      guard: { timeline: id, epoch: 0 },
      take: { worker: shardsWorker, from: 'anyone', create: { digest: noDigest, copyOf: { life: 1, epoch: 0 } } },
      release: true,
      status: signpostStatus,
      queue: signpostQueue,
      attributes: { [targetKey]: to },
    }
  }

  /** The shard for a commit that a signpost refused. */
  redirect(outcome: Outcome): number | null {
    return outcome.ok || !outcome.head ? null : targetOf(outcome.head)
  }
}

export function byShard<Item>(items: readonly Item[], shardOfItem: (item: Item) => number): Map<number, Item[]> {
  const groups = new Map<number, Item[]>()
  for (const item of items) {
    const shard = shardOfItem(item)
    const group = groups.get(shard)
    if (group) group.push(item)
    else groups.set(shard, [item])
  }
  return groups
}
