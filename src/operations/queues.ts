// Waiting, running and overdue timelines of each queue.

import type { TimelineId } from '../core/coordinate.ts'
import { isReprise } from '../core/errors.ts'
import type { Head } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { hostOf } from '../engine/host/host.ts'
import { soundHeads } from '../engine/storage/sound-page.ts'

export interface QueueRow {
  readonly queue: string
  readonly timelines: number
  readonly running: number
  readonly due: number
  readonly mail: number
  readonly nextAt: number | null
  /** Wakeup of the longest overdue timeline; null: none is overdue. */
  readonly oldestAt: number | null
}

type Counted = { -readonly [Key in keyof QueueRow]: QueueRow[Key] }

const atOnce = 500

/** `among`: the timelines that may be in a queue, if the caller knows them. Default: all are read. */
export async function queuesOf(engine: Reprise, among: readonly TimelineId[] | null = null): Promise<QueueRow[]> {
  const rows = new Map<string, Counted>()
  const { kernel } = hostOf(engine)
  const now = kernel.worker.now()
  const heads = (among && (await headsOf(engine, among))) ?? soundHeads(kernel, {}, () => undefined)
  for await (const head of heads) {
    if (head.queue !== null) count(rowOf(rows, head.queue), head, now)
  }
  return [...rows.values()].sort((a, b) => a.queue.localeCompare(b.queue))
}

/** Null: one of them is damaged. Damaged timelines are reported by verify and doctor, and no worker takes them. */
async function headsOf(engine: Reprise, ids: readonly TimelineId[]): Promise<readonly Head[] | null> {
  const host = hostOf(engine)
  const heads: Head[] = []
  try {
    for (let i = 0; i < ids.length; i += atOnce)
      for (const head of await host.heads(ids.slice(i, i + atOnce))) if (head) heads.push(head)
  } catch (error) {
    if (isReprise(error, 'STORE_DAMAGED')) return null
    throw error
  }
  return heads
}

function rowOf(rows: Map<string, Counted>, queue: string): Counted {
  const row = rows.get(queue) ?? { queue, timelines: 0, running: 0, due: 0, mail: 0, nextAt: null, oldestAt: null }
  rows.set(queue, row)
  return row
}

/** The time at which a timeline of a queue became due; null: it is not due, or a worker has it. */
export function dueSince({ queue, owner, isOwnerAlive, wakeup, mail, updatedAt }: Head, now: number): number | null {
  if (queue === null || (owner !== null && isOwnerAlive)) return null
  if (wakeup !== null && wakeup <= now) return wakeup
  return mail > 0 ? updatedAt : null
}

function count(row: Counted, head: Head, now: number): void {
  const isRunning = head.owner !== null && head.isOwnerAlive
  const since = dueSince(head, now)
  row.timelines += 1
  row.mail += head.mail
  if (isRunning) row.running += 1
  if (since !== null) {
    row.due += 1
    row.oldestAt = Math.min(row.oldestAt ?? Number.POSITIVE_INFINITY, since)
  }
  if (head.wakeup !== null && !isRunning) row.nextAt = Math.min(row.nextAt ?? Number.POSITIVE_INFINITY, head.wakeup)
}
