// The plan of a staged rollout: the shares of clients that receive a version one after another, the condition for the next
// stage, and the refusals that stop it.

import { type Duration, toMs } from '../../../core/duration.ts'
import { RepriseError } from '../../../core/errors.ts'
import { checkOptions, namesOf } from '../../../core/options.ts'

export interface RolloutOptions {
  /** Increasing shares of the clients, each above 0 and at most 1; 1 is added at the end. Default: [0.01, 0.1, 0.5, 1]. */
  readonly stages?: readonly number[]
  /** The share of a stage's clients that must have accepted before the next stage begins. Default: 0.95. */
  readonly share?: number
  /** Minimum duration of each stage. Default: 0. */
  readonly hold?: Duration
  /** Pauses when more than this share of a stage's clients refuses. Default: 0, so the first refusal pauses. */
  readonly pauseAbove?: number
  /** Withdraws the version when more than this share refuses; 1: never automatically. Default: 0.1. */
  readonly withdrawAbove?: number
  /** Pauses a stage that has not been accepted within this time. Default: never. */
  readonly stageTimeout?: Duration
}

export interface RolloutPlan {
  readonly stages: readonly number[]
  readonly share: number
  readonly holdMs: number
  readonly pauseAbove: number
  readonly withdrawAbove: number
  readonly stageTimeoutMs: number | null
}

const known = namesOf<RolloutOptions>()('stages share hold pauseAbove withdrawAbove stageTimeout')

const stagesMax = 100

/** @example planOf({ stages: [0.05, 0.5] }).stages // [0.05, 0.5, 1] */
export function planOf(options: RolloutOptions): RolloutPlan {
  checkOptions('rollout', options, known)
  const given = options.stages ?? [0.01, 0.1, 0.5, 1]
  if (!Array.isArray(given) || given.length > stagesMax || !given.every((share, i) => isStage(share, given[i - 1]))) {
    const what = `stages must be at most ${stagesMax} rising shares, each above 0 and at most 1`
    throw new RepriseError('INVALID_ARGUMENT', what, { stages: JSON.stringify(given)?.slice(0, 200) })
  }
  return {
    stages: given.at(-1) === 1 ? given : [...given, 1],
    share: shareOf(options.share ?? 0.95, 'share'),
    holdMs: toMs(options.hold ?? 0, 'hold'),
    pauseAbove: shareOf(options.pauseAbove ?? 0, 'pauseAbove'),
    withdrawAbove: shareOf(options.withdrawAbove ?? 0.1, 'withdrawAbove'),
    stageTimeoutMs: options.stageTimeout === undefined ? null : toMs(options.stageTimeout, 'stageTimeout'),
  }
}

export function shareOf(share: unknown, what: string): number {
  if (typeof share === 'number' && share >= 0 && share <= 1) return share
  throw new RepriseError('INVALID_ARGUMENT', `${what} must be a number between 0 and 1`, { [what]: String(share) })
}

function isStage(share: unknown, before: number | undefined): boolean {
  return typeof share === 'number' && share > (before ?? 0) && share <= 1
}
