// Executes retention: the core decides what to remove and why; this file does it in commits that the store guards once
// more (forks, cursors and the catalog may have changed since). Runs concurrently with writers; needs no ownership,
// only the epoch it read.

import { planRetention, type RetentionPlan, type RetentionPolicy } from '../../core/checkpoint/retention.ts'
import { isReprise } from '../../core/errors.ts'
import { lastSeq } from '../../core/history/entry-run.ts'
import { epochGuardOf } from '../../core/store/commit-guard.ts'
import type { Head } from '../../core/store/ports.ts'
import { digestAt, type Point } from '../history/history.ts'
import { forksOf } from '../storage/heads.ts'
import { type Kernel, submit } from '../storage/kernel.ts'

/** A cursor that has not read all of a timeline. */
export interface CursorHold {
  readonly name: string
  /** It has read this timeline up to and including this sequence. */
  readonly seq: number
}

export interface RetainResult {
  readonly plan: RetentionPlan
  readonly dropped: number
  readonly floor: number
  /** Refused by the store, with the reasons; retried the next time. */
  readonly refused: readonly string[]
}

export async function planFor(
  kernel: Kernel,
  head: Head,
  policy: RetentionPolicy,
  foldVersion: string,
  cursors: readonly CursorHold[] = [],
): Promise<RetentionPlan> {
  const [catalog, forks] = await Promise.all([kernel.store.checkpoints(head.timeline), forksOf(kernel, head.timeline)])
  // Read after the catalog: with a concurrent writer, an earlier head may be older than a checkpoint, which would then
  // seem to be beyond history. If another process took the timeline meanwhile, the guard refuses the plan.
  const [now] = await kernel.store.head([head.timeline])
  return planRetention(
    {
      policy,
      catalog,
      head: now ?? head,
      foldVersion,
      // Omitted by a writer, to save the read: the store itself refuses to trim entries that a cursor has not read.
      cursors,
      forks: forks.map((each) => ({ timeline: each.timeline, baseSeq: each.base?.seq ?? 0, floor: each.floor })),
      now: kernel.worker.now(),
    },
    kernel.planted,
  )
}

export async function retain(
  kernel: Kernel,
  head: Head,
  policy: RetentionPolicy,
  foldVersion: string,
): Promise<RetainResult> {
  return await carryOut(kernel, head, await planFor(kernel, head, policy, foldVersion))
}

export async function carryOut(kernel: Kernel, head: Head, plan: RetentionPlan): Promise<RetainResult> {
  const refused: string[] = []
  let floor = head.floor
  const to = plan.floor.seq > head.floor ? await runEndAtOrBelow(kernel, head, plan.floor.seq) : null
  if (to && to.seq > head.floor) {
    const outcome = await submit(kernel, {
      guard: epochGuardOf(head),
      aside: true,
      trim: { ...to, restsOn: plan.restsOn },
    })
    if (outcome.ok) floor = to.seq
    else refused.push(outcome.reason)
  }
  let dropped = 0
  let freedBytes = 0
  const sizes = plan.drop.length > 0 ? await kernel.store.checkpoints(head.timeline) : []
  for (const { id } of plan.drop) {
    const outcome = await submit(kernel, {
      guard: epochGuardOf(head),
      aside: true,
      drop: [id],
    })
    if (outcome.ok) {
      dropped += 1
      freedBytes += sizes.find((record) => record.id === id)?.addedBytes ?? 0
    } else refused.push(outcome.reason)
  }
  if (dropped > 0 || floor > head.floor) {
    kernel.events.emit('retained', { timeline: head.timeline, dropped, floor, freedBytes })
  }
  return { plan, dropped, floor, refused }
}

/** History is trimmed only at the end of a run, so that the chain can be followed from there. */
export async function runEndAtOrBelow(kernel: Kernel, head: Head, seq: number): Promise<Point | null> {
  if (seq <= (head.base?.seq ?? 0)) {
    return seq === head.base?.seq ? { seq, digest: head.base.digest } : null
  }
  const [run] = await kernel.store.read(head.timeline, seq - 1, 1)
  if (!run) return null
  if (lastSeq(run) === seq) return { seq, digest: run.digest }
  const end = run.first - 1
  if (end <= head.floor) return null
  try {
    return { seq: end, digest: await digestAt(kernel, [head], end) }
  } catch (error) {
    if (isReprise(error, 'OUT_OF_RANGE', 'HISTORY_DAMAGED')) return null
    throw error
  }
}
