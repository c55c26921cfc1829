// The short way for what nearly every commit is: an append and nothing else, by an owner who knows the head. Such a batch
// is one statement, the row of the log; heads follow later (unsettled.ts). It does the same as core/commit and gives up (null)
// wherever that would refuse or do more.

import { equalBytes } from '../../../core/coordinate.ts'
import type { Commit, Outcome } from '../../../core/store/ports.ts'
import type { FrameDraft } from '../log/log-row.ts'
import type { HeadState } from '../rows/head-state.ts'
import type { Timeline } from '../rows/timelines.ts'
import type { Writing } from './writing.ts'

export interface Appends {
  readonly frames: FrameDraft[]
  readonly timelines: Timeline[]
  /** Theirs once the row is durable. */
  readonly heads: HeadState[]
  readonly outcomes: Outcome[]
}

/** What the batch would write at this position, if it is all appends to timelines in memory. */
export function planAppends(
  { timelines }: Writing,
  commits: readonly Commit[],
  position: number,
  updatedAt: number,
): Appends | null {
  const plan: Appends = { frames: [], timelines: [], heads: [], outcomes: [] }
  for (const commit of commits) {
    if (!isAppend(commit)) return null
    const { guard, operation } = commit
    const run = commit.run!
    const before = timelines.kept(guard!.timeline)
    if (!before || before.row.isStub) return null
    const { tid, head } = before
    const { life, epoch, floor, floorDigest, base, owner } = head
    // Without an owner a head is taken to be the last word (unsettled.ts).
    if (owner === null || epoch !== guard!.epoch || head.seq !== guard!.seq || head.operation === operation) return null
    if (!equalBytes(head.digest, guard!.digest!)) return null
    plan.frames.push({ tid, previous: head.position, before: head.digest, run, operation })
    const seq = run.first + run.count - 1
    plan.timelines.push(before)
    // Not a copy: nobody changes a digest, and a copy is a tenth of the garbage of an append.
    const { digest } = run
    plan.heads.push({ seq, life, epoch, digest, position, floor, floorDigest, base, owner, operation, updatedAt })
    plan.outcomes.push({ ok: true, epoch, seq, isDuplicate: false })
  }
  return isEachOnce(plan.timelines) ? plan : null
}

function isAppend(commit: Commit): boolean {
  const { guard, run, operation } = commit
  if (!guard?.digest || !run || typeof operation !== 'string' || operation === '') return false
  // Nothing besides these three. Counted without an array of their names: this is on the path of every append.
  let fields = 0
  for (const _ in commit) fields += 1
  if (fields !== 3) return false
  return run.first === guard.seq! + 1 && Number.isSafeInteger(run.count) && run.count > 0 && run.digest.length === 32
}

/** Later commits see earlier ones: two of one timeline are for the long way. */
function isEachOnce(timelines: readonly Timeline[]): boolean {
  return timelines.length <= 1 || new Set(timelines).size === timelines.length
}
