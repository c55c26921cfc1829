// Rollbacks: the id continues on a new branch from an earlier coordinate, and later entries are kept as an archive. Nothing is
// erased; the plan names the effects done since, and their owners.

import { type TimelineId, timelineId, toHex } from '../../core/coordinate.ts'
import { isReprise, noTimeline, RepriseError } from '../../core/errors.ts'
import {
  type CompensationPlan,
  carriedMarkers,
  compensationPlan,
  type InheritedEffect,
} from '../../core/history/effects.ts'
import { type EntryDraft, packEntries } from '../../core/history/entry-run.ts'
import { type Inherited, inheritedBy } from '../../core/history/inheritance.ts'
import { isHeadLost } from '../../core/history/lost-head.ts'
import { archiveNumber, archiveOf, isArchiveOf } from '../../core/history/scope.ts'
import { epochGuardOf, guardOf } from '../../core/store/commit-guard.ts'
import type { EntryRun, Head } from '../../core/store/ports.ts'
import { refusalError } from '../base/refusal-error.ts'
import { offBranch, type Point } from '../history/history.ts'
import { checkUndo, claimUndo, liveOwner, originalOf } from '../history/inherited-undo.ts'
import { archivesOf, type Located, locate, type TimelinePoint } from '../history/locate.ts'
import { recover } from '../history/recover.ts'
import { retryWithFreshHead } from '../history/retry-with-fresh-head.ts'
import { type Fold, ledgerOnly, type OpenOptions } from '../model/definition.ts'
import { type Rollback, type RolledBack, rolledBackType } from '../model/rollback-report.ts'
import { giveBack, headUnder, takeTimeline } from '../ownership/take-timeline.ts'
import { type Kernel, submit } from '../storage/kernel.ts'
import { refuseNotHere } from '../storage/moved-mark.ts'
import { refuseHeld } from '../storage/restore-hold.ts'
import { sealEntry } from '../storage/seal/entries.ts'
import { type Consumed, decideConsumed, reportForced } from './consumers.ts'
import { floorFor, restorePoints, segmentCopies } from './fork.ts'

export interface RollbackOptions extends OpenOptions {
  /** The last entry that is kept: a coordinate, or a timeline and a sequence. */
  readonly to: TimelinePoint
  /** For a fork: the plan also compensates effects of its original. The history of the original records it. */
  readonly undo?: 'inherited'
  /** Rolls back although consumers have acted on the undone entries. The report and the history name them. Default: refuse. */
  readonly consumed?: 'force'
}

/** For callers inside the engine, which may have handled the consumers themselves. */
export type BranchOptions = Omit<RollbackOptions, 'to' | 'consumed'> & { readonly consumed?: Consumed }

/** Rolls back to a coordinate: the id continues on a new branch from there, and later entries are archived. */
export async function rollback(
  kernel: Kernel,
  where: TimelinePoint,
  fold: Fold<unknown>,
  options: BranchOptions = {},
): Promise<Rollback & { readonly archive: TimelineId }> {
  const { undo: _undo, consumed: _consumed, ...open } = options
  const { head } = await locateOnBranch(kernel, where)
  if (options.takeover && !isHeadLost(head)) return await overrule(kernel, where, fold, options)
  const taken = await takeTimeline(kernel, timelineId(where.timeline), { ...open, mustExist: true })
  try {
    return await retryWithFreshHead(() => branchOff(kernel, taken.epoch, where, fold, options))
  } catch (error) {
    await giveBack(kernel, taken)
    throw error
  }
}

/**
 * While other processes keep writing: the branch is made in one commit that takes the timeline from its owner, regardless of
 * what the owner has written meanwhile. If another process took it at the same time, the rollback retries with a fresh head.
 */
async function overrule(
  kernel: Kernel,
  where: TimelinePoint,
  fold: Fold<unknown>,
  options: BranchOptions,
): Promise<Rollback & { readonly archive: TimelineId }> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await retryWithFreshHead(() => branchOff(kernel, null, where, fold, options))
    } catch (error) {
      if (attempt === attemptsMax || !isReprise(error, 'FENCED', 'CONFLICT')) throw error
    }
  }
}

/** The number of attempts of a rollback with takeover before it is FENCED. */
const attemptsMax = 100

/** Finds a point on the current branch; one that was rolled back is refused. */
export async function locateOnBranch(kernel: Kernel, where: TimelinePoint): Promise<Located> {
  const located = await retryWithFreshHead(() => locate(kernel, where))
  if (located.head.timeline !== where.timeline) throw offBranch(where.timeline, where.seq)
  return located
}

/**
 * Resolves the point again: under our own epoch no other process can still move the branch. `epoch` null: the timeline is
 * not owned, and may grow until the branch is made; the point stays the same.
 */
