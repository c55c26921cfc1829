// Forks that nobody has touched for as long as was declared (`retain.forks`, stored with the timeline that they were forked
// from) go, with their archives. Whatever `delete` refuses stays, and the report says why: a fork at work, one that has not
// ended, one with a savepoint, one that was forked itself. The branch that a rollback made is no fork in this sense.

import { type RetentionPolicy, resolveRetention } from '../../../core/checkpoint/retention.ts'
import type { TimelineId } from '../../../core/coordinate.ts'
import { isReprise } from '../../../core/errors.ts'
import { liveIdOf } from '../../../core/history/scope.ts'
import type { Head } from '../../../core/store/ports.ts'
import type { Kernel } from '../../storage/kernel.ts'
import { deleteTimeline } from './delete.ts'

export interface ExpiredForks {
  /** Gone, or, in a dry run, those that would go. */
  readonly expired: readonly string[]
  /** Due, and kept all the same. */
  readonly kept: readonly { readonly timeline: string; readonly because: string }[]
}

/** Of one round, for one timeline. */
const forksMax = 200

/** @example await expireForks(kernel, head, { forks: '30d' }, now, true) // only says which */
export async function expireForks(
  kernel: Kernel,
  head: Head,
  policy: RetentionPolicy,
  now: number,
  dryRun: boolean,
): Promise<ExpiredForks> {
  const { forksMs } = resolveRetention(policy)
  const expired: string[] = []
  const kept: ExpiredForks['kept'][number][] = []
  if (forksMs === null) return { expired, kept }
  const before = now - forksMs
  for (const seen of await dueForks(kernel, head, before)) {
    const { timeline } = seen
    try {
      const { timelines, refusals } = await deleteTimeline(kernel, timeline, { dryRun, seen })
      const [refusal] = refusals
      if (refusal) kept.push({ timeline, because: refusal.why })
      else expired.push(...timelines.map((each) => each.timeline))
    } catch (error) {
      if (!isReprise(error, 'OWNED', 'PINNED', 'CONFLICT', 'FENCED', 'NOT_FOUND', 'MAIL_WAITING')) throw error
      kept.push({ timeline, because: error.message })
    }
  }
  return { expired, kept }
}

async function dueForks(kernel: Kernel, head: Head, before: number): Promise<Head[]> {
  const due: Head[] = []
  for (let after: TimelineId | undefined; due.length < forksMax; ) {
    const query = { parent: head.timeline, limit: 200, ...(after !== undefined && { after }) }
    const page = await kernel.store.timelines(query)
    for (const fork of page) {
      const live = await liveOf(kernel, fork)
      if (live.updatedAt < before && isFork(head, live) && !due.some((each) => each.timeline === live.timeline)) {
        due.push(live)
      }
    }
    if (page.length < 200) break
    after = page.at(-1)!.timeline
  }
  return due.slice(0, forksMax)
}

/** Of a fork that was rolled back, its archive is what shares our history: it goes with the fork, or not at all. */
async function liveOf(kernel: Kernel, fork: Head): Promise<Head> {
  const id = liveIdOf(fork.timeline) as TimelineId
  const [live] = id === fork.timeline ? [fork] : await kernel.store.head([id])
  return live ?? fork
}

/** The branch that a rollback made is of the same timeline. */
function isFork(parent: Head, fork: Head): boolean {
  return liveIdOf(fork.timeline) !== liveIdOf(parent.timeline)
}
