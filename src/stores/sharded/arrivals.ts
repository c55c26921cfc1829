// Timelines that arrive from another shard. The copy is inactive until the signpost at its old place names the same
// move; then the copy becomes the timeline, whichever process notices first. Its notes record which of its runs the feed of the
// old shard shows.

import type { ManifestId, OperationId, TimelineId } from '../../core/coordinate.ts'
import { guardOf } from '../../core/store/commit-guard.ts'
import type { Commit, FeedPosition, Head, Store } from '../../core/store/ports.ts'
import {
  arrivalOf,
  behindKey,
  digestKey,
  fromKey,
  hidesKey,
  isArriving,
  moveKey,
  remnantKey,
  type Scheduling,
  schedulingKey,
  seqKey,
} from '../../core/store/shards.ts'
import { noDigest, shardsWorker } from './shards-worker.ts'

export interface Arrival {
  /** The shard that it left, and the id of its runs there. */
  readonly from: number
  readonly remnant: TimelineId
  /** Runs up to here are copies: the shard that it left shows them. Null: all are. */
  readonly hides: FeedPosition | null
  /** A reader at this position there has seen those. */
  readonly behind: FeedPosition
  /** The end of its history then: distinguishes it from another timeline of the same id. */
  readonly seq: number
  readonly digest: string
}

export async function arrivalsOn(store: Store, ids: readonly TimelineId[]): Promise<(Arrival | null)[]> {
  if (ids.length === 0) return []
  const heads = await store.head(ids.map(arrivalOf))
  return heads.map((head) => head && arrivalIn(head))
}

function arrivalIn({ attributes }: Head): Arrival | null {
  const keys = [fromKey, remnantKey, hidesKey, behindKey, seqKey, digestKey]
  const [from, remnant, hides, behind, seq, digest] = keys.map((key) => attributes[key])
  if (typeof from !== 'number') return null
  return {
    from,
    remnant: String(remnant) as TimelineId,
    hides: hides === undefined ? null : String(hides),
    behind: String(behind ?? ''),
    seq: Number(seq),
    digest: String(digest),
  }
}

/** Written before the first run is copied, and again once all are. */
export async function noteArrival(
  store: Store,
  id: TimelineId,
  { from, remnant, hides, behind, seq, digest }: Arrival,
  newOperation: () => OperationId,
): Promise<void> {
  const timeline = arrivalOf(id)
  for (;;) {
    const [head] = await store.head([timeline])
    const [outcome] = await store.commit([
      {
        operation: newOperation(),
        guard: { timeline, epoch: head?.epoch ?? 0 },
        take: { worker: shardsWorker, from: 'anyone', create: { digest: noDigest } },
        release: true,
        attributes: {
          [fromKey]: from,
          [remnantKey]: remnant,
          [hidesKey]: hides,
          [behindKey]: behind,
          [seqKey]: seq,
          [digestKey]: digest,
        },
      },
    ])
    if (outcome!.ok) return
  }
}

/** The head that the activation of this copy would leave, for a store that does not write. */
export function activated(head: Head): Head {
  const { status, queue, wakeup, operation } = schedulingIn(head)
  return { ...head, status, queue, wakeup, operation }
}

/** The checkpoints that this copy keeps pinned once it is activated. */
export function pinnedOn(head: Head): readonly ManifestId[] {
  return head.attributes[schedulingKey] === undefined ? [] : schedulingIn(head).pinned
}

function schedulingIn({ attributes }: Head): Scheduling {
  return JSON.parse(String(attributes[schedulingKey])) as Scheduling
}

/** Idempotent: it has the operation of the last commit before the move, so two processes apply it once. */
export function activation(head: Head, newOperation: () => OperationId): Commit {
  const { status, queue, wakeup, operation, pinned } = schedulingIn(head)
  return {
    operation: operation ?? newOperation(),
    guard: { timeline: head.timeline, epoch: head.epoch },
    take: { worker: shardsWorker, from: 'anyone' },
    release: true,
    status,
    queue,
    wakeup,
    attributes: { [moveKey]: null, [schedulingKey]: null },
    ...(pinned.length > 0 && { marks: pinned.map((id) => ({ id, isPinned: true })) }),
  }
}

/** Deletes the copy of an abandoned move, with the copies of its forks. */
export async function discard(store: Store, id: TimelineId, newOperation: () => OperationId): Promise<void> {
  for (;;) {
    const [head] = await store.head([id])
    if (!head || !isArriving(head)) return
    for (const fork of await store.timelines({ parent: id, limit: 1000 }))
      await discard(store, fork.timeline, newOperation)
    await store.commit([{ operation: newOperation(), guard: guardOf(head), forget: 'moved' }])
  }
}
