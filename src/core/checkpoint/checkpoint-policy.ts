// Decides when to checkpoint. A policy is any mix of triggers (by count, by time, by event, by a recovery-time budget, by a
// failure rate); the first trigger that fires decides. Costs are measured (costs.ts); `because` explains the chosen interval.
//
// Budget: open + restore + replay ≤ a share of recoverWithin, minus the entries that arrive while a checkpoint is
// being written: until it is published, recovery still starts from the previous one. A calm process aims at less than the
// budget, a busy one lengthens the interval as far as the budget allows.
// Failure rate: with checkpoint cost C and mean time between failures M, Young's √(2CM), refined by Daly.

import { type Duration, formatMs, positiveMs, toMs } from '../duration.ts'
import { checkCount, checkOptions, checkValues, namesOf, texts } from '../options.ts'
import { estimate, isAssumed, type MeasuredCosts } from './costs.ts'

/** With several triggers, the first that fires decides. An empty policy never checkpoints automatically. */
export interface CheckpointPolicy {
  /** After this many entries. */
  readonly every?: number
  /** With `every`: minimum entries before the first checkpoint. Replaying a short history is cheaper than storing its state. */
  readonly first?: number
  /** After this time, if anything was appended. */
  readonly each?: Duration
  /** Recovery-time budget: checkpoint as often as measured costs require. A busy process stretches the interval within it. */
  readonly recoverWithin?: Duration
  /**
   * Mean time between failures: checkpoint at the interval that minimises the time lost to checkpoints and repeated work.
   * 'observed': the rate at which owners of this timeline died; one failure per day is assumed until more is known.
   */
  readonly failureEvery?: Duration | 'observed'
  /**
   * Loss budget: no work may be older than this without being in a published checkpoint, including the time to write one. The
   * recovery card shows whether it is kept, and the doctor and the metrics report it when it is not.
   */
  readonly loseAtMost?: Duration
  /** After an entry of one of these types: milestones, irreversible calls. */
  readonly on?: readonly string[]
}

/** Default of models whose entries are small facts: a history of any length is replayed from its last 10,000 entries. */
export const usualPolicy: CheckpointPolicy = { every: 10_000 }

const knownTriggers = namesOf<CheckpointPolicy>()('every first each recoverWithin failureEvery loseAtMost on')

/** The work since the last checkpoint. */
export interface SinceCheckpoint {
  readonly entries: number
  readonly ms: number
  /** Measured replay time of these entries. Default: their number times the measured mean. */
  readonly replayMs?: number
  /** Types of the entries since then, or at least of the last append; read only if the policy has `on`. */
  readonly types?: Iterable<string>
  /** Entries that may arrive after the next checkpoint is due, until it is published. */
  readonly expected?: number
  /** No checkpoint exists yet: counted from the beginning. */
  readonly isFirst?: boolean
  /** For `failureEvery: 'observed'`: the observed mean time between failures. */
  readonly failureEveryMs?: number
}

export type CheckpointTrigger = 'count' | 'time' | 'event' | 'budget' | 'failure rate' | 'loss'

export interface CheckpointInterval {
  /** Null: no trigger of this kind. */
  readonly entries: number | null
  readonly ms: number | null
  /** One sentence per trigger, with the numbers. */
  readonly because: readonly string[]
}

export interface CheckpointDecision {
  readonly isDue: boolean
  readonly trigger: CheckpointTrigger | null
  readonly because: string
  readonly intervalEntries: number | null
  readonly intervalMs: number | null
  /** The replay time since the last checkpoint that makes the next one due; null: the policy has no budget. */
  readonly replayMs: number | null
  /** Time until a checkpoint is due if nothing more is appended; null: it does not become due. */
  readonly dueInMs: number | null
}

/** Share of a budget that a calm process aims at: costs are means, and a new process is slower than a warm one. */
const calmShare = 0.6
/** Share of a budget that a busy process may use. */
const busyShare = 0.85
/** Below `calmLoad` a process is calm; above `busyLoad` it counts as fully busy. */
const calmLoad = 0.5
const busyLoad = 0.9
/** How far load lengthens the interval of a failure rate, if a budget allows it. */
const stretchMax = 4
/** Share of a loss budget that is used: timers and checkpoints are sometimes late. */
const lossShare = 0.8

