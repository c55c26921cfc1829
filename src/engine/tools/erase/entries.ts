// Erases entries inside a history that continues (docs/decisions/erasure.md). In this order, so that it can be
// interrupted anywhere and repeated:
//   1. every timeline that reads one of them is taken, under a new epoch, and marked: state in memory elsewhere is stale;
//   2. their checkpoints that contain it are dropped, savepoints only if the caller allowed it;
//   3. the erasure is recorded, with the checks of the new runs;
//   4. the runs are replaced;
//   5. the timelines are marked as done and released, under the same epoch: if another process took one in between, which
//      may have read the old entries, everything is repeated;
//   6. chunks that no checkpoint names any more are removed, and the files are scrubbed.

import { type ManifestId, type TimelineId, timelineId } from '../../../core/coordinate.ts'
import { RepriseError } from '../../../core/errors.ts'
import { isEffectType } from '../../../core/history/effects.ts'
import { checkIn } from '../../../core/history/redacted-run.ts'
import type { Commit, Head } from '../../../core/store/ports.ts'
import { refusalError } from '../../base/refusal-error.ts'
import { mirrorRemains } from '../../feed/mirror/policy.ts'
import { erasureMark, recordErasure } from '../../history/erasures.ts'
import { existing } from '../../history/locate.ts'
import { takeTimeline } from '../../ownership/take-timeline.ts'
import { type Kernel, newId, submit } from '../../storage/kernel.ts'
import { chunksLeft, collect } from '../housekeeping/collect.ts'
import { type AffectedTimeline, type EraseEntriesOptions, type ErasePlan, planErasure } from './plan.ts'
import { redact } from './redaction.ts'
import type { Target } from './select.ts'

export interface EraseEntriesReport {
  readonly isDryRun: boolean
  /** The id of the recorded erasure. Null: nothing was left to erase. */
  readonly id: string | null
  /** By the timeline that stores them: a fork reads entries of its parent. */
  readonly entries: readonly { readonly timeline: string; readonly seqs: readonly number[] }[]
  /** The number of entries of each type. */
  readonly types: Readonly<Record<string, number>>
  /** Sequences of the range that were erased before. */
  readonly already: number
  /** All timelines that read them, with their losses. */
  readonly timelines: readonly AffectedTimeline[]
  /** The reason why the erasure would be refused. Empty: it would not. */
  readonly refusals: ErasePlan['refusals']
  /** Chunks that were removed from the store. */
  readonly chunks: number
  /** Where copies may remain, as text. */
  readonly remains: readonly string[]
}

/** Other processes may write in turns meanwhile: the limit on restarts. */
const attemptsMax = 10
const replacesMax = 50

/** @example await eraseEntries(kernel, 'notes/ann', { entries: { from: 5, to: 9 }, dryRun: true }) // only reports */
export async function eraseEntries(
  kernel: Kernel,
  id: string,
  options: EraseEntriesOptions,
): Promise<EraseEntriesReport> {
  const plan = await planErasure(kernel, id, options)
  const report = { ...pick(plan), remains: await remainsOf(kernel, plan) }
  if (options.dryRun) {
    const { keepsErased = [] } = await kernel.store.upkeep.facts()
    return { ...report, remains: [...keepsErased, ...report.remains], isDryRun: true, id: null, chunks: 0 }
  }
  const [first] = plan.refusals
  if (first) {
    const what = `${id} was not erased: ${first.timeline}: ${first.why}`
    throw new RepriseError(first.code, what, { timeline: id, refusals: plan.refusals })
  }
  const erasure = plan.timelines.length > 0 ? newId(kernel.random) : null
  if (erasure) await carryOut(kernel, id, erasure, plan, options)
  // Needed even if nothing was erased now: an earlier attempt may have stopped before this collection.
  const { chunks } = await collect(kernel, { chunksOnly: true })
  await kernel.store.blobs.compact?.(true)
  const remains = [...(await kernel.store.upkeep.scrub({ whole: true, mayLock: true })), ...report.remains]
  remains.unshift(...chunksLeft(chunks))
  const count = countOf(plan)
  if (erasure) {
    const what = `${count} entries erased${options.reason ? `: ${options.reason}` : ''}`
    kernel.events.emit('report', { kind: 'erase', timeline: id, what, data: { erasure, types: plan.types } })
  }
  return { ...report, remains, isDryRun: false, id: erasure, chunks: chunks.swept }
}

async function carryOut(
  kernel: Kernel,
  id: string,
  erasure: string,
  planned: ErasePlan,
  options: EraseEntriesOptions,
): Promise<void> {
  let plan = planned
  for (let attempt = 1; ; attempt++) {
    const taken = await takeAll(kernel, erasure, plan, options)
    try {
      // Planned again now that no other process writes: entries may have been added since.
      const now = await planErasure(kernel, id, { ...options, takeover: true })
      const [refusal] = now.refusals
      if (refusal)
        throw new RepriseError(refusal.code, `${refusal.timeline}: ${refusal.why}`, { refusals: now.refusals })
      const isComplete = now.timelines.every(({ timeline }) => taken.some((head) => head.timeline === timeline))
      plan = now
      if (isComplete) {
        for (const head of taken) await dropAffected(kernel, head, now.timelines)
        await replaceAll(kernel, erasure, now, options)
      }
      if ((await release(kernel, erasure, taken, isComplete)) && isComplete) return
    } catch (error) {
      // The marks stay: state read meanwhile must not be published, and readers see that the erasure is not done.
      await release(kernel, erasure, taken, false).catch(() => undefined)
      throw error
    }
    if (attempt >= attemptsMax) {
      throw new RepriseError('CONTENDED', `${id}: other processes took it ${attempt} times; erase again`, {
        timeline: id,
      })
    }
  }
}

