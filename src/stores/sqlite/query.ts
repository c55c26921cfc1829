// Taking the timelines that want to run, and freeing those of workers that are gone. What a person asks for: list.ts.

import type { ClaimRequest, Head } from '../../core/ports.ts'
import { workerRetired } from '../refusals.ts'
import { findDue } from './due.ts'
import { toHead } from './heads.ts'
import type { Workers } from './workers.ts'
import type { Writing } from './writing.ts'

export function claim(writing: Writing, request: ClaimRequest): Head[] {
  const { timelines, workers, now } = writing
  if (workers.isRetired(request.worker)) throw workerRetired(request.worker)
  return findDue(writing, request).map((tid) => {
    const { head, ...rest } = timelines.required(tid)
    timelines.put({ ...rest, head: { ...head, owner: request.worker, epoch: head.epoch + 1, updatedAt: now } })
    return toHead(timelines.byTid(tid), workers, now)!
  })
}

export function retire(writing: Writing, workers: readonly string[]): void {
  const { connection, space, timelines, now } = writing
  for (const worker of workers) {
    writing.workers.retire(worker as Parameters<Workers['retire']>[0], now)
    writing.hasAside = true
    const sql = 'SELECT tid FROM reprise_timeline WHERE space = ? AND owner = ?'
    for (const { tid } of connection.all(sql, space, worker)) {
      const { head, ...rest } = timelines.required(tid as number)
      timelines.put({ ...rest, head: { ...head, owner: null, updatedAt: now } })
    }
  }
  if (workers.length > 0) writing.workers.forgetOldest(now)
}