/** @example decideCheckpoint({ every: 1000 }, noCosts, { entries: 1000, ms: 5000 }).isDue // true */
export function decideCheckpoint(
  policy: CheckpointPolicy,
  costs: MeasuredCosts,
  since: SinceCheckpoint,
): CheckpointDecision {
  const limits = limitsOf(policy, costs, since)
  const interval = {
    intervalEntries: least(limits.map((limit) => limit.entries)),
    intervalMs: least(limits.map((limit) => limit.ms)),
    replayMs: least(limits.map((limit) => limit.replayMs)),
    dueInMs: since.entries === 0 ? null : least(limits.map((limit) => dueInMs(limit, since))),
  }
  const fires = (trigger: CheckpointTrigger, because: string) => ({ isDue: true, trigger, because, ...interval })
  const waits = (because: string) => ({ isDue: false, trigger: null, because, ...interval })

  if (since.entries === 0) return waits('nothing was appended since the last checkpoint')
  const milestone = findMilestone(policy, since)
  if (milestone !== null) return fires('event', `${milestone} is a milestone`)
  for (const limit of limits) {
    if (dueInMs(limit, since) === 0) return fires(limit.trigger, limit.because())
  }
  if (limits.length === 0) return waits(policy.on === undefined ? 'only by hand' : 'only after a milestone, or by hand')
  // Building the explanation costs more than the decision, and most appends end here: chooseInterval has the figures.
  return waits('no trigger is reached yet')
}

/** The interval that the engine would choose now, and the reasons: for the recovery card. */
export function chooseInterval(
  policy: CheckpointPolicy,
  costs: MeasuredCosts,
  since: SinceCheckpoint = { entries: 0, ms: 0 },
): CheckpointInterval {
  const limits = limitsOf(policy, costs, since)
  return {
    entries: least(limits.map((limit) => limit.entries)),
    ms: least(limits.map((limit) => limit.ms)),
    because: limits.map((limit) => limit.because()),
  }
}

/** Whether the policy depends on measured costs. */
export function usesCosts({ recoverWithin, failureEvery, loseAtMost }: CheckpointPolicy): boolean {
  return recoverWithin !== undefined || failureEvery !== undefined || loseAtMost !== undefined
}

/**
 * The time between two captures that keeps a loss budget. Just before a capture is published, the work since the previous capture
 * would be lost: the interval, and the time to write both. `isKept` is false if captures would have to run back to back.
 * @example lossInterval(60_000, 1000) // { ms: 46000, isKept: true }
 */
export function lossInterval(
  loseAtMostMs: number,
  checkpointMs: number,
): { readonly ms: number; readonly isKept: boolean } {
  const ms = Math.round(loseAtMostMs * lossShare - 2 * checkpointMs)
  return { ms: Math.max(1, ms, Math.round(checkpointMs)), isKept: ms >= checkpointMs }
}

/** Young (1974): the first-order optimum of the time between two checkpoints. */
export function youngIntervalMs(checkpointMs: number, failureEveryMs: number): number {
  return Math.sqrt(2 * checkpointMs * failureEveryMs)
}

/** Daly (2006): the higher-order estimate; also accurate if a checkpoint costs much of the time between failures. */
export function dalyIntervalMs(checkpointMs: number, failureEveryMs: number): number {
  if (checkpointMs >= 2 * failureEveryMs) return failureEveryMs
  const ratio = checkpointMs / (2 * failureEveryMs)
  return youngIntervalMs(checkpointMs, failureEveryMs) * (1 + Math.sqrt(ratio) / 3 + ratio / 9) - checkpointMs
}