async function takeAll(
  kernel: Kernel,
  erasure: string,
  { timelines }: ErasePlan,
  options: EraseEntriesOptions,
): Promise<Head[]> {
  const taken: Head[] = []
  try {
    for (const { timeline, from: first } of timelines) {
      const inTurns = kernel.models.find(timeline)?.entries?.inTurns ?? false
      const from = { mustExist: true, takeover: options.takeover || inTurns }
      taken.push(await takeTimeline(kernel, timelineId(timeline), from, erasureMark(erasure, first)))
    }
    return taken
  } catch (error) {
    await release(kernel, erasure, taken, false).catch(() => undefined)
    throw error
  }
}

async function dropAffected(kernel: Kernel, head: Head, timelines: readonly AffectedTimeline[]): Promise<void> {
  const affected = timelines.find(({ timeline }) => timeline === head.timeline)
  if (!affected) return
  const records = (await kernel.store.checkpoints(head.timeline)).filter(({ seq }) => seq >= affected.from)
  if (records.length === 0) return
  const marks = records.filter(({ isPinned }) => isPinned).map((record) => ({ id: record.id, isPinned: false }))
  await change(kernel, head, {
    ...(marks.length > 0 && { marks }),
    drop: records.map((record) => record.id as ManifestId),
  })
}

async function replaceAll(
  kernel: Kernel,
  erasure: string,
  plan: ErasePlan,
  { reason = '' }: EraseEntriesOptions,
): Promise<void> {
  const made = plan.targets.flatMap((target) => {
    const run = redact(kernel, target.run, target.before, target.seqs)
    return run ? [{ target, run }] : []
  })
  const checks = made.map(({ run }) => checkIn(run.bytes))
  await recordErasure(kernel, { id: erasure, why: reason, entries: countOf(plan), checks })
  for (const [timeline, changes] of byTimeline(made)) {
    for (let attempt = 1; ; attempt++) {
      const { left } = await kernel.store.upkeep.replace(timeline, changes)
      if (left === 0) break
      if (attempt >= replacesMax) throw new RepriseError('CONTENDED', `${timeline}: ${left} runs could not be replaced`)
    }
  }
}

function byTimeline(made: readonly { readonly target: Target; readonly run: Target['run'] }[]) {
  const found = new Map<TimelineId, Target['run'][]>()
  for (const { target, run } of made) found.set(target.timeline, [...(found.get(target.timeline) ?? []), run])
  return found
}

/** False: another process took one of them meanwhile. */
async function release(kernel: Kernel, erasure: string, heads: readonly Head[], isDone: boolean): Promise<boolean> {
  let isOurs = true
  for (const { timeline, epoch } of heads) {
    const outcome = await submit(kernel, {
      guard: { timeline, epoch },
      release: true,
      ...(isDone && { attributes: erasureMark(erasure, null) }),
    })
    if (!outcome.ok && outcome.code !== 'FENCED') throw refusalError(timeline, outcome)
    isOurs &&= outcome.ok
  }
  return isOurs
}

async function change(kernel: Kernel, { timeline, epoch }: Head, extras: Partial<Commit>): Promise<void> {
  const outcome = await submit(kernel, { ...extras, guard: { timeline, epoch } })
  if (!outcome.ok) throw refusalError(timeline, outcome)
}

function pick(plan: ErasePlan): Pick<EraseEntriesReport, 'entries' | 'types' | 'already' | 'timelines' | 'refusals'> {
  const found = new Map<string, number[]>()
  for (const { timeline, seqs } of plan.targets) found.set(timeline, [...(found.get(timeline) ?? []), ...seqs])
  const entries = [...found].map(([timeline, seqs]) => ({ timeline, seqs: seqs.sort((a, b) => a - b) }))
  const { types, already, timelines, refusals } = plan
  return { entries, types, already, timelines, refusals }
}

function countOf({ targets }: ErasePlan): number {
  return targets.reduce((sum, { seqs }) => sum + seqs.size, 0)
}

/** Known places that an erasure of entries does not reach. */
async function remainsOf(kernel: Kernel, plan: ErasePlan): Promise<string[]> {
  const remains: string[] = [...(await mirrorRemains(kernel))]
  const cursors = (await kernel.store.cursors()).map(({ name }) => name)
  if (cursors.length > 0) {
    remains.push(`their readers keep derived data: rebuild or correct it (${cursors.join(', ')})`)
  }
  for (const { timeline } of plan.timelines) {
    const { mail, attributes } = await existing(kernel, timelineId(timeline))
    const names = Object.keys(attributes).filter((name) => !name.startsWith('$'))
    if (mail > 0) remains.push(`${mail} unread messages to ${timeline}`)
    if (names.length > 0) remains.push(`attributes of ${timeline}: ${names.join(', ')}`)
  }
  if (Object.keys(plan.types).some(isEffectType))
    remains.push('the names, ids and keys of effects, and the record of their execution')
  if (kernel.sealer.keyId === null && countOf(plan) > 0) {
    remains.push('digests of history: they contain no data, but a guess at a short text can be tested against them')
  }
  remains.push('backups, exports and savepoint files made before, and copies of the store: erase those too')
  return remains
}
