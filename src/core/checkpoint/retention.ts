// Retention: which checkpoints stay, which may be removed, how far history may be trimmed, and why, in plain words.
// The plan deletes nothing: the engine carries it out, and the store checks the guards again in the same transaction.
//
// The rules that keep data safe under any policy:
// - A restore point is a checkpoint that is verified, valid, of this fold version and at or above the floor. Only restore
//   points allow the floor to rise, never above the second newest; the two newest (at different sequences) always stay.
// - Every checkpoint that stays, every cursor and every fork that still reads this timeline keeps the floor from rising.
// - An unverified checkpoint stays while it is newer than the second newest restore point; it never raises the floor.

import type { ManifestId } from '../coordinate.ts'
import { formatMs } from '../duration.ts'
import { newestFirst } from '../history/recovery.ts'
import { isBadMark } from '../history/validity.ts'
import type { ManifestRecord } from '../store/ports.ts'
import { type ResolvedRetention, type RetentionPolicy, resolveRetention } from './retention-policy.ts'

export {
  effectsLastOf,
  keepsHistory,
  keysLastOf,
  type ResolvedRetention,
  type RetentionPolicy,
  resolveRetention,
} from './retention-policy.ts'

export type RetentionCandidate = Pick<
  ManifestRecord,
  'id' | 'seq' | 'foldVersion' | 'invalid' | 'verifiedAt' | 'createdAt' | 'isPinned'
>

export interface RetentionInput {
  readonly policy: RetentionPolicy
  readonly catalog: readonly RetentionCandidate[]
  readonly head: { readonly seq: number; readonly floor: number }
  readonly foldVersion: string
  /** Consumers: each has read up to and including this sequence of this timeline. */
  readonly cursors: readonly { readonly name: string; readonly seq: number }[]
  /** Forks of this timeline. A fork whose floor is below its base still reads this history above its floor. */
  readonly forks: readonly { readonly timeline: string; readonly baseSeq: number; readonly floor: number }[]
  readonly now: number
}

export interface RetentionVerdict {
  readonly id: ManifestId
  readonly because: string
}

export interface RetentionPlan {
  readonly keep: readonly RetentionVerdict[]
  readonly drop: readonly RetentionVerdict[]
  /** History up to `seq`, inclusive, may be removed; the engine rounds down to the end of a run. At least the current floor. */
  readonly floor: {
    readonly seq: number
    readonly because: string
    /** Holders that keep the floor from rising further. */
    readonly heldBy: readonly { readonly what: string; readonly seq: number }[]
  }
  /** The restore points that make a higher floor safe; empty while the floor does not rise. */
  readonly restsOn: readonly ManifestId[]
  /** For tiered history: the sequence up to which it may move to a colder place, and the restore points of the new floor. */
  readonly movable?: { readonly seq: number; readonly restsOn: readonly ManifestId[] }
}

const hourMs = 3_600_000
const dayMs = 24 * hourMs
/** A window of history is readable from its start only with a checkpoint there, so one checkpoint per part stays. */
const partsOfWindow = 8

/**
 * @example
 * const policy = { checkpoints: 3, history: 'needed' }
 * planRetention({ policy, catalog, head, foldVersion, cursors: [], forks: [], now })
 */
export function planRetention(input: RetentionInput, planted: ReadonlySet<string> = new Set()): RetentionPlan {
  const policy = resolveRetention(input.policy)
  const forks = planted.has('ignore-forks') ? [] : input.forks.filter((fork) => fork.floor < fork.baseSeq)
  const cursors = planted.has('ignore-cursors') ? [] : input.cursors
  const catalog = [...input.catalog].sort(newestFirst)
  const isProven = (one: RetentionCandidate) =>
    isWhole(one, input) && (one.verifiedAt !== null || planted.has('unverified-counted'))
  const proven = catalog.filter(isProven)
  const restorePoints = distinct(
    proven.filter((one) => one.foldVersion === input.foldVersion && one.seq >= input.head.floor),
  )

  const reasons = new Map<ManifestId, string>()
  const keep = (one: RetentionCandidate, because: string) => {
    if (!reasons.has(one.id)) reasons.set(one.id, because)
  }
  for (const one of catalog) if (one.isPinned) keep(one, 'pinned: stays until it is released')
  for (const one of restorePoints.slice(0, 2)) keep(one, 'one of the two newest restore points')
  for (const one of restorePoints.slice(0, policy.checkpoints)) keep(one, `one of the last ${policy.checkpoints}`)
  keepByTime(proven, policy, input.now, keep)
  keepForForks(proven, forks, keep)
  keepUnproven(catalog, restorePoints, isProven, input, keep)
  keepOtherVersions(catalog, proven, restorePoints, policy.otherVersionsMs, input, keep)
  keepEvidence(catalog, proven, input, keep)

  const kept = catalog.filter((one) => reasons.has(one.id))
  const floor = planFloor({ input, policy, kept, restorePoints, forks, cursors })
  if (planted.has('floor-too-high')) floor.seq = Math.max(input.head.floor, catalog[0]?.seq ?? 0)
  // Only checkpoints that the store will find verified and valid, so that a planted bug passes its guard into the simulation.
  const restsOn =
    floor.seq > input.head.floor
      ? restorePoints
          .slice(0, 2)
          .filter((one) => one.verifiedAt !== null)
          .map((one) => one.id)
      : []
  const isTiered = policy.isTiered && floor.seq > input.head.floor
  return {
    keep: kept.map((one) => ({ id: one.id, because: reasons.get(one.id)! })),
    drop: catalog
      .filter((one) => !reasons.has(one.id))
      .map((one) => ({ id: one.id, because: whyDropped(one, input, proven) })),
    floor: isTiered ? tieredFloor(input, floor) : floor,
    restsOn: isTiered ? [] : restsOn,
    ...(isTiered && { movable: { seq: floor.seq, restsOn } }),
  }
}

