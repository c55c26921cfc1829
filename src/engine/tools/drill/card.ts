// The recovery card (D6) of one timeline: its checkpoint, the history after it, the coordinate that binds them and its
// owner, the effects that are safe to replay, and the current cost of a recovery.

import type { CheckpointInterval, CheckpointPolicy } from '../../../core/checkpoint/checkpoint-policy.ts'
import type { Consistency } from '../../../core/checkpoint/consistency.ts'
import type { MeasuredCosts } from '../../../core/checkpoint/costs.ts'
import { type Coordinate, type TimelineId, toHex } from '../../../core/coordinate.ts'
import { isReprise } from '../../../core/errors.ts'
import { compensationPlan, inDoubt, listEffects } from '../../../core/history/effects.ts'
import { type Inherited, inheritedBy } from '../../../core/history/inheritance.ts'
import { planRecovery } from '../../../core/history/recovery.ts'
import type { Head } from '../../../core/store/ports.ts'
import type { WorkerRow } from '../../../core/store/worker-row.ts'
import type { RecoveryReport } from '../../base/recovery-report.ts'
import { planFor } from '../../checkpoint/retain.ts'
import { policyOf, settingsOf, storedPolicyOf } from '../../checkpoint/stored-policy.ts'
import { keptInterval } from '../../checkpoint/timing.ts'
import { cursorHolds } from '../../feed/cursor-holds.ts'
import { floorOf, lineageOf } from '../../history/history.ts'
import { existing } from '../../history/locate.ts'
import { recover } from '../../history/recover.ts'
import type { TimelineState } from '../../history/state.ts'
import { invalidityOf } from '../../history/validity.ts'
import { type Fold, ledgerOnly } from '../../model/definition.ts'
import type { ModelEffect } from '../../model/model.ts'
import type { Kernel } from '../../storage/kernel.ts'
import type { OpenTimeline } from '../../writing/timeline.ts'
import { type Axes, axesOf } from './axes.ts'
import { consistencies } from './consistency.ts'
import { type LossBudget, lossBudgetOf } from './loss-budget.ts'
import { type Report, readReports } from './report-log.ts'

export interface RecoveryCard {
  /** The five axes of the timeline, each as a word and the reason. */
  readonly axes: Axes
  readonly coordinate: Coordinate
  readonly owner: { readonly worker: string; readonly isAlive: boolean; readonly msSinceProgress: number | null } | null
  readonly status: string
  /** The checkpoint that a recovery would start from. Null: from the origin. */
  readonly captured: {
    readonly id: string
    readonly seq: number
    readonly at: number
    readonly trigger: string
    readonly label: string | null
    readonly consistency: Consistency
    readonly bytes: number
    readonly isVerified: boolean
    readonly drilledAt: number | null
    readonly drill: string | null
  } | null
  readonly checkpoints: number
  readonly history: {
    readonly floor: number
    readonly head: number
    readonly entriesAfterCheckpoint: number
    /**
     * Work since the checkpoint that no entry records and a recovery repeats. Null: history records everything of this
     * kind.
     */
    readonly again: { readonly what: string; readonly ms: number } | null
  }
  /** The loss budget (`loseAtMost`) and whether it is kept now. Null: no budget is declared. */
  readonly loss: LossBudget | null
  readonly floor: {
    readonly seq: number
    readonly because: string
    readonly heldBy: readonly { readonly what: string; readonly seq: number }[]
  }
  /** From the costs of the open handle, if there is one in this process, else from those stored with the timeline. */
  readonly checkpointing: {
    readonly from: 'handle' | 'kept'
    readonly because: readonly string[]
    readonly interval: Pick<CheckpointInterval, 'entries' | 'ms'>
    readonly costs: MeasuredCosts
    readonly failureEveryMs: number | null
  }
  /** Retention and checkpoint policy, each with its source. Empty: unknown here. */
  readonly settings: readonly {
    readonly name: 'retain' | 'checkpoint'
    /** Null: not set, so everything is kept, or the engine decides. */
    readonly value: unknown
    /** 'stored' with it, 'declared' by code of this process, common to its 'kind', or the default ('usual') of its kind. */
    readonly from: 'stored' | 'declared' | 'kind' | 'usual'
  }[]
  /** Null: the effects cannot be read here. */
  readonly effects: {
    /** Recorded as done: a recovery does not repeat them. */
    readonly safe: number
    readonly compensatable: number
    readonly irreversible: number
    /** Recorded steps of workflows and similar models: only the definition knows whether they can be compensated. */
    readonly byDefinition: number
    readonly inDoubt: number
  } | null
  /** Measured now by a separate restore. Null: the definition is not known here. */
  readonly recovery: RecoveryReport | null
  /** The reason the application rejects the state at the head. Null: it is valid, or unknown here. */
  readonly invalid: string | null
  /** The missing data that prevents a recovery, as text. Null: it can be recovered. */
  readonly missing: string | null
  readonly lineage: readonly string[]
  /** The last few reports about it in the store's log, oldest first. */
  readonly recent: readonly Report[]
}

