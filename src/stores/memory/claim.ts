// Claims: selects due timelines, and assigns them to a worker with a new epoch.

import type { ClaimRequest, DueQuery, Head } from '../../core/store/ports.ts'
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

export function nextDue(space: Space, { queues, except = [] }: DueQuery, now: number): number | null {
  const left = new Set(except)
  let next: number | null = null
  for (const row of space.timelines.values()) {
    if (row.queue === null || !queues.includes(row.queue) || left.has(row.id)) continue
    const due = space.unread.has(row.id) ? 0 : row.wakeup
    if (due === null) continue
    const owner = row.owner === null ? undefined : space.workers.get(row.owner)
    const at = isAlive(owner, now) ? Math.max(due, owner!.beatAt + owner!.leaseMs) : due
    if (next === null || at < next) next = at
  }
  return next
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