/** Refuses an invalid policy; called when a definition is made. */
export function checkPolicy(policy: CheckpointPolicy): void {
  checkOptions('checkpoint', policy, knownTriggers)
  checkValues('checkpoint', policy, { on: [texts] })
  const { every, first, each, recoverWithin, failureEvery, loseAtMost } = policy
  if (every !== undefined) checkCount('checkpoint.every', every)
  if (first !== undefined) checkCount('checkpoint.first', first)
  for (const [name, duration] of Object.entries({ each, recoverWithin, failureEvery, loseAtMost })) {
    if (duration === undefined || (name === 'failureEvery' && duration === 'observed')) continue
    positiveMs(duration, `checkpoint.${name}`)
  }
}

/**
 * The entry count since the last checkpoint at which the next one begins, so that at most `every` entries follow the last
 * checkpoint when the next one is published. `expected`: the entries that may arrive until then. At least half of `every`.
 */
export function beginsAt(every: number, expected: number): number {
  return Math.max(every - expected, Math.ceil(every / 2))
}

interface TriggerLimit {
  readonly trigger: CheckpointTrigger
  readonly entries?: number
  readonly ms?: number
  readonly replayMs?: number
  /** Counts one entry against `replayMs` where its replay was not measured. */
  readonly replayMsPerEntry?: number
  /** Minimum time between checkpoints, so that they do not run back to back. */
  readonly atLeastMs?: number
  readonly because: () => string
}

function limitsOf(policy: CheckpointPolicy, costs: MeasuredCosts, since: SinceCheckpoint): TriggerLimit[] {
  const limits: TriggerLimit[] = []
  if (policy.every !== undefined) {
    const first = since.isFirst ? (policy.first ?? 0) : 0
    const because = () => (first > policy.every! ? `the first after ${first} entries` : `every ${policy.every} entries`)
    limits.push({ trigger: 'count', entries: Math.max(beginsAt(policy.every, since.expected ?? 0), first), because })
  }
  if (policy.each !== undefined) {
    const ms = toMs(policy.each, 'checkpoint.each')
    limits.push({ trigger: 'time', ms, because: () => `each ${formatMs(ms)}` })
  }
  if (policy.loseAtMost !== undefined) limits.push(lossLimit(policy.loseAtMost, costs))
  const { recoverWithin, failureEvery } = policy
  const budget =
    recoverWithin === undefined ? null : budgetLimit(toMs(recoverWithin, 'checkpoint.recoverWithin'), costs, since)
  if (budget) limits.push(budget)
  if (failureEvery !== undefined) limits.push(failureLimit(failureEvery, costs, since, budget))
  return limits
}

function budgetLimit(budgetMs: number, costs: MeasuredCosts, since: SinceCheckpoint): TriggerLimit {
  const { checkpointMs, openMs, restoreMs, replayMsPerEntry } = estimate(costs, since.isFirst)
  const arriving = paceOf(costs, since, checkpointMs) * checkpointMs
  const share = calmShare + (busyShare - calmShare) * stretch(costs)
  const room = budgetMs * share - openMs - restoreMs - arriving * replayMsPerEntry
  const isKept = room >= replayMsPerEntry
  const entries = Math.max(1, Math.floor(room / replayMsPerEntry))
  const because = () => {
    const assumed = isAssumed(costs)
    const figures =
      `${since.isFirst ? '' : `restore ${costText(restoreMs, assumed.restore)}, `}` +
      `replay ${costText(replayMsPerEntry * 1000, assumed.replay)} per 1000 entries, ` +
      `${Math.ceil(arriving)} entries arrive during a checkpoint of ${costText(checkpointMs, assumed.checkpoint)}`
    const busy = stretch(costs) > 0 ? ` (stretched to ${percent(share)} of it: busy ${percent(costs.load!)})` : ''
    return isKept
      ? `every ${entries} entries to recover within ${formatMs(budgetMs)}${busy}: ${figures}`
      : `recovery within ${formatMs(budgetMs)} is not possible, so checkpoints take at most half of the time: ${figures}`
  }
  const replayMs = isKept ? room : 0
  return { trigger: 'budget', entries, replayMs, replayMsPerEntry, atLeastMs: checkpointMs, because }
}

