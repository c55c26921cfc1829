// Opens a set of shards: opens each store, checks its membership, and initialises an empty set.

import { randomUUID } from 'node:crypto'
import type { OperationId } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Store } from '../../core/store/ports.ts'
import { refuseWrites } from '../../core/store/read-only.ts'
import type { Membership } from '../../core/store/shards.ts'
import type { ShardSource } from './growth.ts'
import { arrange, join, lacksShard, markWhole, membershipOf, refuseOther, refuseStranger } from './membership.ts'
import { isUnreachable, Shard, type Timers } from './shard.ts'
import { ShardMap } from './shard-map.ts'
import { ShardedStore } from './store.ts'

export interface ShardedOptions {
  readonly readOnly?: boolean
  /** For adding a shard. */
  readonly openAnother?: (url: string) => ShardSource
  /** @internal For simulations. */
  readonly timers?: Timers
  /** @internal For tests: where ids are placed. */
  readonly place?: (id: string) => number
}

export type { ShardSource } from './growth.ts'

const shardsMax = 64

/** @example const store = await openSharded([{ name: 'a', open: () => openSqlite('a.db', …) }, …]) */
export async function openSharded(sources: readonly ShardSource[], options: ShardedOptions = {}): Promise<Store> {
  if (sources.length < 1 || sources.length > shardsMax) {
    throw new RepriseError('INVALID_ARGUMENT', `shards must name 1 to ${shardsMax} stores (got ${sources.length})`)
  }
  const newOperation = () => `shards ${randomUUID()}` as OperationId
  const given = sources.map(({ name, open }, i) => new Shard(i, name, open, options.timers))
  // Errors of stores that do not exist, opened read-only. A store in the place of a missing shard is the more useful
  // error, so these are thrown later.
  const unread: unknown[] = []
  // A store that reading would create counts as empty: a refused open leaves nothing behind.
  const look = async (shard: Shard, i: number) => {
    if (!options.readOnly && sources[i]!.exists?.() === false) return null
    try {
      return await lookAt(shard)
    } catch (error) {
      if (!options.readOnly || !isReprise(error, 'NOT_FOUND')) throw error
      unread.push(error)
      return null
    }
  }
  try {
    let members = await Promise.all(given.map(look))
    // Another process may have created the set between two reads. The mark comes last: after the mark, every number is
    // visible.
    if (lacksShard(members)) {
      unread.length = 0
      members = await Promise.all(given.map((shard, i) => (members[i] === null ? look(shard, i) : members[i]!)))
    }
    const shards = await settle(sources, given, members, options.readOnly ?? false, newOperation)
    const [unmade] = unread
    if (unmade) throw unmade
    const known = members.filter((member): member is Membership => member !== null && member !== 'away')
    const first = Math.min(shards.length, ...known.map((member) => member.first))
    const isOpen = known.every((member) => member.count === shards.length)
    const shardMap = new ShardMap(shards, newOperation, {
      first,
      isOpen,
      isReadOnly: options.readOnly ?? false,
      home: options.place,
    })
    const store = new ShardedStore(shardMap, options)
    return options.readOnly ? refuseWrites(store) : store
  } catch (error) {
    await Promise.allSettled(given.map((shard) => shard.close()))
    throw error
  }
}

async function lookAt(shard: Shard): Promise<Membership | null | 'away'> {
  try {
    return await shard.ask((store) => membershipOf(store))
  } catch (error) {
    if (isUnreachable(error)) return 'away'
    throw error
  }
}

async function settle(
  sources: readonly ShardSource[],
  given: readonly Shard[],
  members: readonly (Membership | null | 'away')[],
  isReadOnly: boolean,
  newOperation: () => OperationId,
): Promise<readonly Shard[]> {
  const count = sources.length
  const arranged = arrange(members)
  refuseStranger(
    members,
    sources.map(({ name }) => name),
  )
  const away = given.find((_, i) => members[i] === 'away')
  // While a shard that may have a number does not answer, the remaining numbers are unknown.
  const isWhole = members.some((member) => member !== null && member !== 'away' && member.isWhole)
  if (away && (!arranged || !isWhole)) {
    const what = `shard ${away.index} (${away.name}) is unavailable, and the set has not been created yet`
    throw new RepriseError('STORE_UNREACHABLE', what)
  }
  const order = arranged?.places ?? given.map((_, i) => i)
  let { set } = arranged ?? { set: randomUUID() as string }
  if (!isReadOnly) {
    // The first shard decides which set it is, if two processes create one at the same time.
    for (const [index, at] of order.entries()) {
      if (members[at] !== null) continue
      const member = await given[at]!.ask((store) =>
        join(store, { set, index, count, first: count, version: 1, isWhole: false }, newOperation),
      )
      if (index === 0 && !arranged) ({ set } = member)
      if (member.set !== set || member.index !== index || member.count !== count) {
        throw new RepriseError(
          'SHARDS_DIFFER',
          `shard ${index} (${given[at]!.name}) has just become part of another set`,
        )
      }
    }
    if (!away) {
      for (const [at, shard] of given.entries()) {
        const member = members[at]
        if (member === 'away' || member?.isWhole) continue
        await shard.ask((store) => markWhole(store, newOperation))
      }
    }
  }
  for (const [index, at] of order.entries()) {
    const shard = given[at]!
    shard.checked((store) => refuseOther(store, { set, index, name: shard.name }))
    if (members[at] === 'away') shard.startAway()
  }
  return order.map((at, index) => given[at]!.numbered(index))
}
