// Claims due timelines, and frees those of dead workers. Lists for people: list.ts.

import { isReprise } from '../../../core/errors.ts'
import type { ClaimRequest, Head } from '../../../core/store/ports.ts'
import { workerRetired } from '../../refusals.ts'
import type { Writing } from '../writing/writing.ts'
import { findDue } from './due.ts'
import { toHead } from './heads.ts'
import type { Timeline } from './timelines.ts'
import type { Workers } from './workers.ts'

export function claim(writing: Writing, request: ClaimRequest): Head[] {
  const { timelines, workers, now } = writing
  if (workers.isRetired(request.worker)) throw workerRetired(request.worker)
  return dueAndSound(writing, request).map(({ head, ...rest }) => {
    timelines.put({ ...rest, head: { ...head, owner: request.worker, epoch: head.epoch + 1, updatedAt: now } })
    return toHead(timelines.byTid(rest.tid), workers, now)!
  })
}

/** A damaged timeline is quarantined: no worker gets it, and it does not count towards the limit. */
function dueAndSound(writing: Writing, request: ClaimRequest): Timeline[] {
  for (let limit = request.limit; ; limit *= 2) {
    const due = findDue(writing, { ...request, limit })
    const sound = due.flatMap((tid) => unlessDamaged(() => writing.timelines.required(tid)) ?? [])
    if (sound.length >= request.limit || due.length < limit) return sound.slice(0, request.limit)
  }
}

function unlessDamaged<Result>(work: () => Result): Result | null {
  try {
    return work()
  } catch (error) {
    if (!isReprise(error, 'STORE_DAMAGED')) throw error
    return null
  }
}

export function retire(writing: Writing, workers: readonly string[]): void {
  const { connection, space, timelines, now } = writing
  for (const worker of workers) {
    writing.workers.retire(worker as Parameters<Workers['retire']>[0], now)
    writing.hasAside = true
    const sql = 'SELECT tid FROM reprise_timeline WHERE space = ? AND owner = ?'
    for (const { tid } of connection.all(sql, space, worker)) {
      const timeline = unlessDamaged(() => timelines.required(tid as number))
      if (timeline) timelines.put({ ...timeline, head: { ...timeline.head, owner: null, updatedAt: now } })
    }
  }
  if (workers.length > 0) writing.workers.forgetOldest(now)
}