const recentMax = 5

export async function card(
  kernel: Kernel,
  id: TimelineId,
  fold: Fold<unknown> | null,
  /** The handle, if it is open in this process. */
  open: Pick<OpenTimeline<unknown>, 'checkpointing'> | null = null,
): Promise<RecoveryCard> {
  const head = await existing(kernel, id)
  const [lineage, catalog, workers] = await Promise.all([
    lineageOf(kernel, head),
    kernel.store.checkpoints(id),
    kernel.store.workers(),
  ])
  const floor = floorOf(lineage)
  const foldVersion = fold?.version ?? catalog[0]?.foldVersion ?? '1'
  const plan = planRecovery({
    head: { seq: head.seq, floor: floor.seq },
    catalog,
    foldVersion,
    authority: fold?.authority ?? 'history',
    reachesOrigin: floor.seq === 0,
  })
  const first = plan.attempts[0]
  const captured = first?.kind === 'checkpoint' ? first.manifest : null
  const known = await policyOf(kernel, head)
  const policy = typeof known === 'string' ? (fold?.retain ?? {}) : known.policy
  const held = (await cursorHolds(kernel, [id])).get(id) ?? []
  const retention = await planFor(kernel, head, policy, foldVersion, held)
  const recovered = fold && !plan.missing ? await recover(kernel, head, fold) : null
  const owner = workers.find((worker) => worker.id === head.owner)
  const levels = await consistencies(kernel, id, catalog)
  const measured: Omit<RecoveryCard, 'axes'> = {
    coordinate: { timeline: id, seq: head.seq, epoch: head.epoch, digest: toHex(head.digest) },
    owner: ownerOf(kernel, head, owner),
    status: head.status,
    captured: captured && {
      id: captured.id,
      seq: captured.seq,
      at: captured.createdAt,
      trigger: captured.trigger,
      label: captured.label,
      consistency: levels.get(captured.id) ?? 'crash',
      bytes: captured.totalBytes,
      isVerified: captured.verifiedAt !== null,
      drilledAt: captured.drilledAt,
      drill: captured.drill,
    },
    checkpoints: catalog.length,
    history: {
      floor: floor.seq,
      head: head.seq,
      entriesAfterCheckpoint: head.seq - (captured?.seq ?? floor.seq),
      again: againOf(kernel, head, captured?.createdAt ?? head.createdAt, owner),
    },
    loss: lossOf(kernel, head, fold, captured?.createdAt, owner),
    floor: retention.floor,
    checkpointing: checkpointingOf(kernel, head, fold, captured === null, open),
    settings: await settingsOf(kernel, head),
    effects: plan.missing ? null : await effectsOf(kernel, head, recovered?.state ?? null, inheritedBy(lineage)),
    recovery: recovered?.report ?? null,
    invalid: fold && recovered ? invalidityOf(kernel, fold, recovered.state.value, id) : null,
    missing: plan.missing,
    lineage: lineage.slice(1).map((each) => each.timeline),
    recent: await readReports(kernel, { timeline: id, limit: recentMax }),
  }
  return { ...measured, axes: axesOf(measured, fold && (fold.external ? 'external' : (fold.authority ?? 'history'))) }
}