/** The floor rises once the history below has been read back from the colder place (engine/history/segments.ts). */
function tieredFloor({ head }: RetentionInput, { seq, heldBy }: RetentionPlan['floor']): RetentionPlan['floor'] {
  const because = `history is tiered: up to ${seq} it may move to the tier that takes history`
  return { seq: head.floor, because, heldBy }
}

type Keep = (one: RetentionCandidate, because: string) => void

function keepByTime(proven: readonly RetentionCandidate[], policy: ResolvedRetention, now: number, keep: Keep): void {
  const { forMs, historyMs } = policy
  for (const one of proven) {
    if (forMs > 0 && one.createdAt >= now - forMs) keep(one, `younger than ${formatMs(forMs)}`)
  }
  lastOfEach(proven, policy.hourly, (time) => Math.floor(time / hourMs), 'hour', keep)
  lastOfEach(proven, policy.daily, (time) => Math.floor(time / dayMs), 'day', keep)
  // 1970 began on a Thursday; weeks begin on a Monday.
  lastOfEach(proven, policy.weekly, (time) => Math.floor((time / dayMs + 3) / 7), 'week', keep)
  if (historyMs === 0) return
  const inWindow = proven.filter((one) => one.createdAt >= now - historyMs)
  const partMs = Math.max(1, historyMs / partsOfWindow)
  lastOfEach(
    inWindow,
    inWindow.length,
    (time) => Math.floor(time / partMs),
    `part of ${formatMs(historyMs)} of history`,
    keep,
  )
  const start = proven.find((one) => one.createdAt < now - historyMs)
  if (start !== undefined) keep(start, `${formatMs(historyMs)} of history start after it`)
}

/** Keeps the newest checkpoint of each of the most recent `count` periods that have one. */
function lastOfEach(
  newest: readonly RetentionCandidate[],
  count: number,
  periodOf: (time: number) => number,
  name: string,
  keep: Keep,
): void {
  const lastOf = new Map<number, RetentionCandidate>()
  for (const one of newest) {
    const period = periodOf(one.createdAt)
    if (!lastOf.has(period)) lastOf.set(period, one)
  }
  const recent = [...lastOf].sort(([a], [b]) => b - a).slice(0, count)
  for (const [, one] of recent) keep(one, `the last of its ${name}`)
}

/** A fork that reads its parent's history and has no checkpoint of its own recovers from a checkpoint of the parent. */
function keepForForks(proven: readonly RetentionCandidate[], forks: RetentionInput['forks'], keep: Keep): void {
  for (const fork of forks) {
    const start = proven.find((one) => one.seq <= fork.baseSeq && one.seq >= fork.floor)
    if (start !== undefined) keep(start, `fork ${fork.timeline} may start from it`)
  }
}

function keepUnproven(
  catalog: readonly RetentionCandidate[],
  restorePoints: readonly RetentionCandidate[],
  isProven: (one: RetentionCandidate) => boolean,
  input: RetentionInput,
  keep: Keep,
): void {
  const second = restorePoints[1]?.seq ?? -1
  for (const one of catalog) {
    if (isWhole(one, input) && !isProven(one) && one.foldVersion === input.foldVersion && one.seq > second) {
      keep(one, 'not verified yet, and newer than the second newest restore point')
    }
  }
}

