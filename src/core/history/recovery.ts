// The recovery plan: which checkpoints to try and in which order, which entries to replay after each, the expected cost,
// and the missing parts. It decides from the catalog and the head alone; the engine carries it out and checks every digest.
//
// Newest first, then older ones, then the origin if history reaches it. A checkpoint at sequence s needs history
// s+1 … target, so it is usable only at or above the floor, or at the target itself.

import type { ManifestId } from '../coordinate.ts'
import { RepriseError } from '../errors.ts'
import type { ManifestRecord } from '../store/ports.ts'

/** The fields of a catalog record that the plan reads. */
export type Candidate = Pick<
  ManifestRecord,
  'id' | 'seq' | 'foldVersion' | 'invalid' | 'verifiedAt' | 'createdAt' | 'totalBytes'
>

/** 'history': the log is the truth and checkpoints are caches. 'state': the checkpoint is the truth, nothing is replayed. */
export type Authority = 'history' | 'state'

export interface RecoveryCosts {
  readonly replayEntriesPerMs: number
  readonly restoreBytesPerMs: number
}

export interface RecoveryInput<M extends Candidate> {
  readonly head: { readonly seq: number; readonly floor: number }
  readonly catalog: readonly M[]
  /** Other fold versions whose state can be migrated to this one. */
  readonly migratable?: ReadonlySet<string> | undefined
  readonly foldVersion: string
  /** State as of this sequence. Default: the head. */
  readonly to?: number
  readonly authority: Authority
  /** All history from sequence 1 on can be read (in a fork: through its parents). Default: whether the floor is 0. */
  readonly reachesOrigin?: boolean
  readonly costs?: RecoveryCosts
}

export type SkipReason =
  | 'invalid'
  | 'other fold version'
  | 'beyond the target'
  | 'beyond the head'
  | 'history after it was trimmed'
  | 'a newer one has another fold version'

export interface Skipped<M> {
  readonly manifest: M
  readonly why: SkipReason
  readonly detail: string
}

export type Attempt<M> = ({ readonly kind: 'checkpoint'; readonly manifest: M } | { readonly kind: 'origin' }) & {
  /** Entries to apply, both ends inclusive; null when there is nothing to replay. */
  readonly replay: { readonly from: number; readonly to: number } | null
  readonly replayEntries: number
  /** Sequences that this attempt cannot restore: 0 unless state is the authority. */
  readonly lost: number
  /** Null while no costs are measured. */
  readonly expectedMs: number | null
}

export interface RecoveryPlan<M> {
  readonly target: number
  readonly attempts: readonly Attempt<M>[]
  readonly skipped: readonly Skipped<M>[]
  /** Describes the missing part if there is no attempt; else null. */
  readonly missing: string | null
  /** The message if every attempt fails. */
  readonly ifAllFail: string
}

/** @example planRecovery({ head, catalog, foldVersion: '2', authority: 'history' }).attempts[0] */
export function planRecovery<M extends Candidate>(input: RecoveryInput<M>): RecoveryPlan<M> {
  const target = targetOf(input)
  const usable: M[] = []
  const skipped: Skipped<M>[] = []
  for (const manifest of [...input.catalog].sort(newestFirst)) {
    const skip = skipReason(input, target, manifest, skipped)
    if (skip === null) usable.push(manifest)
    else skipped.push({ manifest, ...skip })
  }
  const attempts = usable.map((manifest) => fromCheckpoint(input, target, manifest))
  if (isOriginUsable(input, target)) attempts.push(fromOrigin(input, target))
  return {
    target,
    attempts,
    skipped,
    missing: attempts.length > 0 ? null : describeMissing(input, target, skipped),
    ifAllFail: describeFailure(input, target, usable, skipped),
  }
}

function targetOf(input: RecoveryInput<Candidate>): number {
  const { head, to = head.seq } = input
  if (!Number.isSafeInteger(to) || to < 0 || to > head.seq) {
    throw new RepriseError('OUT_OF_RANGE', `sequence ${to} is not between 0 and the head at ${head.seq}`, {
      seq: to,
      head: head.seq,
      floor: head.floor,
    })
  }
  return to
}

function skipReason<M extends Candidate>(
  input: RecoveryInput<M>,
  target: number,
  manifest: M,
  skipped: readonly Skipped<M>[],
): { why: SkipReason; detail: string } | null {
  const { head, foldVersion, authority } = input
  const { seq } = manifest
  if (seq > head.seq) return { why: 'beyond the head', detail: `it reflects ${seq}, but history ends at ${head.seq}` }
  if (seq > target) return { why: 'beyond the target', detail: `it reflects ${seq}, not ${target}` }
  if (manifest.invalid !== null) return { why: 'invalid', detail: manifest.invalid }
  if (manifest.foldVersion !== foldVersion && !input.migratable?.has(manifest.foldVersion)) {
    return {
      why: 'other fold version',
      detail: `written by version ${manifest.foldVersion}, but this code is version ${foldVersion}`,
    }
  }
  if (authority === 'state') return skipOlderState(skipped)
  if (seq < historyFloor(input) && seq !== target) {
    return { why: 'history after it was trimmed', detail: `${seq + 1}..${head.floor} was trimmed` }
  }
  return null
}

