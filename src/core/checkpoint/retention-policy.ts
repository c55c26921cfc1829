// What a definition may say about retention, with its defaults: which checkpoints stay, how much history, how many effects
// and keys are remembered. What follows from it for a timeline is in retention.ts.

import { type Duration, toMs } from '../duration.ts'
import { RepriseError } from '../errors.ts'
import { checkOptions, namesOf } from '../options.ts'

/** How much to keep. Several together: whatever one of them keeps, stays. */
export interface RetentionPolicy {
  /** The last N verified ones. 3 if left out, at least 1 (two always stay). */
  readonly checkpoints?: number
  /** All that are younger than this. */
  readonly for?: Duration
  /** The last one of each of the N most recent hours, days, weeks that have one. */
  readonly hourly?: number
  readonly daily?: number
  readonly weekly?: number
  /**
   * 'all' (the default): never trim. 'needed': trim what nobody may need. { for }: what is needed, and this much more.
   * 'tiered': what nobody may need moves to the tier that takes history, and is read from there; it stays while there is
   * none. { for, tiered: true }: the same, with this much more kept in the store.
   */
  readonly history?: 'all' | 'needed' | 'tiered' | { readonly for: Duration; readonly tiered?: boolean }
  /**
   * What the ledger remembers of effects whose outcome is known, once the history that records them is trimmed: the last N
   * (10,000 if left out); 'needed': none of them; 'all': every one. The id of a forgotten effect that is asked for again is a
   * new effect. What is in doubt, what is being undone, and what untrimmed history records is always remembered.
   */
  readonly effects?: 'all' | 'needed' | { readonly last: number }
  /**
   * How many dedupe keys are remembered: the last N (100,000 if left out), or 'all'. An entry with a forgotten key that comes
   * again is appended again.
   */
  readonly keys?: 'all' | { readonly last: number }
  /**
   * Forks of this timeline that nobody has changed for this long are deleted, with their archives; left out: none ever is. One
   * that is at work, has not ended, has a savepoint or was forked itself stays.
   */
  readonly forks?: Duration
  /** How long the newest one of each other fold version stays as the way back after a deploy. 7 days if left out. */
  readonly otherVersions?: Duration
}

export interface ResolvedRetention {
  readonly checkpoints: number
  readonly forMs: number
  readonly hourly: number
  readonly daily: number
  readonly weekly: number
  readonly history: 'all' | 'needed'
  /** What is not needed moves to a colder place instead of going. */
  readonly isTiered: boolean
  /** Above 0: this much history stays beyond what is needed. */
  readonly historyMs: number
  readonly otherVersionsMs: number
  /** How many settled effects and dedupe keys are remembered. */
  readonly effectsLast: number
  readonly keysLast: number
  /** Null: forks stay. */
  readonly forksMs: number | null
}

const known = namesOf<RetentionPolicy>({
  checkpoints: true,
  for: true,
  hourly: true,
  daily: true,
  weekly: true,
  history: true,
  effects: true,
  keys: true,
  forks: true,
  otherVersions: true,
})
const knownHistory = namesOf<{ readonly for: Duration; readonly tiered?: boolean }>({ for: true, tiered: true })

/** Fills in the defaults and refuses what makes no sense: called when a definition is made, too. */
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

/** Whether all of it can be read for good, here or in a colder place. */
export function keepsHistory({ history = 'all' }: RetentionPolicy): boolean {
  return history === 'all' || history === 'tiered' || (typeof history === 'object' && history.tiered === true)
}

function count(value: number, least: number, what: string): number {
  if (!Number.isSafeInteger(value) || value < least) {
    throw new RepriseError(
      'INVALID_ARGUMENT',
      `${what} must be a whole number of at least ${least} (got ${String(value)})`,
      { given: String(value) },
    )
  }
  return value
}