function failureLimit(
  failureEvery: Duration | 'observed',
  costs: MeasuredCosts,
  since: SinceCheckpoint,
  budget: TriggerLimit | null,
): TriggerLimit {
  const isObserved = failureEvery === 'observed'
  const everyMs = isObserved ? (since.failureEveryMs ?? dayMs) : toMs(failureEvery, 'checkpoint.failureEvery')
  const { checkpointMs } = estimate(costs)
  const best = Math.max(1, Math.round(Math.max(dalyIntervalMs(checkpointMs, everyMs), checkpointMs)))
  const pace = paceOf(costs, since, checkpointMs)
  const allowedMs = budget?.entries !== undefined && pace > 0 ? budget.entries / pace : 0
  const ms = Math.max(best, Math.round(Math.min(best * (1 + (stretchMax - 1) * stretch(costs)), allowedMs)))
  const because = () =>
    `each ${formatMs(ms)}: a checkpoint takes ${costText(checkpointMs, isAssumed(costs).checkpoint)}, ` +
    `a failure is ${isObserved ? 'observed' : 'expected'} every ${formatMs(everyMs)} (Daly; by Young's formula ${formatMs(youngIntervalMs(checkpointMs, everyMs))})` +
    `${ms > best ? `; stretched from ${formatMs(best)}: busy ${percent(costs.load!)}` : ''}`
  return { trigger: 'failure rate', ms, because }
}

function lossLimit(loseAtMost: Duration, costs: MeasuredCosts): TriggerLimit {
  const budgetMs = toMs(loseAtMost, 'checkpoint.loseAtMost')
  const { checkpointMs } = estimate(costs)
  const { ms, isKept } = lossInterval(budgetMs, checkpointMs)
  const because = () => {
    const took = `a checkpoint takes ${costText(checkpointMs, isAssumed(costs).checkpoint)}`
    return isKept
      ? `each ${formatMs(ms)} to lose at most ${formatMs(budgetMs)}: ${took}`
      : `losing at most ${formatMs(budgetMs)} is not possible, so checkpoints take at most half of the time: ${took}`
  }
  return { trigger: 'loss', ms, because }
}

const dayMs = 86_400_000

/** The current pace, once it can be measured; until then the earlier one. */
function paceOf({ entriesPerMs }: MeasuredCosts, since: SinceCheckpoint, checkpointMs: number): number {
  const now = since.ms > 0 && (since.ms >= checkpointMs || entriesPerMs === null) ? since.entries / since.ms : 0
  return Math.max(entriesPerMs ?? 0, now)
}

/** From 0 (calm) to 1 (fully busy). */
function stretch({ load }: MeasuredCosts): number {
  return Math.min(1, Math.max(0, ((load ?? 0) - calmLoad) / (busyLoad - calmLoad)))
}

/** Milliseconds until this limit is reached if nothing more is appended; 0: now; undefined: never. */
function dueInMs(limit: TriggerLimit, since: SinceCheckpoint): number | undefined {
  const { replayMs, replayMsPerEntry = 0, atLeastMs = 0 } = limit
  const isReached =
    replayMs === undefined
      ? since.entries >= (limit.entries ?? Number.POSITIVE_INFINITY)
      : (since.replayMs ?? since.entries * replayMsPerEntry) >= replayMs
  if (isReached) return Math.max(0, atLeastMs - since.ms)
  return limit.ms === undefined ? undefined : Math.max(0, limit.ms - since.ms)
}

function findMilestone(policy: CheckpointPolicy, since: SinceCheckpoint): string | null {
  if (policy.on === undefined) return null
  for (const type of since.types ?? []) if (policy.on.includes(type)) return type
  return null
}

function least(values: readonly (number | undefined)[]): number | null {
  const given = values.filter((value) => value !== undefined)
  return given.length === 0 ? null : Math.min(...given)
}

function costText(ms: number, isAssumption: boolean): string {
  return isAssumption ? `${formatMs(ms)} (assumed)` : formatMs(ms)
}

function percent(part: number): string {
  return `${Math.round(part * 100)} %`
}
