// Finding timelines: by what a person asks for, and by what wants to run.

import { RepriseError } from '../../core/errors.ts'
import type { ClaimRequest, Head, TimelineQuery } from '../../core/ports.ts'
import { rangeOf } from '../../core/scope.ts'
import { checkTimelineQuery } from '../../core/shapes.ts'
import { searchValue } from './attributes.ts'
import type { Connection } from './connection.ts'
import type { SqlValue } from './driver.ts'
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

export function findTimelines(source: QuerySource, query: TimelineQuery): Head[] {
  checkTimelineQuery(query)
  const parent = query.parent === undefined ? undefined : source.timelines.find(query.parent)
  if (parent === null) return []
  const where = ['space = ?', 'is_stub = 0']
  const values: SqlValue[] = [source.space]
  const ask = (condition: string, value: SqlValue | undefined) => {
    if (value === undefined) return
    where.push(condition)
    values.push(value)
  }
  if (query.prefix !== undefined && query.prefix !== '') askWithin(query.prefix)
  ask('name > ?', query.after)
  ask('status = ?', query.status)
  ask('queue = ?', query.queue)
  ask('owner = ?', query.owner)
  ask('parent = ?', parent?.tid)
  for (const [key, value] of Object.entries(query.attributes ?? {})) {
    ask('tid IN (SELECT tid FROM reprise_attribute WHERE key = ? AND value = ?)', JSON.stringify(key))
    values.push(searchValue(value))
  }
  /** By range, which the index can use; what else lies in it is told apart as core/scope.ts does. */
  function askWithin(scope: string): void {
    const { from, to } = rangeOf(scope)
    ask('name >= ?', from)
    ask('name < ?', to ?? undefined)
    if (scope.endsWith('/')) return
    const tail = 'substr(name, length(?) + 1)'
    const isArchive = `(${tail} GLOB '~[0-9]*' AND ${tail} GLOB '*[0-9]' AND ${tail} NOT GLOB '*[^~0-9]*' AND ${tail} NOT GLOB '*~~*')`
    where.push(`(name = ? OR substr(${tail}, 1, 1) = '/' OR ${isArchive})`)
    values.push(...Array<string>(6).fill(scope))
  }
  const sql = `SELECT tid FROM reprise_timeline WHERE ${where.join(' AND ')} ORDER BY name LIMIT ?`
  const rows = source.connection.all(sql, ...values, query.limit)
  return rows.map(({ tid }) => toHead(source.timelines.byTid(tid as number), source.workers, source.now)!)
}

/** Numbers of the timelines that this worker may take now, most urgent first. */
export function findDue(source: QuerySource, request: ClaimRequest): number[] {
  if (source.workers.isRetired(request.worker)) {
    throw new RepriseError('WORKER_RETIRED', `worker ${request.worker} was declared dead`, { worker: request.worker })
  }
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
    const { head, ...rest } = timelines.byTid(tid)!
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
      const { head, ...rest } = timelines.byTid(tid as number)!
      timelines.put({ ...rest, head: { ...head, owner: null, updatedAt: now } })
    }
  }
}
