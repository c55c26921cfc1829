// When to checkpoint. A policy is any mix of triggers (by count, by time, by event, by a recovery-time budget, by a
// failure rate); the first that fires wins. Costs are measured and smoothed; what was picked, and why, is said in words.
//
// Budget: restore + entries × replay ≤ recoverWithin, with headroom, and minus the entries that arrive while a
// checkpoint is being written: until it is published, recovery still starts from the one before.
// Failure rate: with checkpoint cost C and mean time between failures M, Young's √(2CM), refined by Daly.

import { type Duration, formatMs, toMs } from './duration.ts'
import { RepriseError } from './errors.ts'

/** Several together: the first that fires wins. An empty policy: only by hand. */
export interface CheckpointPolicy {
  /** After this many entries. */
  readonly every?: number
  /** With `every`: the first one not before this many. A short history is replayed soon, and its state would lie beside it. */
  readonly first?: number
  /** After this time, if anything was appended. */
  readonly each?: Duration
  /** As often as it takes to recover within this time, by measured costs. */
  readonly recoverWithin?: Duration
  /** Mean time between failures: as often as loses the least time to checkpoints and repeated work together. */
  readonly failureEvery?: Duration
  /** After an entry of one of these types: milestones, irreversible calls. */
  readonly on?: readonly string[]
}

/** Smoothed costs; null until the first sample. A plain value: keep it in a checkpoint or throw it away. */
export interface MeasuredCosts {
  readonly checkpointMs: number | null
  readonly restoreMs: number | null
  readonly replayMsPerEntry: number | null
}

export type CostSample =
  | { readonly kind: 'checkpoint'; readonly ms: number }
  | { readonly kind: 'restore'; readonly ms: number }
  | { readonly kind: 'replay'; readonly ms: number; readonly entries: number }

/** What happened since the last checkpoint. */
export interface SinceCheckpoint {
  readonly entries: number
  readonly ms: number
  /** Types of the entries since then, or at least of the last append; looked at only if the policy has `on`. */
  readonly types?: Iterable<string>
  /** There is none yet: since the beginning. */
  readonly isFirst?: boolean
}

export type CheckpointTrigger = 'count' | 'time' | 'event' | 'budget' | 'failure rate'

export interface CheckpointInterval {
  /** Null: no trigger of this kind. */
  readonly entries: number | null
  readonly ms: number | null
  /** One sentence a trigger, with the numbers. */
  readonly because: readonly string[]
}

export interface CheckpointDecision {
  readonly isDue: boolean
  readonly trigger: CheckpointTrigger | null
  readonly because: string
  readonly intervalEntries: number | null
  readonly intervalMs: number | null
}

export const noCosts: MeasuredCosts = { checkpointMs: null, restoreMs: null, replayMsPerEntry: null }

/** Guesses on the slow side, used until something is measured. */
const assumed = { checkpointMs: 50, restoreMs: 50, replayMsPerEntry: 0.01 } as const
/** Weight of a new sample. */
const weight = 0.25
/** Aim at this part of a budget: the measured costs are means, and half of all recoveries are slower than the mean. */
const headroom = 0.8

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
  }
  const fires = (trigger: CheckpointTrigger, because: string) => ({ isDue: true, trigger, because, ...interval })
  const waits = (because: string) => ({ isDue: false, trigger: null, because, ...interval })

  if (since.entries === 0) return waits('nothing was appended since the last checkpoint')
  const milestone = findMilestone(policy, since)
  if (milestone !== null) return fires('event', `${milestone} is a milestone`)
  for (const limit of limits) {
    if (isReached(limit, since)) return fires(limit.trigger, limit.because())
  }
  if (limits.length === 0) return waits(policy.on === undefined ? 'only by hand' : 'only after a milestone, or by hand')
  // Words cost more than the decision, and this is the answer after most appends: chooseInterval has the figures.
  return waits('no trigger is reached yet')
}

/** What the engine would pick now, and why: for the recovery card. */
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

/** The first sample counts whole, later ones by a quarter. Nonsense (negative, not finite, of no entries) is left out. */
export function observe(costs: MeasuredCosts, sample: CostSample): MeasuredCosts {
  if (!Number.isFinite(sample.ms) || sample.ms < 0) return costs
  switch (sample.kind) {
    case 'checkpoint':
      return { ...costs, checkpointMs: smooth(costs.checkpointMs, sample.ms) }
    case 'restore':
      return { ...costs, restoreMs: smooth(costs.restoreMs, sample.ms) }
    case 'replay':
      if (!(sample.entries > 0)) return costs
      return { ...costs, replayMsPerEntry: smooth(costs.replayMsPerEntry, sample.ms / sample.entries) }
  }
}

/** Young (1974): the first-order optimum of the time between two checkpoints. */
export function youngIntervalMs(checkpointMs: number, failureEveryMs: number): number {
  return Math.sqrt(2 * checkpointMs * failureEveryMs)
}