/** A deploy can be rolled back until this version has two restore points of its own, and for a while after. */
function keepOtherVersions(
  catalog: readonly RetentionCandidate[],
  proven: readonly RetentionCandidate[],
  restorePoints: readonly RetentionCandidate[],
  otherVersionsMs: number,
  input: RetentionInput,
  keep: Keep,
): void {
  const isOther = (one: RetentionCandidate) => one.foldVersion !== input.foldVersion
  if (restorePoints.length < 2) {
    for (const one of catalog) {
      if (isWhole(one, input) && isOther(one)) {
        keep(one, `of fold version ${one.foldVersion}: stays until ${input.foldVersion} has two restore points`)
      }
    }
  }
  const seen = new Set<string>()
  for (const one of proven.filter(isOther)) {
    if (!seen.has(one.foldVersion) && one.createdAt >= input.now - otherVersionsMs) {
      keep(one, `allows a return to fold version ${one.foldVersion}, for ${formatMs(otherVersionsMs)}`)
    }
    seen.add(one.foldVersion)
  }
}

/** An invalid checkpoint restores nothing. It stays as a last resort, or as evidence until a newer one is proven. */
function keepEvidence(
  catalog: readonly RetentionCandidate[],
  proven: readonly RetentionCandidate[],
  input: RetentionInput,
  keep: Keep,
): void {
  for (const one of catalog) {
    if (isBadMark(one.invalid)) keep(one, 'marked bad by a person: kept as evidence until the mark is removed')
  }
  const broken = catalog.filter((one) => !isWhole(one, input))
  const isOnlyHope = !proven.some((one) => one.seq >= input.head.floor)
  for (const one of isOnlyHope ? broken : []) keep(one, 'invalid, but the only remaining source of a repair')
  const newest = broken[0]
  if (newest !== undefined && !proven.some((one) => one.seq >= newest.seq)) {
    keep(newest, 'invalid: kept as evidence until a newer one is verified')
  }
}

function planFloor(at: {
  readonly input: RetentionInput
  readonly policy: ResolvedRetention
  readonly kept: readonly RetentionCandidate[]
  readonly restorePoints: readonly RetentionCandidate[]
  readonly forks: RetentionInput['forks']
  readonly cursors: RetentionInput['cursors']
}): { seq: number; because: string; heldBy: { what: string; seq: number }[] } {
  const { input, policy, restorePoints } = at
  const { floor } = input.head
  const second = restorePoints[1]
  if (policy.history === 'all') {
    const since = floor === 0 ? '' : ` from ${floor + 1} on; older history was trimmed`
    return { seq: floor, because: `all history is kept${since}`, heldBy: [] }
  }
  if (second === undefined) {
    const because = `a higher floor needs two verified checkpoints of fold version ${input.foldVersion} (there ${restorePoints.length === 1 ? 'is one' : 'are none'})`
    return { seq: floor, because, heldBy: [] }
  }
  const { historyMs } = policy
  const isOldEnough =
    historyMs === 0 || at.kept.some((one) => one.createdAt < input.now - historyMs && one.seq >= floor)
  if (!isOldEnough) return { seq: floor, because: `no checkpoint is older than ${formatMs(historyMs)} yet`, heldBy: [] }
  const holders = [
    { what: `restore point ${second.id}`, seq: second.seq },
    ...at.kept
      .filter((one) => one.id !== second.id && isWhole(one, input) && one.seq >= floor)
      .map((one) => ({ what: `checkpoint ${one.id}`, seq: one.seq })),
    ...at.cursors.map((cursor) => ({ what: `cursor ${cursor.name}`, seq: cursor.seq })),
    ...at.forks.map((fork) => ({ what: `fork ${fork.timeline}`, seq: fork.floor })),
  ]
  const lowest = Math.min(...holders.map((holder) => holder.seq))
  const heldBy = holders.filter((holder) => holder.seq === lowest)
  const names = heldBy.map((holder) => holder.what).join(', ')
  if (lowest <= floor) return { seq: floor, because: `held at ${floor} by ${names}`, heldBy }
  return { seq: lowest, because: `history up to ${lowest} is not needed; later history is held by ${names}`, heldBy }
}

function whyDropped(one: RetentionCandidate, input: RetentionInput, proven: readonly RetentionCandidate[]): string {
  if (one.invalid !== null) return `invalid: ${one.invalid}`
  if (one.seq > input.head.seq) return `it claims sequence ${one.seq}, history ends at ${input.head.seq}`
  if (one.foldVersion !== input.foldVersion)
    return `of fold version ${one.foldVersion}, the code has ${input.foldVersion}`
  if (one.verifiedAt === null) return 'never verified, and older than two restore points'
  if (one.seq < input.head.floor) return `history after it was trimmed up to ${input.head.floor}`
  if (proven.some((other) => other.id !== one.id && other.seq === one.seq))
    return `another one holds sequence ${one.seq}`
  return 'older than the policy keeps'
}

function isWhole(one: RetentionCandidate, input: RetentionInput): boolean {
  return one.invalid === null && one.seq <= input.head.seq
}

/** One checkpoint per sequence: two of the same state share their chunks, and therefore their damage. */
function distinct(newest: readonly RetentionCandidate[]): RetentionCandidate[] {
  return newest.filter((one, index) => one.seq !== newest[index - 1]?.seq)
}
