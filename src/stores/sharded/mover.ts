// Moves families to their shard in the map, one by one, while their runs continue. A family (a timeline, its archives
// and its forks) is taken from its owner, copied, and passed on by the commit that makes a signpost of it, its root
// first. Until then the copies are inactive (arrivals.ts), and after it they are the family: a crash at any point
// leaves exactly one of each.

import { randomUUID } from 'node:crypto'
import { type TimelineId, toHex, type WorkerId } from '../../core/coordinate.ts'
import { isReprise } from '../../core/errors.ts'
import type { Commit, Head } from '../../core/store/ports.ts'
import {
  arrivingStatus,
  cursorNames,
  isHidden,
  madeKey,
  moveKey,
  movingKey,
  type Scheduling,
  schedulingKey,
  signpostQueue,
  signpostStatus,
  targetKey,
  targetOf,
} from '../../core/store/shards.ts'
import { arrivalsOn, discard, noteArrival } from './arrivals.ts'
import { copyTimeline } from './copy.ts'
import { Moments } from './feed-end.ts'
import type { Relay } from './relay.ts'
import type { Shard } from './shard.ts'
import type { ShardMap } from './shard-map.ts'

/** `again`: it has an owner, or changed meanwhile. Otherwise the reason why it stays. */
export type Verdict = 'moved' | 'again' | { readonly stays: string }

interface Member {
  /** The head before it was taken. */
  readonly before: Head
  /** The epoch under which the mover owns the timeline. */
  readonly epoch: number
}

const membersMax = 10_000

export class Mover {
  readonly #shardMap: ShardMap
  readonly #relay: Relay
  readonly #worker: WorkerId
  readonly #moments: Moments

  constructor(shardMap: ShardMap, relay: Relay, worker: WorkerId) {
    this.#shardMap = shardMap
    this.#relay = relay
    this.#worker = worker
    this.#moments = new Moments(shardMap.newOperation)
  }

  /** The roots of families that belong on another shard, with their current shard. */
  async *candidates(): AsyncGenerator<{ readonly root: Head; readonly from: Shard; readonly to: number }> {
    for (const from of this.#shardMap.shards) {
      for await (const page of from.heads()) {
        for (const root of page) {
          const to = isHidden(root) ? null : await this.#target(from, root)
          if (to !== null) yield { root, from, to }
        }
      }
    }
  }

