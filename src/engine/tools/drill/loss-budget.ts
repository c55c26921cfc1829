// Whether a timeline keeps its loss budget (`loseAtMost` of its policy): the age of work that would be lost with its process now,
// and whether checkpoints are fast enough at all. For the card, the doctor and the metrics.

import { type CheckpointPolicy, lossInterval } from '../../../core/checkpoint/checkpoint-policy.ts'
import { decodeCosts } from '../../../core/checkpoint/costs.ts'
import { formatMs, toMs } from '../../../core/duration.ts'
import type { Head } from '../../../core/store/ports.ts'
import type { WorkerRow } from '../../../core/store/worker-row.ts'
import { costsAttribute } from '../../checkpoint/timing.ts'
import type { Kernel } from '../../storage/kernel.ts'

export interface LossBudget {
  readonly loseAtMostMs: number
  /** The age of the oldest work that nothing records. Null: history or the input of the timeline has all of it. */
  readonly unsavedMs: number | null
  readonly isKept: boolean
  readonly because: string
}

/** Null: no budget is stated. `owner`: the worker that owns the timeline, if its row exists. */
export function lossBudgetOf(
  kernel: Pick<Kernel, 'models' | 'worker'>,
  head: Head,
  { loseAtMost }: CheckpointPolicy,
  { capturedAt, owner }: { readonly capturedAt: number; readonly owner: Pick<WorkerRow, 'beatAt'> | undefined },
): LossBudget | null {
  if (loseAtMost === undefined) return null
  const loseAtMostMs = toMs(loseAtMost, 'loseAtMost')
  const unsavedMs = unsavedOf(kernel, head, capturedAt, owner)
  const { checkpointMs } = decodeCosts(head.attributes[costsAttribute])
  const isPossible = checkpointMs === null || lossInterval(loseAtMostMs, checkpointMs).isKept
  if (!isPossible) {
    const because = `a checkpoint alone takes ${formatMs(checkpointMs)}`
    return { loseAtMostMs, unsavedMs, isKept: false, because }
  }
  if (unsavedMs === null) {
    const because = 'its history or its input contains everything since the checkpoint'
    return { loseAtMostMs, unsavedMs, isKept: true, because }
  }
  const because = 'work since the newest checkpoint is stored nowhere else'
  return { loseAtMostMs, unsavedMs, isKept: unsavedMs <= loseAtMostMs, because }
}

/** @example lossText(budget) // 'kept: at most 5m may be lost, 2m now: work since the newest checkpoint …' */
export function lossText({ loseAtMostMs, unsavedMs, isKept, because }: LossBudget): string {
  const now = unsavedMs === null ? '' : `, ${formatMs(Math.round(unsavedMs))} now`
  return `${isKept ? 'kept' : 'not kept'}: at most ${formatMs(loseAtMostMs)} may be lost${now}: ${because}`
}

/** Only where the checkpoint is the state. Up to now while its owner lives, else up to the last heartbeat of its owner. */
function unsavedOf(
  { models, worker }: Pick<Kernel, 'models' | 'worker'>,
  head: Head,
  capturedAt: number,
  owner: Pick<WorkerRow, 'beatAt'> | undefined,
): number | null {
  const model = models.find(head.timeline)
  if (model?.fold?.authority !== 'state') return null
  const isOver = model.unfinished !== undefined && !model.unfinished.includes(head.status)
  if (isOver || head.owner === null) return 0
  const until = head.isOwnerAlive ? worker.now() : Math.max(head.updatedAt, owner?.beatAt ?? 0)
  return Math.max(0, until - capturedAt)
}