async function branchOff(
  kernel: Kernel,
  epoch: number | null,
  where: TimelinePoint,
  fold: Fold<unknown>,
  { undo, consumed: given }: Pick<BranchOptions, 'undo' | 'consumed'>,
): Promise<Rollback & { readonly archive: TimelineId }> {
  const before = await locateOnBranch(kernel, where)
  const seen = epoch === null ? before.head : await headUnder(kernel, before.head.timeline, epoch)
  const consumed = await decideConsumed(kernel, seen, before.point.seq, given)
  // Before any change, find the effects that would be undone, and whether the target can be reached at all.
  const { state, lineage } = await recover(kernel, seen, fold)
  const target = await recover(kernel, seen, fold, { to: before.point.seq })
  const planned = compensationPlan(state.ledger, where.seq, inheritedIn(kernel, lineage))
  const effects = undo ? await withInherited(kernel, planned, seen.timeline) : planned
  const copies = await restorePoints(kernel, seen, before.point.seq, fold)
  const floor = floorFor(copies, before.lineage, fold, before.point)
  const segments = await segmentCopies(kernel, before.lineage, floor)
  const isMarked = consumed.length > 0 || kernel.models.find(seen.timeline)?.marksRollback === true
  // After an earlier rollback, the newest archive is the base.
  const last = seen.base && isArchiveOf(seen.timeline, seen.base.timeline) ? archiveNumber(seen.base.timeline) : 0
  const known = last || (await archivesOf(kernel, seen.timeline)).length
  // Read right before the commit: the less time passes, the less can change.
  const head = epoch === null ? await ofSameBranch(kernel, seen) : seen
  // Carried outcomes depend on everything that was written, so the timeline must not have grown.
  if (effects.carry.length > 0 && head.seq !== seen.seq) {
    throw new RepriseError('CONFLICT', `${head.timeline} was written to meanwhile`, { timeline: head.timeline })
  }
  for (let n = known; ; n++) {
    const archive = timelineId(archiveOf(head.timeline, n + 1))
    const marker: RolledBack = { archive, to: before.point.seq, ...(consumed.length > 0 && { consumed }) }
    const first = firstRun(kernel, head, before.point, [
      ...carriedMarkers(effects.carry, target.state.ledger),
      ...(isMarked ? [{ type: rolledBackType, data: marker }] : []),
    ])
    const outcome = await submit(kernel, {
      // An owner that keeps writing moves the head, and the branch still starts at the same point.
      guard: epoch === null && effects.carry.length === 0 ? epochGuardOf(head) : guardOf(head),
      branch: { archive, seq: before.point.seq, digest: before.point.digest, floor },
      ...(first && { run: first }),
      publish: [...copies, ...segments],
      ...fold.summary?.(target.state.value),
      release: true,
    })
    if (outcome.ok) {
      if (given === 'force') reportForced(kernel, head.timeline, before.point.seq, consumed)
      const to = {
        timeline: head.timeline,
        seq: before.point.seq,
        epoch: outcome.epoch,
        digest: toHex(before.point.digest),
      }
      const report = { timeline: head.timeline, archive, to, consumed }
      if (epoch !== null) return { ...report, from: head.seq, effects }
      const [archived] = await kernel.store.head([archive])
      const end = await recover(kernel, archived!, fold)
      // The attributes stay with the live timeline.
      const left = end.lineage.with(0, { ...archived!, attributes: head.attributes })
      const done = compensationPlan(end.state.ledger, where.seq, inheritedIn(kernel, left))
      return { ...report, from: archived!.seq, effects: undo ? effects : done }
    }
    if (outcome.code !== 'EXISTS') throw refusalError(head.timeline, outcome)
  }
}

/** The current head; FENCED if it was rolled back since. */
async function ofSameBranch(kernel: Kernel, { timeline, base }: Head): Promise<Head> {
  const [head] = await kernel.store.head([timeline])
  if (!head) throw noTimeline(timeline)
  refuseNotHere(head)
  refuseHeld(kernel, head)
  if (head.base?.timeline === base?.timeline && head.base?.seq === base?.seq) return head
  throw new RepriseError('FENCED', `${timeline} was rolled back by another process`, { timeline })
}

/** The stretches of history that the ancestors of a fork wrote. */
export function inheritedIn({ planted }: Pick<Kernel, 'planted'>, lineage: readonly Head[]): Inherited[] {
  return planted.has('fork-inherits') ? [] : inheritedBy(lineage)
}

/** Adds effects of the original, which the plan of this timeline then undoes. */
async function withInherited(kernel: Kernel, plan: CompensationPlan, by: string): Promise<CompensationPlan> {
  const claimed = await checkInherited(kernel, plan.inherited, by)
  for (const effect of claimed) await claimUndo(kernel, effect, by)
  const inherited = plan.inherited.filter((effect) => !claimed.includes(effect))
  return { ...plan, compensate: [...plan.compensate, ...claimed], inherited }
}

/** The effects that can be undone. ALREADY_UNDONE: if one of them is undone, none may be undone. Changes nothing. */
export async function checkInherited(
  kernel: Kernel,
  effects: readonly InheritedEffect[],
  by: string,
): Promise<readonly InheritedEffect[]> {
  const inherited = effects.filter(({ reversal }) => reversal === 'compensate')
  for (const effect of inherited) {
    const owner = await originalOf(kernel, by, effect.inheritedFrom, effect.id, liveOwner(effect))
    const { state } = await recover(kernel, owner, kernel.models.foldOf(owner.timeline) ?? ledgerOnly)
    checkUndo(effect, state.ledger, by)
  }
  return inherited
}

/** The first entries of the branch. Null: there are none. */
function firstRun(
  kernel: Kernel,
  head: Head,
  point: Point,
  entries: readonly { readonly type: string; readonly data: unknown }[],
): EntryRun | null {
  if (entries.length === 0) return null
  const drafts = entries.map(({ type, data }, i): EntryDraft => {
    const draft = { type, version: 1, time: kernel.clock.now(), data: kernel.codec.encode(data) }
    return sealEntry(kernel.sealer, draft, point.digest, i)
  })
  return packEntries(kernel.hash, { before: point.digest, first: point.seq + 1, epoch: head.epoch + 1 }, drafts)
}
