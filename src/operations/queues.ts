// Waiting, running and overdue timelines of each queue.

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

export async function queuesOf(engine: Reprise): Promise<QueueRow[]> {
  const rows = new Map<string, Counted>()
  const { kernel } = hostOf(engine)
  const now = kernel.worker.now()
  // Damaged timelines are reported by verify and doctor, and no worker takes them.
  for await (const head of soundHeads(kernel, {}, () => undefined)) {
    if (head.queue !== null) count(rowOf(rows, head.queue), head, now)
  }
  return [...rows.values()].sort((a, b) => a.queue.localeCompare(b.queue))
}

function rowOf(rows: Map<string, Counted>, queue: string): Counted {
  const row = rows.get(queue) ?? { queue, timelines: 0, running: 0, due: 0, mail: 0, nextAt: null, oldestAt: null }
  rows.set(queue, row)
  return row
}

function count(row: Counted, head: Head, now: number): void {
  const isRunning = head.owner !== null && head.isOwnerAlive
  const isLate = head.wakeup !== null && head.wakeup <= now
  row.timelines += 1
  row.mail += head.mail
  if (isRunning) row.running += 1
  else if (head.mail > 0 || isLate) {
    row.due += 1
    row.oldestAt = Math.min(row.oldestAt ?? Number.POSITIVE_INFINITY, isLate ? head.wakeup! : head.updatedAt)
  }
  if (head.wakeup !== null && !isRunning) row.nextAt = Math.min(row.nextAt ?? Number.POSITIVE_INFINITY, head.wakeup)
}