/** If state is the authority, skipping an intact but unreadable newer checkpoint would silently lose work: refuse instead. */
function skipOlderState(skipped: readonly Skipped<Candidate>[]): { why: SkipReason; detail: string } | null {
  const newer = skipped.find((skip) => skip.why === 'other fold version')
  if (newer === undefined) return null
  const { seq, foldVersion } = newer.manifest
  return {
    why: 'a newer one has another fold version',
    detail: `the one at ${seq} is intact, written by version ${foldVersion}; an older one would lose its data`,
  }
}

function fromCheckpoint<M extends Candidate>(input: RecoveryInput<M>, target: number, manifest: M): Attempt<M> {
  const after = target - manifest.seq
  const isReplayed = input.authority === 'history'
  return {
    kind: 'checkpoint',
    manifest,
    ...replayOf(manifest.seq, isReplayed ? target : manifest.seq),
    lost: isReplayed ? 0 : after,
    expectedMs: expectedMs(input.costs, manifest.totalBytes, isReplayed ? after : 0),
  }
}

function fromOrigin(input: RecoveryInput<Candidate>, target: number): Attempt<never> {
  return { kind: 'origin', ...replayOf(0, target), lost: 0, expectedMs: expectedMs(input.costs, 0, target) }
}

function replayOf(after: number, to: number): Pick<Attempt<never>, 'replay' | 'replayEntries'> {
  return { replay: to > after ? { from: after + 1, to } : null, replayEntries: to - after }
}

function expectedMs(costs: RecoveryCosts | undefined, bytes: number, entries: number): number | null {
  return costs === undefined ? null : bytes / costs.restoreBytesPerMs + entries / costs.replayEntriesPerMs
}

/** The state at 0 is the initial state and needs no history. */
function isOriginUsable(input: RecoveryInput<Candidate>, target: number): boolean {
  const reachesOrigin = input.reachesOrigin ?? input.head.floor === 0
  return target === 0 || (input.authority === 'history' && reachesOrigin)
}

function historyFloor(input: RecoveryInput<Candidate>): number {
  return input.reachesOrigin === true ? 0 : input.head.floor
}

function describeMissing(
  input: RecoveryInput<Candidate>,
  target: number,
  skipped: readonly Skipped<Candidate>[],
): string {
  const { head, foldVersion, authority } = input
  const tally = describeSkipped(skipped)
  if (authority === 'state') return `no valid checkpoint of fold version ${foldVersion} up to ${target}${tally}`
  const place =
    target < head.floor
      ? `at ${target} itself`
      : head.floor === target
        ? `at ${target}`
        : `between ${head.floor} and ${target}`
  return `history 1..${head.floor} was trimmed and there is no valid checkpoint of fold version ${foldVersion} ${place}${tally}`
}

function describeFailure(
  input: RecoveryInput<Candidate>,
  target: number,
  usable: readonly Candidate[],
  skipped: readonly Skipped<Candidate>[],
): string {
  if (usable.length === 0 && !isOriginUsable(input, target)) return describeMissing(input, target, skipped)
  const tried =
    usable.length === 0 ? '' : `every checkpoint failed (at ${usable.map((one) => one.seq).join(', ')}) and `
  if (isOriginUsable(input, target)) return `${tried}history 1..${target} could not be replayed from the origin`
  if (input.authority === 'state') return `${tried}there is no history to replay${describeSkipped(skipped)}`
  return `${tried}history 1..${input.head.floor} was trimmed${describeSkipped(skipped)}`
}

/** "; in the catalog: 900 (invalid), 800 (other fold version)", at most five of them. */
function describeSkipped(skipped: readonly Skipped<Candidate>[]): string {
  if (skipped.length === 0) return ''
  const shown = skipped.slice(0, 5).map(({ manifest, why }) => `${manifest.seq} (${why})`)
  return `; not usable: ${shown.join(', ')}${skipped.length > 5 ? ` and ${skipped.length - 5} more` : ''}`
}

/** At equal sequences, verified ones first, then younger ones; ids make the order total. */
export function newestFirst(
  a: Pick<Candidate, 'seq' | 'verifiedAt' | 'createdAt'> & { readonly id: ManifestId },
  b: Pick<Candidate, 'seq' | 'verifiedAt' | 'createdAt'> & { readonly id: ManifestId },
): number {
  return (
    b.seq - a.seq ||
    Number(b.verifiedAt !== null) - Number(a.verifiedAt !== null) ||
    b.createdAt - a.createdAt ||
    (a.id < b.id ? 1 : a.id > b.id ? -1 : 0)
  )
}
