// The fast path for most commits: only an append, by an owner with a current head. Such a batch is one statement,
// the row of the log; heads follow later (unsettled.ts). It has the same effect as core/commit and returns null wherever that
// would refuse or do more.

import { equalBytes } from '../../../core/coordinate.ts'
import type { Commit, Outcome } from '../../../core/store/ports.ts'
import type { FrameDraft } from '../log/log-row.ts'
import type { HeadState } from '../rows/head-state.ts'
import type { Timeline } from '../rows/timelines.ts'
import type { Writing } from './writing.ts'

export interface Appends {
  readonly frames: FrameDraft[]
  readonly timelines: Timeline[]
  /** The new heads, once the row is durable. */
  readonly heads: HeadState[]
  readonly outcomes: Outcome[]
}

/** The writes of the batch at this position, if it consists of appends to cached timelines. */
export function planAppends(
  { timelines }: Writing,
  commits: readonly Commit[],
  position: number,
  updatedAt: number,
): Appends | null {
  // Arrays of the right size: one that grows by pushes reserves room for 17.
  const count = commits.length
  const plan: Appends = {
    frames: new Array(count),
    timelines: new Array(count),
    heads: new Array(count),
    outcomes: new Array(count),
  }
  for (let i = 0; i < count; i++) {
    const commit = commits[i]!
    if (!isAppend(commit)) return null
    const { guard, operation } = commit
    const run = commit.run!
    const before = timelines.kept(guard!.timeline)
    if (!before || before.row.isStub) return null
    const { tid, head } = before
    const { life, epoch, floor, floorDigest, base, owner } = head
    // A head without an owner must be current in the file (unsettled.ts).
    if (owner === null || epoch !== guard!.epoch || head.seq !== guard!.seq || head.operation === operation) return null
    if (!equalBytes(head.digest, guard!.digest!)) return null
    plan.frames[i] = { tid, previous: head.position, before: head.digest, run, operation }
    const seq = run.first + run.count - 1
    plan.timelines[i] = before
    // Not copied: digests never change, and a copy would be a tenth of an append's garbage.
    const { digest } = run
    plan.heads[i] = { seq, life, epoch, digest, position, floor, floorDigest, base, owner, operation, updatedAt }
    plan.outcomes[i] = { ok: true, epoch, seq, isDuplicate: false }
  }
  return isEachOnce(plan.timelines) ? plan : null
}

function isAppend(commit: Commit): boolean {
  const { guard, run, operation } = commit
  if (!guard?.digest || !run || typeof operation !== 'string' || operation === '') return false
  // No fields besides these three. The count uses no array of names: this is on the path of every append.
  let fields = 0
  for (const _ in commit) fields += 1
  if (fields !== 3) return false
  return run.first === guard.seq! + 1 && Number.isSafeInteger(run.count) && run.count > 0 && run.digest.length === 32
}

/** Later commits see earlier ones: two commits of one timeline take the regular path. */
function isEachOnce(timelines: readonly Timeline[]): boolean {
  return timelines.length <= 1 || new Set(timelines).size === timelines.length
}
