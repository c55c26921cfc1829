// The recovery card (D6): for one timeline, what is captured, what history remains after it, which coordinate ties them
// and to which owner, which effects are safe to replay, and what recovery would cost now.

import type { CheckpointInterval } from '../../core/checkpoint-policy.ts'
import { type Coordinate, type TimelineId, toHex } from '../../core/coordinate.ts'
import type { MeasuredCosts } from '../../core/costs.ts'
import { compensationPlan, type EffectLedger } from '../../core/effects.ts'
import { type Inherited, inheritedBy } from '../../core/inheritance.ts'
import type { Head } from '../../core/ports.ts'
import { planRecovery } from '../../core/recovery.ts'
import { planFor } from '../checkpoint/retain.ts'
import { keptInterval } from '../checkpoint/timing.ts'
import { declarationOf, policyOf, settingsOf } from '../declaration.ts'
import type { Fold } from '../definition.ts'
import { cursorHolds } from '../feed/cursor-holds.ts'
import type { Kernel } from '../kernel.ts'
import { floorOf, lineageOf } from '../recovery/history.ts'
import { recover } from '../recovery/recover.ts'
import type { RecoveryReport } from '../recovery/report.ts'
import { invalidityOf } from '../recovery/validity.ts'
import type { OpenTimeline } from '../timeline.ts'
import { existing } from './fork.ts'
import { type Report, readReports } from './report-log.ts'

export interface RecoveryCard {
  readonly coordinate: Coordinate
  readonly owner: { readonly worker: string; readonly isAlive: boolean; readonly msSinceProgress: number | null } | null
  readonly status: string
  /** The checkpoint a recovery would start from, or null: from the origin. */
  readonly captured: {
    readonly id: string
    readonly seq: number
    readonly at: number
    readonly trigger: string
    readonly bytes: number
    readonly isVerified: boolean
    readonly drilledAt: number | null
    readonly drill: string | null
  } | null
  readonly checkpoints: number
  readonly history: { readonly floor: number; readonly head: number; readonly entriesAfterCheckpoint: number }
  readonly floor: {
    readonly seq: number
    readonly because: string
    readonly heldBy: readonly { readonly what: string; readonly seq: number }[]
  }
  /** By the same figures as the handle: its own where it is open in this process, else those kept with the timeline. */
  readonly checkpointing: {
    readonly from: 'handle' | 'kept'
    readonly because: readonly string[]
    readonly interval: Pick<CheckpointInterval, 'entries' | 'ms'>
    readonly costs: MeasuredCosts
    readonly failureEveryMs: number | null
  }
  /** What is kept of it and when it is captured, and where that was said; empty: nobody here can tell. */
  readonly settings: readonly {
    readonly name: 'retain' | 'checkpoint'
    /** Null: nothing is said, so everything is kept, or the engine decides. */
    readonly value: unknown
    /** 'stored' with it, 'declared' by code of this process, the same for all of its 'kind', or the 'usual' one of its kind. */
    readonly from: 'stored' | 'declared' | 'kind' | 'usual'
  }[]
  readonly effects: {
    readonly safe: number
    readonly compensatable: number
    readonly irreversible: number
    readonly inDoubt: number
  }
  /** Measured just now by a restore aside; null when the definition is not known here. */
  readonly recovery: RecoveryReport | null
  /** Why the application says that the state at the head makes no sense; null: it does, or nobody here can tell. */
  readonly invalid: string | null
  /** What would be missing, in words; null when it can be recovered. */
  readonly missing: string | null
  readonly lineage: readonly string[]
  /** The last few lines of the store's log about it, oldest first. */
  readonly recent: readonly Report[]
}

const recentMax = 5

export async function card(
  kernel: Kernel,
  id: TimelineId,
  fold: Fold<unknown> | null,
  /** Where it is open in this process. */
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
  return {
    coordinate: { timeline: id, seq: head.seq, epoch: head.epoch, digest: toHex(head.digest) },
    owner: head.owner && {
      worker: head.owner,
      isAlive: head.isOwnerAlive,
      msSinceProgress: owner ? kernel.worker.now() - owner.progressAt : null,
    },
    status: head.status,
    captured: captured && {
      id: captured.id,
      seq: captured.seq,
      at: captured.createdAt,
      trigger: captured.trigger,
      bytes: captured.totalBytes,
      isVerified: captured.verifiedAt !== null,
      drilledAt: captured.drilledAt,
      drill: captured.drill,
    },
    checkpoints: catalog.length,
    history: { floor: floor.seq, head: head.seq, entriesAfterCheckpoint: head.seq - (captured?.seq ?? floor.seq) },
    floor: retention.floor,
    checkpointing: checkpointingOf(kernel, head, fold, captured === null, open),
    settings: await settingsOf(kernel, head),
    effects: effectsOf(recovered?.state.ledger ?? null, inheritedBy(lineage)),
    recovery: recovered?.report ?? null,
    invalid: fold && recovered ? invalidityOf(kernel, fold, recovered.state.value, id) : null,
    missing: plan.missing,
    lineage: lineage.slice(1).map((each) => each.timeline),
    recent: await readReports(kernel, { timeline: id, limit: recentMax }),
  }
}

function checkpointingOf(
  kernel: Kernel,
  head: Head,
  fold: Fold<unknown> | null,
  isFirst: boolean,
  open: Pick<OpenTimeline<unknown>, 'checkpointing'> | null,
): RecoveryCard['checkpointing'] {
  const usual = kernel.models.find(head.timeline)?.usual?.checkpoint
  const policy = declarationOf(head.attributes)?.checkpoint ?? fold?.checkpoint ?? usual
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

function byHand(on: readonly string[] | undefined): string {
  return on === undefined ? 'only by hand' : `only after ${on.join(', ')}, or by hand`
}

function effectsOf(ledger: EffectLedger | null, inherited: readonly Inherited[]): RecoveryCard['effects'] {
  if (!ledger) return { safe: 0, compensatable: 0, irreversible: 0, inDoubt: 0 }
  const { compensate, cannot, inDoubt } = compensationPlan(ledger, 0, inherited)
  return {
    safe: compensate.length + cannot.length,
    compensatable: compensate.length,
    irreversible: cannot.length,
    inDoubt: inDoubt.length,
  }
}