function checkpointingOf(
  kernel: Kernel,
  head: Head,
  fold: Fold<unknown> | null,
  isFirst: boolean,
  open: Pick<OpenTimeline<unknown>, 'checkpointing'> | null,
): RecoveryCard['checkpointing'] {
  const policy = policyFor(kernel, head, fold)
  const kept = keptInterval(policy ?? {}, head.attributes, { isFirst, now: kernel.worker.now() })
  const { costs, failureEveryMs, interval } = open?.checkpointing ?? kept
  const { entries, ms, because } = interval
  return {
    from: open ? 'handle' : 'kept',
    because: because.length > 0 ? because : [byHand(policy?.on)],
    interval: { entries, ms },
    costs,
    failureEveryMs,
  }
}

function ownerOf(kernel: Kernel, head: Head, row: WorkerRow | undefined): RecoveryCard['owner'] {
  const msSinceProgress = row ? kernel.worker.now() - row.progressAt : null
  return head.owner && { worker: head.owner, isAlive: head.isOwnerAlive, msSinceProgress }
}

function lossOf(
  kernel: Kernel,
  head: Head,
  fold: Fold<unknown> | null,
  capturedAt = head.createdAt,
  owner: WorkerRow | undefined,
): LossBudget | null {
  return lossBudgetOf(kernel, head, policyFor(kernel, head, fold) ?? {}, { capturedAt, owner })
}

function policyFor(kernel: Kernel, head: Head, fold: Fold<unknown> | null): CheckpointPolicy | undefined {
  const usual = kernel.models.find(head.timeline)?.usual?.checkpoint
  return storedPolicyOf(head.attributes)?.checkpoint ?? fold?.checkpoint ?? usual
}

function byHand(on: readonly string[] | undefined): string {
  return on === undefined ? 'only by hand' : `only after ${on.join(', ')}, or by hand`
}

/** Up to the last heartbeat of its owner or, without an owner, up to its last commit. */
function againOf(
  kernel: Kernel,
  head: Head,
  capturedAt: number,
  owner: WorkerRow | undefined,
): RecoveryCard['history']['again'] {
  const model = kernel.models.find(head.timeline)
  if (model?.redoes === undefined) return null
  const isUnfinished = model.unfinished?.includes(head.status) ?? true
  const until = head.isOwnerAlive
    ? kernel.worker.now()
    : Math.max(head.updatedAt, head.owner ? (owner?.beatAt ?? 0) : 0)
  return { what: model.redoes, ms: isUnfinished ? Math.max(0, until - capturedAt) : 0 }
}

/** The effects of the kernel's ledger, and those of the model itself. */
async function effectsOf(
  kernel: Kernel,
  head: Head,
  recovered: TimelineState<unknown> | null,
  inherited: readonly Inherited[],
): Promise<RecoveryCard['effects']> {
  const state = recovered ?? (await stateOrNull(kernel, head, ledgerOnly))
  if (!state) return null
  const { compensate, cannot } = compensationPlan(state.ledger, 0, inherited)
  const known = new Set(listEffects(state.ledger).map(({ id }) => id))
  const outside = recovered
    ? (kernel.models.find(head.timeline)?.outside?.(recovered.value, kernel.hash, inherited) ?? [])
    : []
  const own = outside.filter(({ id }) => !known.has(id))
  const byDefinition = own.filter(({ outcome }) => outcome === 'done').length
  return {
    safe: compensate.length + cannot.length + byDefinition,
    compensatable: compensate.length,
    irreversible: cannot.length,
    byDefinition,
    inDoubt: inDoubt(state.ledger).length + own.filter((effect) => effect.outcome === null && isBegun(effect)).length,
  }
}

/** A call that waits for an approval has not begun. */
function isBegun({ state }: ModelEffect): boolean {
  return state !== 'waiting' && state !== 'approved'
}

async function stateOrNull(kernel: Kernel, head: Head, fold: Fold<unknown>): Promise<TimelineState<unknown> | null> {
  try {
    return (await recover(kernel, head, fold)).state
  } catch (error) {
    if (isReprise(error)) return null
    throw error
  }
}
