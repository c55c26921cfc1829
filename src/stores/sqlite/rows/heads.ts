// A timeline in the form of the port: a copy, with the owner's liveness by the store's clock.

import type { Head } from '../../../core/store/ports.ts'
import type { Timeline } from './timelines.ts'
import type { Workers } from './workers.ts'

/** Null for a stub: the timeline does not exist yet. */
export function toHead(timeline: Timeline | null, workers: Workers, now: number): Head | null {
  if (!timeline || timeline.row.isStub) return null
  const { head, row, name } = timeline
  return {
    timeline: name,
    seq: head.seq,
    life: head.life,
    epoch: head.epoch,
    digest: head.digest.slice(),
    owner: head.owner,
    isOwnerAlive: workers.isAlive(head.owner, now),
    floor: head.floor,
    floorDigest: head.floorDigest.slice(),
    base: head.base && { ...head.base, digest: head.base.digest.slice() },
    queue: row.queue,
    priority: row.priority,
    status: row.status,
    wakeup: row.wakeup,
    mail: row.mail,
    attributes: { ...row.attributes },
    operation: head.operation,
    createdAt: row.createdAt,
    updatedAt: head.updatedAt,
  }
}
