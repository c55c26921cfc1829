// Where timelines are: the place that the map says, or where the signpost that stands there points to. What this process has
// seen is remembered, so that a known timeline costs no look.
//
// The place that the map says is one of the shards that the set was made with, for good: its row is the arbiter of an id,
// whatever two processes believe of the map. What lives on a shard that was added later has a signpost there.

import type { OperationId, TimelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
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
import { activation, discard } from './arrivals.ts'
import type { Shard } from './shard.ts'
import { noDigest, shardsWorker } from './shards-worker.ts'

export interface Found {
  /** As its shard has it; null: it is not there. */
  readonly head: Head | null
  readonly shard: number
}

interface Open {
  readonly id: TimelineId
  readonly at: number
  readonly shard: number
  readonly hops: number
  /** Which move put the signpost that led here. */
  readonly move: unknown
}

export interface PlacesOptions {
  readonly first?: number
  /** The stored map has all of these shards: new families go to all of them. */
  readonly isOpen?: boolean
  /** For tests: where ids are placed. */
  readonly home?: ((id: string) => number) | undefined
}

const rememberedMax = 65_536

export class Places {
  readonly #shards: Shard[]
  readonly #home: (id: string) => number
  readonly #seen = new Map<string, number>()
  readonly #whenAdded: ((shard: Shard) => void)[] = []
  readonly newOperation: () => OperationId
  /** So many shards the set was made with. */
  readonly first: number
  /** The stored map has all of these shards: new families go to all of them. */
  isOpen: boolean
  /** The stored map has more than this process was given. */
  #isOutdated = false

  constructor(shards: readonly Shard[], newOperation: () => OperationId, options: PlacesOptions = {}) {
    this.#shards = [...shards]
    this.newOperation = newOperation
    this.first = options.first ?? shards.length
    this.isOpen = options.isOpen ?? true
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

  /** Those that are there, and those that are added. */
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

  /** The stored map says so. */
  learn(count: number): void {
    if (count === this.count) this.isOpen = true
    if (count > this.count) this.#isOutdated = true
  }

  /** What must see everything is refused where this process has not all of it. Throws SHARDS_GREW. */
  refuseOutdated(): void {
    if (this.#isOutdated) throw this.#grew()
  }

  #grew(): RepriseError {
    const what = `the set has more shards than the ${this.count} that this process was given: timelines moved to a new one`
    return new RepriseError('SHARDS_GREW', what, { given: this.count })
  }

  /** Where the map says. */
  home(id: string): number {
    return this.#home(id)
  }

  /** Where a new family is made. */
  placement(id: string): number {
    return this.hasGrown && this.isOpen ? shardOf(id, this.count) : this.#home(id)
  }

  /** Where it was seen; undefined: nobody looked yet. */
  seen(id: string): number | undefined {
    return this.#seen.get(id)
  }

  /** Where it was seen, or else where it must be looked for first. */
  guess(id: string): number {
    return this.#seen.get(id) ?? this.#home(id)
  }

  note(id: string, shard: number): void {
    // The ones that are in use stay: their clock is that of their shard.
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
    // On a set that has grown it may have moved since.
    if (seen !== undefined && !this.hasGrown) return seen
    const [found] = await this.find([id])
    return found!.shard
  }

  /** In the order asked. A timeline that is not there: `shard` is where it would be made. */
  async find(ids: readonly TimelineId[], how: 'ask' | 'askNow' = 'ask'): Promise<Found[]> {
    const found = new Array<Found>(ids.length)
    let open = ids.map((id, at): Open => ({ id, at, shard: this.guess(id), hops: 0, move: null }))
    while (open.length > 0) {
      const asked = byShard(open, ({ shard }) => shard)
      const further: Open[] = []
      await Promise.all(
        [...asked].map(async ([shard, some]) => {
          const heads = await this.shard(shard)[how]((store) => store.head(some.map(({ id }) => id)))
          for (const [i, one] of some.entries()) {
            const head = heads[i] ?? null
            if (head && isArriving(head)) {
              await this.#arrive(one, head)
              further.push(one)
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

  /** Where to look next; null: here it is, or it is nowhere. */
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
   * A copy at which a signpost points is the timeline from then on, if both are of the same move: it gets what it waits for.
   * Any other was left by a move that came to nothing, and goes. Nobody looks here without a signpost.
   */
  async #arrive({ id, shard, move }: Open, head: Head): Promise<void> {
    const { newOperation } = this
    if (move !== null && head.attributes[moveKey] === move) {
      await this.shard(shard).ask((store) => store.commit([activation(head, newOperation)]))
    } else await this.shard(shard).ask((store) => discard(store, id, newOperation))
  }

  /**
   * Puts a signpost where this id would be made, so that it can be made on another shard. Answers where it is to be made, or is.
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

  /** The life of an id that was forgotten is remembered at its home: whoever makes it elsewhere goes on from there. */
  async bringPast(id: TimelineId, to: number): Promise<void> {
    const [past] = await this.shard(this.home(id)).ask((store) => store.past([id]))
    if (past!.life > 0) await this.shard(to).ask((store) => store.recall([past!]))
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

  /** Where a refused commit belongs, if a signpost refused it. */
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
