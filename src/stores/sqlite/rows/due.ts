// The timelines that are due and have no live owner, most urgent first. The cost of a claim does not grow with the number of
// due, sleeping or owned timelines: timelines without an owner are in one index in claim order, and only as many rows are read
// as are requested.

import type { ClaimRequest, DueQuery } from '../../../core/store/ports.ts'
import { workerRetired } from '../../refusals.ts'
import type { SqlRow } from '../file/driver.ts'
import { damaged } from '../file/failure.ts'
import type { QuerySource } from './query-source.ts'
import { isIntact } from './row-checksum.ts'
import { ownerKey, talliedOwners } from './tally.ts'
import { columnNames } from './timeline-statements.ts'

/** The order of claims: higher priority first, then the time since which it is due (mail: 0), then the name. */
interface Due {
  readonly tid: number
  readonly priority: number
  readonly due: number
  readonly name: string
}

const free =
  'reprise_timeline INDEXED BY reprise_timeline_due WHERE space = ? AND queue = ? AND owner IS NULL AND due IS NOT NULL'
/** Level by level: with an index on priority first, sleeping timelines of a higher priority would have to be skipped. */
const highest = `SELECT priority FROM ${free} ORDER BY priority DESC LIMIT 1`
const nextLower = `SELECT priority FROM ${free} AND priority < ? ORDER BY priority DESC LIMIT 1`
const ofLevel = `SELECT tid, priority, due, name FROM ${free} AND priority = ? AND due <= ? ORDER BY due, name LIMIT ?`
const firstOfLevel = `SELECT tid, due, name FROM ${free} AND priority = ? ORDER BY due, name LIMIT ?`
const ofOwner = `SELECT tid, priority, due, name, queue FROM reprise_timeline INDEXED BY reprise_timeline_owner
  WHERE space = ? AND owner = ?`

/** The numbers of the timelines that a worker may claim now. */
export function findDue(source: QuerySource, { worker, queues, except = [], limit }: ClaimRequest): number[] {
  if (limit <= 0) return []
  const left = new Set<string>(except)
  const served = new Set(queues)
  const found = ownedByDead(source, worker, served)
  for (const queue of served) found.push(...freeIn(source, queue, limit + left.size))
  const wanted = left.size > 0 ? found.filter(({ name }) => !left.has(name)) : found
  return wanted
    .sort(byUrgency)
    .slice(0, limit)
    .map(({ tid }) => tid)
}

function freeIn({ connection, space, now }: QuerySource, queue: string, limit: number): Due[] {
  const found: Due[] = []
  let level = connection.get(highest, space, queue)
  while (level && found.length < limit) {
    const priority = level.priority as number
    found.push(...connection.all(ofLevel, space, queue, priority, now, limit - found.length).map(toDue))
    level = connection.get(nextLower, space, queue, priority)
  }
  return found
}

/** Timelines of dead workers that were not retired yet: few, and not for long. */
function ownedByDead(source: QuerySource, worker: string, queues: ReadonlySet<string>): Due[] {
  const { connection, space, now, workers } = source
  const found: Due[] = []
  for (const { owner, count } of talliedOwners(connection, space)) {
    if (owner === worker || workers.isAlive(owner, now)) continue
    const rows = connection.all(ofOwner, space, owner)
    if (rows.length !== count) {
      const key = ownerKey(space, owner)
      throw damaged(`${count} timelines have owner ${key}, but ${rows.length} are in its index`, { kind: 'owner', key })
    }
    const isDue = ({ due, queue }: SqlRow) => due !== null && (due as number) <= now && queues.has(queue as string)
    found.push(...rows.filter(isDue).map(toDue))
  }
  return found
}

/** Damaged timelines between the first rows of a level, which no worker gets, are skipped. */
const spareRows = 20
/** For a worker that owns more, the end of its lease is used for all of them. */
const ownedRows = 200

