// The retention options of a definition, with their defaults: how many checkpoints, how much history, how many effects
// and keys are kept. retention.ts applies the policy to a timeline.

import { type Duration, toMs } from '../duration.ts'
import { RepriseError } from '../errors.ts'
import { checkCount, checkOptions, namesOf } from '../options.ts'

/** How much to keep. With several rules, a checkpoint stays if any of them keeps it. */
export interface RetentionPolicy {
  /** The last N verified ones, at least 1 (two always stay). Default: 3. */
  readonly checkpoints?: number
  /** All checkpoints younger than this. */
  readonly for?: Duration
  /** The last checkpoint of each of the N most recent hours, days, weeks that have one. */
  readonly hourly?: number
  readonly daily?: number
  readonly weekly?: number
  /**
   * 'all': never trim. 'needed': trim history that nothing can need any more. { for }: keep the needed history and this much
   * more. 'tiered': move history that nothing can need to the tier that takes history, and read it from there; without such a
   * tier it stays. { for, tiered: true }: the same, with this much more kept in the store. Default: 'all'.
   */
  readonly history?: 'all' | 'needed' | 'tiered' | { readonly for: Duration; readonly tiered?: boolean }
  /**
   * How many settled effects the ledger remembers once the history that records them is trimmed: the last N; 'needed': none;
   * 'all': every one. A forgotten effect that is requested again runs as a new effect. Effects in doubt, effects being
   * undone, and effects recorded in untrimmed history are always remembered. Default: the last 10,000.
   */
  readonly effects?: 'all' | 'needed' | { readonly last: number }
  /**
   * How many dedupe keys are remembered: the last N, or 'all'. An entry with a forgotten key that arrives again is appended
   * again. Default: the last 100,000.
   */
  readonly keys?: 'all' | { readonly last: number }
  /**
   * Deletes forks of this timeline that have not changed for this long, with their archives. A fork that is in use, has not
   * ended, has a savepoint or was forked itself stays. Default: forks are never deleted.
   */
  readonly forks?: Duration
  /** How long the newest checkpoint of each other fold version stays, to allow a return after a deploy. Default: 7 days. */
  readonly otherVersions?: Duration
}

export interface ResolvedRetention {
  readonly checkpoints: number
  readonly forMs: number
  readonly hourly: number
  readonly daily: number
  readonly weekly: number
  readonly history: 'all' | 'needed'
  /** History that is not needed moves to a colder place instead of being removed. */
  readonly isTiered: boolean
  /** Above 0: this much history stays beyond the needed part. */
  readonly historyMs: number
  readonly otherVersionsMs: number
  /** How many settled effects and dedupe keys are remembered. */
  readonly effectsLast: number
  readonly keysLast: number
  /** Null: forks stay. */
  readonly forksMs: number | null
}

const known = namesOf<RetentionPolicy>()('checkpoints for hourly daily weekly history effects keys forks otherVersions')
const knownHistory = namesOf<{ readonly for: Duration; readonly tiered?: boolean }>()('for tiered')

/** Applies the defaults and refuses invalid options; also called when a definition is made. */
export function resolveRetention(policy: RetentionPolicy): ResolvedRetention {
  checkOptions('retain', policy, known)
  const { history = 'all' } = policy
  if (typeof history === 'object') checkOptions('retain.history', history, knownHistory)
  if (history !== 'all' && history !== 'needed' && history !== 'tiered' && typeof history !== 'object') {
    throw new RepriseError('INVALID_ARGUMENT', `retain.history must be 'all', 'needed', 'tiered' or { for }`, {
      given: String(history),
    })
  }
  return {
    effectsLast: effectsLastOf(policy),
    keysLast: keysLastOf(policy),
    checkpoints: count(policy.checkpoints ?? 3, 1, 'retain.checkpoints'),
    forMs: toMs(policy.for ?? 0, 'retain.for'),
    hourly: count(policy.hourly ?? 0, 0, 'retain.hourly'),
    daily: count(policy.daily ?? 0, 0, 'retain.daily'),
    weekly: count(policy.weekly ?? 0, 0, 'retain.weekly'),
    history: history === 'all' ? 'all' : 'needed',
    isTiered: history !== 'all' && keepsHistory(policy),
    historyMs: typeof history === 'object' ? toMs(history.for, 'retain.history.for') : 0,
    otherVersionsMs: toMs(policy.otherVersions ?? '7d', 'retain.otherVersions'),
    forksMs: policy.forks === undefined ? null : toMs(policy.forks, 'retain.forks'),
  }
}

const effectsLastDefault = 10_000
const keysLastDefault = 100_000

/** @example effectsLastOf({ effects: 'needed' }) // 0 */
export function effectsLastOf({ effects }: RetentionPolicy): number {
  if (effects === 'needed') return 0
  return lastOf(effects, effectsLastDefault, 'retain.effects', `'all', 'needed' or { last }`)
}

/** @example keysLastOf({}) // 100000 */
export function keysLastOf({ keys }: RetentionPolicy): number {
  return lastOf(keys, keysLastDefault, 'retain.keys', `'all' or { last }`)
}

function lastOf(given: unknown, otherwise: number, what: string, allowed: string): number {
  if (given === undefined) return otherwise
  if (given === 'all') return Number.POSITIVE_INFINITY
  if (typeof given !== 'object' || given === null) {
    throw new RepriseError('INVALID_ARGUMENT', `${what} must be ${allowed}`, { given: String(given) })
  }
  return count((given as { readonly last: number }).last, 0, `${what}.last`)
}

/** Whether all history stays readable, here or in a colder place. */
export function keepsHistory({ history = 'all' }: RetentionPolicy): boolean {
  return history === 'all' || history === 'tiered' || (typeof history === 'object' && history.tiered === true)
}

function count(value: number, least: number, what: string): number {
  checkCount(what, value, least)
  return value
}
