// Finding the timelines that want to run, and taking them. What a person asks for: list.ts.

import type { ClaimRequest, Head } from '../../core/ports.ts'
import { workerRetired } from '../refusals.ts'
import type { Connection } from './connection.ts'
import { damaged } from './failure.ts'
import { toHead } from './heads.ts'
import type { Timelines } from './timelines.ts'
import type { Workers } from './workers.ts'
import type { Writing } from './writing.ts'

export interface QuerySource {
  readonly connection: Connection
  readonly space: number
  readonly timelines: Timelines
  readonly workers: Workers
  readonly now: number
}

/**
 * Throws STORE_DAMAGED if the two indexes of what is due disagree: a timeline that is in none would never run again. By
 * number and time alone, which both have without looking at the table.
 */
export function checkDue({ connection, space, now }: QuerySource, { queues }: ClaimRequest): void {
  const ask = (index: string) => `SELECT count(*) AS count, coalesce(sum(tid), 0) AS sum FROM reprise_timeline
    INDEXED BY ${index} WHERE space = ? AND queue = ? AND due <= ?`
  for (const queue of new Set(queues)) {
    const [one, other] = ['reprise_timeline_due', 'reprise_timeline_wake'].map((index) =>
      connection.get(ask(index), space, queue, now),
    )
    if (one?.count === other?.count && one?.sum === other?.sum) continue
    throw damaged(`the indexes of what is due in queue ${queue} disagree`, { queue })
  }
}

/** Numbers of the timelines that this worker may take now, most urgent first. */
export function findDue(source: QuerySource, request: ClaimRequest): number[] {
  if (source.workers.isRetired(request.worker)) throw workerRetired(request.worker)
  const sql = `SELECT t.tid FROM json_each(?) q
    JOIN reprise_timeline t ON t.space = ? AND t.queue = q.value AND t.due <= ?
    WHERE (t.owner IS NULL OR t.owner NOT IN (SELECT value FROM json_each(?)))
      AND t.name NOT IN (SELECT value FROM json_each(?))
    ORDER BY t.priority DESC, t.wakeup IS NULL, t.wakeup, t.name LIMIT ?`
  const rows = source.connection.all(
    sql,
    JSON.stringify([...new Set(request.queues)]),
    source.space,
    source.now,
    // What these own is in good hands. Few, while there may be thousands of timelines to look at.
    JSON.stringify([request.worker, ...source.workers.alive(source.now)]),
    JSON.stringify(request.except ?? []),
    Math.max(0, request.limit),
  )
  return rows.map(({ tid }) => tid as number)
}

export function claim(writing: Writing, request: ClaimRequest): Head[] {
  const { timelines, workers, now } = writing
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
}