/** The time of Store.nextDue: from the index of claims, level by level, and from the timelines of each owner. */
export function nextDue(source: QuerySource, { queues, except = [] }: DueQuery): number | null {
  const { connection, space, now, workers } = source
  const left = new Set<string>(except)
  const times: number[] = []
  for (const queue of new Set(queues)) {
    let level = connection.get(highest, space, queue)
    while (level) {
      const rows = connection.all(firstOfLevel, space, queue, level.priority!, left.size + spareRows)
      const first = rows.find(({ tid, name }) => !left.has(name as string) && isSound(source, tid as number))
      if (first) times.push(first.due as number)
      level = connection.get(nextLower, space, queue, level.priority!)
    }
  }
  for (const { owner } of talliedOwners(connection, space)) {
    const worker = workers.isAlive(owner, now) ? workers.find(owner) : null
    const leaseEnd = worker ? worker.beatAt + worker.leaseMs : 0
    const rows = connection.all(`${ofOwner} LIMIT ?`, space, owner, ownedRows + 1)
    if (rows.length > ownedRows) times.push(leaseEnd)
    for (const { due, queue, name } of rows) {
      const isAsked = due !== null && queues.includes(queue as string) && !left.has(name as string)
      if (isAsked) times.push(Math.max(due as number, leaseEnd))
    }
  }
  return times.length === 0 ? null : Math.min(...times)
}

function isSound({ connection }: QuerySource, tid: number): boolean {
  return isIntact(connection.get('SELECT * FROM reprise_timeline WHERE tid = ?', tid)!, columnNames)
}

function toDue({ tid, priority, due, name }: SqlRow): Due {
  return { tid: tid as number, priority: priority as number, due: due as number, name: name as string }
}

function byUrgency(a: Due, b: Due): number {
  if (a.priority !== b.priority) return b.priority - a.priority
  if (a.due !== b.due) return a.due - b.due
  return Buffer.compare(Buffer.from(a.name), Buffer.from(b.name))
}

const sliceRows = 100
const slice = `SELECT tid, due, space, queue FROM reprise_timeline INDEXED BY reprise_timeline_wake
  WHERE due <= ? AND (due, space, queue, tid) > (?, ?, ?, ?) ORDER BY due, space, queue, tid LIMIT ${sliceRows}`
const missing = `SELECT t.tid, t.queue FROM json_each(?) x CROSS JOIN reprise_timeline t ON t.tid = x.value
  WHERE t.owner IS NULL AND t.queue IS NOT NULL AND NOT EXISTS (SELECT 1 FROM reprise_timeline d INDEXED BY reprise_timeline_due
    WHERE d.space = t.space AND d.queue = t.queue AND d.owner IS NULL AND d.due IS NOT NULL AND d.priority = t.priority
      AND d.due = t.due AND d.name = t.name)`

type Place = readonly [due: number, space: number, queue: string, tid: number]
const start: Place = [-1, 0, '', 0]

/** The check before a claim, without the write lock. */
export class DueCheck {
  #after: Place = start

  hasDue(source: QuerySource, request: ClaimRequest): boolean {
    if (source.workers.isRetired(request.worker)) throw workerRetired(request.worker)
    this.#check(source)
    return findDue(source, { ...request, limit: Math.min(request.limit, 1) }).length > 0
  }

  /**
   * Checks some rows at each claim, and all in turn: a timeline that is due by the index `wake` must also be in the index for
   * claims. A timeline that is missing there would never run again. Throws STORE_DAMAGED.
   */
  #check(source: QuerySource): void {
    const { connection, now } = source
    const rows = connection.all(slice, now, ...this.#after)
    const last = rows.at(-1)
    this.#after =
      rows.length < sliceRows || !last
        ? start
        : [last.due as number, last.space as number, (last.queue as string | null) ?? '', last.tid as number]
    if (rows.length === 0) return
    // A damaged row is quarantined, and disagrees with its indexes.
    const looked = JSON.stringify(rows.map(({ tid }) => tid))
    if (!connection.get(missing, looked)) return
    const lost = connection.all(missing, looked).find(({ tid }) => isSound(source, tid as number))
    if (lost) {
      throw damaged(`timeline ${lost.tid} is missing from the index of due timelines in queue ${lost.queue}`, {
        queue: String(lost.queue),
      })
    }
  }
}
