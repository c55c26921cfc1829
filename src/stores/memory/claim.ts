// Claims: selects due timelines, and assigns them to a worker with a new epoch.

import type { ClaimRequest, Head } from '../../core/store/ports.ts'
import { compareText } from '../../core/store/text-order.ts'
import { workerRetired } from '../refusals.ts'
import { isAlive, toHead } from './view.ts'
import type { Space, TimelineRow } from './world.ts'

export function claim(space: Space, request: ClaimRequest, now: number): Head[] {
  const worker = space.workers.get(request.worker)
  if (worker && worker.retiredAt !== null) throw workerRetired(request.worker)
  const except = new Set(request.except ?? [])
  const due = [...space.timelines.values()].filter(
    (row) =>
      row.queue !== null &&
      request.queues.includes(row.queue) &&
      !except.has(row.id) &&
      row.owner !== request.worker &&
      isDue(space, row, now) &&
      (row.owner === null || !isAlive(space.workers.get(row.owner), now)),
  )
  due.sort(byUrgency)
  return due.slice(0, Math.max(0, request.limit)).map((row) => {
    const taken: TimelineRow = { ...row, owner: request.worker, epoch: row.epoch + 1, updatedAt: now }
    space.timelines.set(row.id, taken)
    return toHead(space, taken, now)
  })
}

function isDue(space: Space, row: TimelineRow, now: number): boolean {
  return (row.wakeup !== null && row.wakeup <= now) || space.unread.has(row.id)
}

function byUrgency(a: TimelineRow, b: TimelineRow): number {
  const later = Number.POSITIVE_INFINITY
  const aWakeup = a.wakeup ?? later
  const bWakeup = b.wakeup ?? later
  if (a.priority !== b.priority) return b.priority - a.priority
  if (aWakeup !== bWakeup) return aWakeup < bWakeup ? -1 : 1
  return compareText(a.id, b.id)
}
