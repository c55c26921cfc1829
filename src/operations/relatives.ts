// The branches a timeline belongs to: forks and archives of rollbacks, starting from the first ancestor.

import type { TimelineId } from '../core/coordinate.ts'
import { liveIdOf } from '../core/history/scope.ts'
import type { Head } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { lineageOf } from '../engine/history/history.ts'
import { hostOf } from '../engine/host/host.ts'
import { statusOf } from './heads.ts'

const shownMax = 200

export interface Relative {
  readonly timeline: string
  readonly base: { readonly timeline: string; readonly seq: number } | null
  readonly seq: number
  readonly status: string
  readonly updatedAt: number
  /** Left by a rollback: its history is no longer current. */
  readonly isArchive: boolean
}

/** At most 200, always including the timeline itself. */
export async function relativesOf(engine: Reprise, head: Head): Promise<Relative[]> {
  const { kernel, models } = hostOf(engine)
  const lineage = await lineageOf(kernel, head)
  const ids = lineage.map(({ timeline }) => timeline)
  const ancestors = (await kernel.store.head(ids)).filter((each): each is Head => each !== null)
  const found = new Map<TimelineId, Head>(ancestors.map((each) => [each.timeline, each]))
  const pending = [...found.keys()].reverse()
  for (let id = pending.shift(); id !== undefined && found.size < shownMax; id = pending.shift()) {
    for (const fork of await engine.list({ parent: id, limit: shownMax })) {
      if (found.has(fork.timeline) || found.size >= shownMax) continue
      found.set(fork.timeline, fork)
      pending.push(fork.timeline)
    }
  }
  return [...found.values()].map((each) => {
    const { timeline, base, seq, updatedAt } = each
    const status = statusOf(each, models.find(timeline))
    const isArchive = liveIdOf(timeline) !== timeline
    return { timeline, base: base && { timeline: base.timeline, seq: base.seq }, seq, status, updatedAt, isArchive }
  })
}
