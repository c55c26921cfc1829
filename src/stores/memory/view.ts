// Reads the world: results are copies, so that a caller may change them.

import type { TimelineId } from '../../core/coordinate.ts'
import { isWithin } from '../../core/history/scope.ts'
import { checkTimelineQuery } from '../../core/store/argument-checks.ts'
import type {
  EntryRun,
  FeedFilter,
  FeedItem,
  FeedPage,
  FeedPosition,
  Head,
  TimelineQuery,
  WorkerRow,
} from '../../core/store/ports.ts'
import { compareText } from '../../core/store/text-order.ts'
import { isWanted } from '../../core/store/timeline-filter.ts'
import { fromPosition, toPosition } from '../numbered-position.ts'
import { positionGone } from '../refusals.ts'
import type { Space, TimelineRow, WorkerState } from './world.ts'

export function isAlive(worker: WorkerState | undefined, now: number): boolean {
  return worker !== undefined && worker.retiredAt === null && now < worker.beatAt + worker.leaseMs
}

export function toHead(space: Space, row: TimelineRow, now: number): Head {
  return {
    timeline: row.id,
    seq: row.seq,
    life: row.life,
    epoch: row.epoch,
    digest: new Uint8Array(row.digest),
    floor: row.floor,
    floorDigest: new Uint8Array(row.floorDigest),
    base: row.base && { ...row.base, digest: new Uint8Array(row.base.digest) },
    owner: row.owner,
    isOwnerAlive: row.owner !== null && isAlive(space.workers.get(row.owner), now),
    operation: row.operation,
    queue: row.queue,
    priority: row.priority,
    status: row.status,
    wakeup: row.wakeup,
    mail: space.unread.get(row.id)?.length ?? 0,
    attributes: { ...row.attributes },
    createdAt: row.createdAt,
    updatedAt: row.updatedAt,
  }
}

export function toWorkerRow({ retiredAt, ...worker }: WorkerState, now: number): WorkerRow {
  return {
    ...worker,
    info: { ...worker.info },
    isAlive: isAlive({ ...worker, retiredAt }, now),
    isRetired: retiredAt !== null,
    isGone: false,
  }
}

export function copyRun(run: EntryRun): EntryRun {
  return { first: run.first, count: run.count, digest: new Uint8Array(run.digest), bytes: new Uint8Array(run.bytes) }
}

export function readRuns(row: TimelineRow, after: number, bytesMax: number): EntryRun[] {
  const runs: EntryRun[] = []
  let bytes = 0
  let index = row.runs.search((run) => run.first + run.count - 1 > after)
  for (; index < row.runs.length; index++) {
    const run = row.runs.at(index)!
    if (runs.length > 0 && bytes + run.bytes.length > bytesMax) break
    bytes += run.bytes.length
    runs.push(copyRun(run))
  }
  return runs
}

export function readFeed(space: Space, after: FeedPosition, filter: FeedFilter, limit: number): FeedPage {
  const from = fromPosition(after)
  if (from >= space.nextFeedNumber) throw positionGone(after, toPosition(space.nextFeedNumber - 1))
  const items: FeedItem[] = []
  let next = after
  let index = space.feed.search(({ run }) => run.number > from)
  for (; index < space.feed.length && items.length < limit; index++) {
    const { serial, run } = space.feed.at(index)!
    next = toPosition(run.number)
    const timeline = space.serials.get(serial)
    const row = timeline === undefined ? undefined : space.timelines.get(timeline)
    // Forgotten and trimmed runs are not in the feed either.
    if (!row || run.first <= row.floor || !isInFeed(row.id, filter)) continue
    items.push({ position: next, timeline: row.id, run: copyRun(run) })
  }
  return { items, next, isEnd: index >= space.feed.length }
}

function isInFeed(id: TimelineId, { prefixes }: FeedFilter): boolean {
  return prefixes === undefined || prefixes.some((scope) => isWithin(scope, id))
}

export function findTimelines(space: Space, query: TimelineQuery, now: number): Head[] {
  checkTimelineQuery(query)
  const found = [...space.timelines.values()].filter((row) => isWanted(query, row.id, row))
  found.sort((a, b) => compareText(a.id, b.id))
  return found.slice(0, query.limit).map((row) => toHead(space, row, now))
}
