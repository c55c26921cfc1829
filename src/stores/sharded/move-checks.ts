// Checks for forks and rollbacks while families move: a fork stays with its parent, so none is made of a timeline that
// is about to leave, and nothing is rolled back while a fork of it is still to arrive.

import type { TimelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { guardOf } from '../../core/store/commit-guard.ts'
import type { Head, Outcome } from '../../core/store/ports.ts'
import { isArriving, isHidden, movingKey } from '../../core/store/shards.ts'
import type { ShardMap } from './shard-map.ts'
import { shardsWorker } from './shards-worker.ts'

/** The epoch of a parent that is not being moved. Null: it is being moved. A dead mover is fenced. */
export async function parentAtRest(shardMap: ShardMap, shard: number, head: Head): Promise<number | null> {
  if (head.attributes[movingKey] === undefined) return head.epoch
  if (head.owner !== null && head.isOwnerAlive) return null
  const { timeline, epoch } = head
  const take = { worker: shardsWorker, from: 'dead' as const }
  const commit = { guard: { timeline, epoch }, take, release: true, attributes: { [movingKey]: null } }
  const [outcome] = await shardMap
    .shard(shard)
    .ask((store) => store.commit([{ operation: shardMap.newOperation(), ...commit }]))
  return outcome!.ok ? outcome!.epoch : null
}

/** After the fork was made: if its parent was taken meanwhile, it may have left, and the fork is removed. */
export async function isParentSame(
  shardMap: ShardMap,
  shard: number,
  parent: TimelineId,
  epoch: number,
  fork: { readonly timeline: TimelineId; readonly epoch: number },
): Promise<boolean> {
  const [head] = await shardMap.shard(shard).ask((store) => store.head([parent]))
  if (head && !isHidden(head) && head.epoch === epoch) return true
  await shardMap.shard(shard).ask(async (store) => {
    const [made] = await store.head([fork.timeline])
    if (made?.epoch !== fork.epoch) return
    await store.commit([{ operation: shardMap.newOperation(), guard: guardOf(made), forget: 'moved' }])
  })
  shardMap.forget(fork.timeline)
  return false
}

/** A copy that has a signpost by now is a fork like any other. */
export async function arrivingFork(shardMap: ShardMap, shard: number, parent: TimelineId): Promise<TimelineId | null> {
  const forks = () => shardMap.shard(shard).ask((store) => store.timelines({ parent, limit: 10_000 }))
  const arriving = (await forks()).filter(isArriving)
  if (arriving.length === 0) return null
  await shardMap.settle(shard, arriving)
  return (await forks()).find(isArriving)?.timeline ?? null
}

/** Refused; the caller retries. */
export function moving(timeline: TimelineId): Outcome {
  const reason = `${timeline} is being moved to another shard`
  return {
    ok: false,
    code: 'SHARD_AWAY',
    reason,
    head: null,
    cause: new RepriseError('STORE_BUSY', reason, { timeline }),
  }
}
