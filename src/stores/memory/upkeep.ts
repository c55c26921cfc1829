// Workers and housekeeping: heartbeats, retirement, removal of rows that are no longer needed.

import type { WorkerId } from '../../core/coordinate.ts'
import { retiredWorkers } from '../../core/limits.ts'
import type { WorkerRecord } from '../../core/store/ports.ts'
import { Log } from './copy-on-write.ts'
import { tidyPasts } from './past.ts'
import type { Space } from './world.ts'

const feedSlack = 1024

/** False: it was retired. */
export function beat(space: Space, worker: WorkerRecord, now: number): boolean {
  const before = space.workers.get(worker.id)
  if (before && before.retiredAt !== null) return false
  space.workers.set(worker.id, {
    id: worker.id,
    name: worker.name,
    host: worker.host,
    process: worker.process,
    leaseMs: worker.leaseMs,
    info: { ...worker.info },
    progress: worker.progress,
    startedAt: before?.startedAt ?? now,
    beatAt: now,
    progressAt: before && before.progress === worker.progress ? before.progressAt : now,
    retiredAt: null,
  })
  return true
}

export function retire(space: Space, workers: readonly WorkerId[], now: number): void {
  for (const id of workers) {
    const worker = space.workers.get(id)
    if (worker && worker.retiredAt === null) space.workers.set(id, { ...worker, retiredAt: now })
  }
  const gone = new Set(workers)
  for (const row of [...space.timelines.values()]) {
    if (row.owner !== null && gone.has(row.owner)) space.timelines.set(row.id, { ...row, owner: null, updatedAt: now })
  }
  forgetOldest(space, now)
}

function forgetOldest(space: Space, now: number): void {
  const times = [...space.workers.values()].flatMap(({ retiredAt }) => (retiredAt === null ? [] : [retiredAt]))
  const newest = times.sort((a, b) => b - a)[retiredWorkers.kept - 1]
  if (newest !== undefined) forgetRetired(space, Math.min(newest, now - retiredWorkers.keptMs))
}

function forgetRetired(space: Space, before: number): number {
  let workers = 0
  for (const [id, { retiredAt }] of [...space.workers.entries()]) {
    if (retiredAt !== null && retiredAt < before && space.workers.delete(id)) workers += 1
  }
  return workers
}

export function tidy(space: Space, before: number): { messages: number; workers: number } {
  tidyPasts(space, before)
  let messages = 0
  for (const [key, { consumedAt }] of [...space.messages.entries()]) {
    if (consumedAt !== null && consumedAt < before && space.messages.delete(key)) messages += 1
  }
  return { messages, workers: forgetRetired(space, before) }
}

/** Trimmed and forgotten runs stay in the feed's list until they are the majority. */
export function compactFeed(space: Space): void {
  if (space.feed.length < feedSlack) return
  let liveCount = 0
  for (const row of space.timelines.values()) liveCount += row.runs.length
  if (space.feed.length < 2 * liveCount) return
  const live = [...space.feed].filter(({ serial, run }) => {
    const id = space.serials.get(serial)
    const row = id === undefined ? undefined : space.timelines.get(id)
    return row !== undefined && run.first > row.floor
  })
  space.feed = new Log(live)
}
