// Deletes forks that were not touched for the declared time (`retain.forks`, stored with their parent), with their
// archives.
// Forks that `delete` refuses stay, and the report names the reason: a running fork, an unfinished one, one with a
// savepoint, one with forks of its own. The branch that a rollback made is not a fork in this sense.

import { type RetentionPolicy, resolveRetention } from '../../../core/checkpoint/retention.ts'
import type { TimelineId } from '../../../core/coordinate.ts'
import { isReprise } from '../../../core/errors.ts'
import { liveIdOf } from '../../../core/history/scope.ts'
import type { Head } from '../../../core/store/ports.ts'
import { headsIn } from '../../storage/heads.ts'
import type { Kernel } from '../../storage/kernel.ts'
import { deleteTimeline } from './delete.ts'

export interface ExpiredForks {
  /** Deleted or, in a dry run, to be deleted. */
  readonly expired: readonly string[]
  /** Due, but kept. */
  readonly kept: readonly { readonly timeline: string; readonly because: string }[]
}

/** Per round and timeline. */
const forksMax = 200

/** @example await expireForks(kernel, head, { forks: '30d' }, now, true) // only lists them */
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
      if (!isReprise(error, 'OWNED', 'PINNED', 'CONFLICT', 'FENCED', 'NOT_FOUND')) throw error
      kept.push({ timeline, because: error.message })
    }
  }
  return { expired, kept }
}

async function dueForks(kernel: Kernel, head: Head, before: number): Promise<Head[]> {
  const due: Head[] = []
  for await (const fork of headsIn(kernel.store, { parent: head.timeline })) {
    const live = await liveOf(kernel, fork)
    if (live.updatedAt < before && isFork(head, live) && !due.some((each) => each.timeline === live.timeline)) {
      due.push(live)
    }
    if (due.length === forksMax) break
  }
  return due
}

/** The archive of a rolled-back fork shares our history: it is deleted with the fork, or not at all. */
async function liveOf(kernel: Kernel, fork: Head): Promise<Head> {
  const id = liveIdOf(fork.timeline) as TimelineId
  const [live] = id === fork.timeline ? [fork] : await kernel.store.head([id])
  return live ?? fork
}

/** The branch that a rollback made belongs to the same timeline. */
function isFork(parent: Head, fork: Head): boolean {
  return liveIdOf(fork.timeline) !== liveIdOf(parent.timeline)
}