  /** Its target shard. Null: it stays. A fork goes with its parent, and follows it if that has moved already. */
  async #target(from: Shard, { timeline, base }: Head): Promise<number | null> {
    if (base) {
      const [parent] = await from.ask((store) => store.head([base.timeline]))
      return parent ? targetOf(parent) : null
    }
    const to = this.#shardMap.placement(timeline)
    // Only to shards that were added, and never back: the feed of a shard waits for that of an earlier one
    // (moved-feed.ts).
    return to > from.index && to >= this.#shardMap.first ? to : null
  }

  async move(root: Head, from: Shard, to: number, isTakeover: boolean): Promise<Verdict> {
    const family = await this.#family(from, root)
    const stays = family && (await this.#whyStays(from, family, to))
    if (!family || stays) return { stays: stays ?? `it has more than ${membersMax} timelines` }
    if (!isTakeover && family.some((head) => isOfAnother(head, this.#worker))) return 'again'
    const members = await this.#take(from, family, isTakeover)
    if (!members) return 'again'
    const target = this.#shardMap.shard(to)
    const move = randomUUID()
    const parent = await this.#parent(target, root)
    try {
      for (const { timeline } of family)
        await target.ask((store) => discard(store, timeline, this.#shardMap.newOperation))
      await this.#copy(from, target, members, move)
      const grown = await this.#family(from, root)
      const isSame = grown?.length === family.length && (await this.#parent(target, root)) === parent
      if (!isSame || !(await this.#handOver(from, to, members, move))) {
        await this.#releaseAll(from, members)
        return 'again'
      }
    } catch (error) {
      await this.#releaseAll(from, members).catch(() => undefined)
      // Another process took the timeline over during the copy.
      if (isReprise(error, 'CONFLICT')) return 'again'
      throw error
    }
    for (const { timeline } of family) await this.#settle(from, to, timeline)
    return 'moved'
  }

  /** The epoch of a fork's parent that has moved already: a rollback of the parent would change the fork's base. */
  async #parent(target: Shard, { base }: Head): Promise<number | null> {
    const [head] = base ? await target.ask((store) => store.head([base.timeline])) : [null]
    return head?.epoch ?? null
  }

  /** Parents before their forks. Null: too many. */
  async #family(from: Shard, root: Head): Promise<Head[] | null> {
    const [head] = await from.ask((store) => store.head([root.timeline]))
    const found: Head[] = head && !isHidden(head) ? [head] : []
    for (let at = 0; at < found.length; at++) {
      const parent = found[at]!.timeline
      const forks = await from.ask((store) => store.timelines({ parent, limit: membersMax }))
      found.push(...forks.filter((fork) => !isHidden(fork)))
      if (found.length > membersMax) return null
    }
    return found
  }

  async #whyStays(from: Shard, family: readonly Head[], to: number): Promise<string | null> {
    if (family.length === 0) return 'it no longer exists'
    const ids = new Set(family.map(({ timeline }) => timeline))
    const cursors = await from.ask((store) => store.cursors())
    const owner =
      cursors.find((row) => ids.has(row.owner)) ?? family.find((head) => cursorNames(head.attributes).length > 0)
    if (owner) return 'it owns a cursor into the feed'
    if (family.some(({ base, floor }) => base && floor > base.seq))
      return 'history of a fork was trimmed above its base'
    const arrivals = await from.ask((store) => arrivalsOn(store, [...ids]))
    if (arrivals.some((arrival) => arrival && !ids.has(arrival.remnant)) || isRenamed(family, arrivals)) {
      return 'it was rolled back after an earlier move'
    }
    const { base } = family[0]!
    const [parent] = base ? await this.#shardMap.shard(to).ask((store) => store.head([base.timeline])) : [null]
    if (base && (!parent || isHidden(parent))) return 'its parent is missing'
    if (parent?.base && base && parent.base.seq < base.seq && (await this.#isRolledBack(from, to, base))) {
      return 'its parent was rolled back after it had moved'
    }
    const [there] = await this.#shardMap.shard(to).ask((store) => store.head([family[0]!.timeline]))
    return there && !isHidden(there) ? `there is a timeline with that id on shard ${to}` : null
  }

  /** The history that the fork was made from is no longer the current one of that id. */
  async #isRolledBack(
    from: Shard,
    to: number,
    { timeline, seq }: { timeline: TimelineId; seq: number },
  ): Promise<boolean> {
    const [here, there] = await Promise.all(
      [from, this.#shardMap.shard(to)].map((shard) => shard.ask((store) => store.read(timeline, seq - 1, 1))),
    )
    const [a, b] = [here?.[0], there?.[0]]
    return !a || !b || a.first !== b.first || toHex(a.digest) !== toHex(b.digest)
  }

  /** Fences all writers of the family. Null: another process was faster, or a live owner keeps it. */
  async #take(from: Shard, family: readonly Head[], isTakeover: boolean): Promise<Member[] | null> {
    const members: Member[] = []
    for (const before of family) {
      const { timeline, epoch, seq, digest } = before
      const take = { worker: this.#worker, from: isTakeover ? ('anyone' as const) : ('dead' as const) }
      const guard = { timeline, epoch, seq, digest }
      const operation = this.#shardMap.newOperation()
      const attributes = { [movingKey]: true }
      const [outcome] = await from.ask((store) => store.commit([{ operation, guard, take, attributes }]))
      if (!outcome!.ok) {
        await this.#releaseAll(from, members)
        return null
      }
      members.push({ before, epoch: epoch + 1 })
    }
    return members
  }

  async #releaseAll(from: Shard, members: readonly Member[]): Promise<void> {
    const { newOperation } = this.#shardMap
    for (const { before, epoch } of members) {
      const guard = { timeline: before.timeline, epoch }
      // It had an owner: it is due.
      const wakeup = before.owner !== null && before.queue !== null && before.wakeup === null ? { wakeup: 0 } : {}
      const commit = { release: true, attributes: { [movingKey]: null }, ...wakeup }
      await from.ask((store) => store.commit([{ operation: newOperation(), guard, ...commit }]))
    }
  }

  async #copy(from: Shard, target: Shard, members: readonly Member[], move: string): Promise<void> {
    const { newOperation } = this.#shardMap
    const notes = members.map(({ before: { timeline, seq, digest } }) => {
      return { id: timeline, from: from.index, remnant: timeline, seq, digest: toHex(digest) }
    })
    for (const { id, ...note } of notes) {
      await target.ask((store) => noteArrival(store, id, { ...note, hides: null, behind: '' }, newOperation))
    }
    let hasRuns = false
    for (const { before, epoch } of members) {
      const attributes = { [moveKey]: move, [schedulingKey]: JSON.stringify(await schedulingOf(from, before)) }
      const made = { [madeKey]: before.attributes[madeKey] ?? before.createdAt }
      const first: Partial<Commit> = {
        status: arrivingStatus,
        priority: before.priority,
        attributes: { ...before.attributes, ...made, ...attributes, [movingKey]: null },
      }
      const copied = await from.ask((source) =>
        target.ask((store) => copyTimeline(source, store, { ...before, epoch }, first, newOperation)),
      )
      hasRuns ||= copied
    }
    const hides = hasRuns ? await target.ask((store) => this.#moments.pass(store, target.index)) : ''
    const behind = hasRuns ? await from.ask((store) => this.#moments.pass(store, from.index)) : ''
    for (const { id, ...note } of notes) {
      await target.ask((store) => noteArrival(store, id, { ...note, hides, behind }, newOperation))
    }
  }

  /** The root first. After a refusal the rest stays, and follows later, as forks whose parent has moved. */
  async #handOver(from: Shard, to: number, members: readonly Member[], move: string): Promise<boolean> {
    const { newOperation } = this.#shardMap
    for (const [i, { before, epoch }] of members.entries()) {
      const { timeline, seq, digest } = before
      const records = await from.ask((store) => store.checkpoints(timeline))
      const pinned = records.filter(({ isPinned }) => isPinned)
      const gone = [...Object.keys(before.attributes), movingKey].map((key) => [key, null] as const)
      const [outcome] = await from.ask((store) =>
        store.commit([
          {
            operation: newOperation(),
            guard: { timeline, epoch, seq, digest },
            release: true,
            status: signpostStatus,
            queue: signpostQueue,
            wakeup: null,
            attributes: { ...Object.fromEntries(gone), [targetKey]: to, [moveKey]: move },
            ...(pinned.length > 0 && { marks: pinned.map(({ id }) => ({ id, isPinned: false })) }),
          },
        ]),
      )
      if (outcome!.ok) continue
      if (i === 0) return false
      await this.#releaseAll(from, members.slice(i))
      return true
    }
    return true
  }

  /** Activates it at its new place; mail that arrived meanwhile follows it. */
  async #settle(from: Shard, to: number, timeline: TimelineId): Promise<void> {
    this.#shardMap.forget(timeline)
    await this.#shardMap.find([timeline])
    for (;;) {
      const [head] = await from.ask((store) => store.head([timeline]))
      if (!head || head.mail === 0 || targetOf(head) !== to) return
      await this.#relay.forward(from.index, head, to)
    }
  }
}

function isOfAnother({ owner, isOwnerAlive }: Head, worker: WorkerId): boolean {
  return owner !== null && owner !== worker && isOwnerAlive
}

function isRenamed(family: readonly Head[], arrivals: readonly ({ readonly remnant: TimelineId } | null)[]): boolean {
  return arrivals.some((arrival, i) => arrival && arrival.remnant !== family[i]!.timeline)
}

/** Its queue, wakeup and pins. If it had an owner, it is due at its new place. */
async function schedulingOf(
  from: Shard,
  { timeline, owner, status, queue, wakeup, operation }: Head,
): Promise<Scheduling> {
  const { now } = await from.ask((store) => store.inbox(timeline, 0))
  const records = await from.ask((store) => store.checkpoints(timeline))
  const pinned = records.flatMap(({ id, isPinned }) => (isPinned ? [id] : []))
  return { status, queue, wakeup: owner !== null && queue !== null ? now : wakeup, operation, pinned }
}
