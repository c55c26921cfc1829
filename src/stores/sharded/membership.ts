// The stored map: every shard knows its set, its number in it, and the number of shards, with a version. It is checked
// when a set is opened, so that no process reads a set with a missing shard, an extra one, or one of another set.

import type { OperationId, TimelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Commit, Store } from '../../core/store/ports.ts'
import {
  countKey,
  firstKey,
  holdsTimeline,
  indexKey,
  isOfShards,
  type Membership,
  mapTimeline,
  membershipIn,
  outboxFor,
  setKey,
  versionKey,
  wholeKey,
} from '../../core/store/shards.ts'
import { noDigest, shardsWorker } from './shards-worker.ts'

export async function membershipOf(store: Store): Promise<Membership | null> {
  const [head] = await store.head([mapTimeline])
  return head ? membershipIn(head) : null
}

/** Makes an empty store a member, or finds that another process just did. Refuses a store that is not empty. */
export async function join(store: Store, wanted: Membership, newOperation: () => OperationId): Promise<Membership> {
  const [first] = await store.timelines({ limit: 1 })
  if (first && !isOfShards(first.timeline)) {
    const what = `shard ${wanted.index} holds timelines already (${first.timeline}) and belongs to no set of shards`
    throw new RepriseError('SHARDS_DIFFER', what, { shard: wanted.index })
  }
  const others = Array.from({ length: wanted.count }, (_, i) => i).filter((i) => i !== wanted.index)
  await store.commit([holdsTimeline, ...others.map(outboxFor)].map((id) => making(newOperation(), id)))
  const attributes = {
    [setKey]: wanted.set,
    [indexKey]: wanted.index,
    [countKey]: wanted.count,
    [versionKey]: wanted.version,
    ...(wanted.first !== wanted.count && { [firstKey]: wanted.first }),
  }
  const [outcome] = await store.commit([{ ...making(newOperation(), mapTimeline), attributes }])
  return outcome!.ok ? wanted : membershipIn(outcome!.head!)
}

/** Writes the next version of the map, with this many shards. Concurrent callers write the same. */
export async function renumber(
  store: Store,
  { index, count, first, version }: Membership,
  newOperation: () => OperationId,
): Promise<void> {
  const others = Array.from({ length: count }, (_, i) => i).filter((i) => i !== index)
  await store.commit([holdsTimeline, ...others.map(outboxFor)].map((id) => making(newOperation(), id)))
  for (;;) {
    const [head] = await store.head([mapTimeline])
    if (!head || membershipIn(head).count >= count) return
    const guard = { timeline: mapTimeline, epoch: head.epoch }
    const take = { worker: shardsWorker, from: 'anyone' } as const
    const attributes = { [countKey]: count, [firstKey]: first, [versionKey]: version }
    await store.commit([{ operation: newOperation(), guard, take, release: true, attributes }])
  }
}

/** Records that every shard has its number. Concurrent callers write the same. */
export async function markWhole(store: Store, newOperation: () => OperationId): Promise<void> {
  const [head] = await store.head([mapTimeline])
  if (!head || membershipIn(head).isWhole) return
  const guard = { timeline: mapTimeline, epoch: head.epoch }
  const take = { worker: shardsWorker, from: 'anyone' } as const
  await store.commit([{ operation: newOperation(), guard, take, release: true, attributes: { [wholeKey]: true } }])
}

/** Creates one of the shards' own timelines. */
export function making(operation: OperationId, id: TimelineId): Commit {
  return {
    operation,
    guard: { timeline: id, epoch: 0 },
    take: { worker: shardsWorker, from: 'anyone', create: { digest: noDigest } },
    release: true,
  }
}

/** Puts the shards in the order of their numbers; throws if they do not fit together. 'away': the shard did not answer. */
export function arrange(
  members: readonly (Membership | null | 'away')[],
): { readonly places: readonly number[]; readonly set: string } | null {
  const known = members.filter((member): member is Membership => member !== null && member !== 'away')
  const [first] = known
  if (!first) return null
  const stranger = known.find(({ set }) => set !== first.set)
  if (stranger) throw differ(`they belong to different sets (${first.set} and ${stranger.set})`)
  const count = Math.max(...known.map((member) => member.count))
  if (count !== members.length) {
    const hint = members.length === count + 1 ? ' (to add one: reprise shards add URL)' : ''
    throw differ(`the set has ${count} shards, and ${members.length} were named${hint}`)
  }
  const places = new Array<number>(count).fill(-1)
  for (const [given, member] of members.entries()) {
    if (member === null || member === 'away') continue
    if (places[member.index] !== -1) throw differ(`shard ${member.index} was named twice`)
    places[member.index] = given
  }
  // Shards that are unavailable or new have unknown numbers: they take the remaining ones, in the order passed.
  for (const [given, member] of members.entries()) {
    if (member === null || member === 'away') places[places.indexOf(-1)] = given
  }
  return { places, set: first.set }
}

/** True if a complete set contains a store that is not a member. */
export function lacksShard(members: readonly (Membership | null | 'away')[]): boolean {
  return members.includes(null) && members.some((member) => member !== null && member !== 'away' && member.isWhole)
}

/** Throws SHARDS_DIFFER: such a store is not accepted in place of the missing shard, whose timelines would appear to be lost. */
export function refuseStranger(members: readonly (Membership | null | 'away')[], names: readonly string[]): void {
  if (!lacksShard(members)) return
  const numbers = members.map((member) => (member === null || member === 'away' ? -1 : member.index))
  const missing = members.flatMap((_, index) => (numbers.includes(index) ? [] : [index]))
  const name = names[members.indexOf(null)]
  const { set } = members.find((member) => member !== null && member !== 'away') as Membership
  const place = `shard ${missing.join(' or ')} of ${set}`
  throw differ(`${place} is missing, and ${name} in its place is empty or another database: ${cure}`)
}

/**
 * A shard that was unavailable got one of the remaining numbers: once it is back, it must have that number. Throws SHARDS_DIFFER.
 */
export async function refuseOther(
  store: Store,
  { set, index, name }: { readonly set: string; readonly index: number; readonly name: string },
): Promise<void> {
  const member = await membershipOf(store)
  if (member?.set === set && member.index === index) return
  const found = member === null ? 'belongs to no set' : `is shard ${member.index} of ${member.set}`
  throw differ(`${name}, which was unreachable, should be shard ${index} of ${set}, and ${found}: ${cure}`)
}

const cure = 'use the address of the database with that shard, or restore a backup of it there'

export function differ(what: string): RepriseError {
  return new RepriseError('SHARDS_DIFFER', `these shards do not belong together: ${what}`, {})
}