/** Daly (2006): the higher-order estimate; good also when a checkpoint costs a sizeable part of the time between failures. */
export function dalyIntervalMs(checkpointMs: number, failureEveryMs: number): number {
  if (checkpointMs >= 2 * failureEveryMs) return failureEveryMs
  const ratio = checkpointMs / (2 * failureEveryMs)
  return youngIntervalMs(checkpointMs, failureEveryMs) * (1 + Math.sqrt(ratio) / 3 + ratio / 9) - checkpointMs
}

/** Refuses what makes no sense: called when a definition is made. */
export function checkPolicy(policy: CheckpointPolicy): void {
  const { every, first, each, recoverWithin, failureEvery } = policy
  for (const [name, entries] of Object.entries({ every, first })) {
    if (entries !== undefined && !(Number.isSafeInteger(entries) && entries >= 1)) {
      throw new RepriseError('INVALID_ARGUMENT', `checkpoint.${name} is a whole number of entries from 1 on`, {
        given: String(entries),
      })
    }
  }
  for (const [name, duration] of Object.entries({ each, recoverWithin, failureEvery })) {
    if (duration !== undefined && toMs(duration, `checkpoint.${name}`) === 0) {
      throw new RepriseError('INVALID_ARGUMENT', `checkpoint.${name} is a duration above zero`, {
        given: String(duration),
      })
    }
  }
}

interface TriggerLimit {
  readonly trigger: CheckpointTrigger
  readonly entries?: number
  readonly ms?: number
  /** Not before this time has passed, so that checkpoints do not run back to back. */
  readonly atLeastMs?: number
  readonly because: () => string
}

function limitsOf(policy: CheckpointPolicy, costs: MeasuredCosts, since: SinceCheckpoint): TriggerLimit[] {
  const limits: TriggerLimit[] = []
  if (policy.every !== undefined) {
    const first = since.isFirst ? (policy.first ?? 0) : 0
    const because = () => (first > policy.every! ? `the first after ${first} entries` : `every ${policy.every} entries`)
    limits.push({ trigger: 'count', entries: Math.max(policy.every, first), because })
  }
  if (policy.each !== undefined) {
    const ms = toMs(policy.each, 'checkpoint.each')
    limits.push({ trigger: 'time', ms, because: () => `each ${formatMs(ms)}` })
  }
  if (policy.recoverWithin !== undefined)
    limits.push(budgetLimit(toMs(policy.recoverWithin, 'checkpoint.recoverWithin'), costs, since))
  if (policy.failureEvery !== undefined)
    limits.push(failureLimit(toMs(policy.failureEvery, 'checkpoint.failureEvery'), costs))
  return limits
}

function budgetLimit(budgetMs: number, costs: MeasuredCosts, since: SinceCheckpoint): TriggerLimit {
  const restoreMs = costs.restoreMs ?? assumed.restoreMs
  const replayMs = costs.replayMsPerEntry ?? assumed.replayMsPerEntry
  const checkpointMs = costs.checkpointMs ?? assumed.checkpointMs
  const arriving = since.ms > 0 ? (since.entries / since.ms) * checkpointMs : 0
  const room = (budgetMs * headroom - restoreMs) / Math.max(replayMs, 1e-6)
  const entries = Math.max(1, Math.floor(room - arriving))
  const figures = () =>
    `restore ${known(costs.restoreMs, formatMs(restoreMs))}, replay ${known(costs.replayMsPerEntry, formatMs(replayMs * 1000))} per 1000 entries, ` +
    `${Math.ceil(arriving)} entries arrive during a checkpoint of ${known(costs.checkpointMs, formatMs(checkpointMs))}`
  const because = () =>
    room >= arriving + 1
      ? `every ${entries} entries to recover within ${formatMs(budgetMs)}: ${figures()}`
      : `recovery within ${formatMs(budgetMs)} cannot be kept, so as often as it costs no more than half of the time: ${figures()}`
  return { trigger: 'budget', entries, atLeastMs: checkpointMs, because }
}

function failureLimit(failureEveryMs: number, costs: MeasuredCosts): TriggerLimit {
  const checkpointMs = costs.checkpointMs ?? assumed.checkpointMs
  const best = dalyIntervalMs(checkpointMs, failureEveryMs)
  const ms = Math.max(1, Math.round(Math.max(best, checkpointMs)))
  const because = () =>
    `each ${formatMs(ms)}: a checkpoint takes ${known(costs.checkpointMs, formatMs(checkpointMs))}, ` +
    `a failure is expected every ${formatMs(failureEveryMs)} (Daly; Young says ${formatMs(youngIntervalMs(checkpointMs, failureEveryMs))})`
  return { trigger: 'failure rate', ms, atLeastMs: checkpointMs, because }
}

function isReached(limit: TriggerLimit, since: SinceCheckpoint): boolean {
  if (since.ms < (limit.atLeastMs ?? 0)) return false
  return (
    since.entries >= (limit.entries ?? Number.POSITIVE_INFINITY) || since.ms >= (limit.ms ?? Number.POSITIVE_INFINITY)
  )
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

function smooth(before: number | null, sample: number): number {
  return before === null ? sample : before + (sample - before) * weight
}

function known(measured: number | null, text: string): string {
  return measured === null ? `${text} (assumed)` : text
}
