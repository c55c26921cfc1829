// Executes recovery: the core plans which checkpoints to try and what to replay; this file does it, checks every
// digest, falls back, and returns a report. A damaged checkpoint never stops recovery while an older one plus history
// survives (A1.3); it is reported to the caller, who owns the timeline and may mark it.

import { equalBytes, type TimelineId } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { lastSeq } from '../../core/history/entry-run.ts'
import { planRecovery, type RecoveryPlan } from '../../core/history/recovery.ts'
import { isBadMark } from '../../core/history/validity.ts'
import type { Head, ManifestRecord } from '../../core/store/ports.ts'
import { callPure } from '../base/guard/zone.ts'
import type { RecoveryReport } from '../base/recovery-report.ts'
import { Yielder } from '../base/yielder.ts'
import type { Fold } from '../model/definition.ts'
import type { CaptureBase } from '../snapshot/capture.ts'
import { stateIo } from '../snapshot/kernel-io.ts'
import { Loading } from '../snapshot/load-progress.ts'
import { mismatch, readManifest } from '../snapshot/read-manifest.ts'
import { liveChunks, restoreState } from '../snapshot/restore.ts'
import { notesItsFolder } from '../storage/chunk-place.ts'
import type { Kernel } from '../storage/kernel.ts'
import { entriesOf, floorOf, lineageOf, type Point, reachOf, readHistory } from './history.ts'
import { existing } from './locate.ts'
import { reasonOf, retryWithFreshHead } from './retry-with-fresh-head.ts'
import { type CapturedParts, guards, migrateParts, TimelineState } from './state.ts'
import { invalidityOf, invalidState } from './validity.ts'

export { readManifest } from '../snapshot/read-manifest.ts'

export interface Recovered<State> {
  readonly state: TimelineState<State>
  readonly point: Point
  readonly lineage: readonly Head[]
  /** The restored checkpoint, as the base of the next incremental one. */
  readonly base: { readonly id: string; readonly capture: CaptureBase } | null
  readonly damaged: readonly { readonly record: ManifestRecord; readonly reason: string }[]
  /** Marked invalid earlier but intact: the mark can be removed. */
  readonly cleared?: ManifestRecord | null
  readonly report: RecoveryReport
  readonly replayMsPerEntry: number
  /** The restored checkpoint's stored size, and its creation time by the store's clock. */
  readonly restored?: { readonly bytes: number; readonly at: number } | null
}

export interface RecoverOptions {
  readonly to?: number
  readonly without?: ReadonlySet<string>
  readonly only?: string
  /** Also try checkpoints that were marked because they could not be read. */
  readonly evenInvalid?: boolean
  /** For a paged fold: read pages on demand; a damaged page is found then. */
  readonly isPaged?: boolean
  /** Refuse a state that is invalid at the end, because the caller will write to it. Tools accept any state. */
  readonly mustBeValid?: boolean
}

/**
 * State as of sequence `to` (default: the head), from the newest usable checkpoint plus history. Writes nothing. If the
 * store has neither, history is read from a colder tier.
 */
export async function recover<State>(
  kernel: Kernel,
  head: Head,
  fold: Fold<State>,
  options: RecoverOptions = {},
): Promise<Recovered<State>> {
  try {
    return await recoverAll(kernel, head, fold, options)
  } catch (error) {
    throw await reasonOf(kernel, head, error)
  }
}

/** The state at a point of the history that this process has followed, for a state that was changed in place and not written. */
export async function rebuild<State>(
  kernel: Kernel,
  timeline: TimelineId,
  fold: Fold<State>,
  { seq, digest }: Point,
): Promise<TimelineState<State>> {
  if (seq === 0) return new TimelineState(fold, undefined, guards(kernel, fold))
  return await retryWithFreshHead(async () => {
    const { state, point } = await recover(kernel, await existing(kernel, timeline), fold, { to: seq, isPaged: true })
    if (point.seq === seq && equalBytes(point.digest, digest)) return state
    throw new RepriseError('CONFLICT', `${timeline} no longer has the entry at ${seq}`, { timeline, seq })
  })
}

async function recoverAll<State>(
  kernel: Kernel,
  head: Head,
  fold: Fold<State>,
  options: RecoverOptions,
): Promise<Recovered<State>> {
  const lineage = await lineageOf(kernel, head)
  const floor = floorOf(lineage)
  const request = { kernel, head, fold, options, lineage, floor, to: options.to ?? head.seq }
  try {
    return await recoverFrom(request)
  } catch (error) {
    if (floor.seq === 0 || !(error instanceof RepriseError)) throw error
    const reach = await reachOf(kernel, lineage)
    if (reach.seq >= floor.seq) throw error
    return await recoverFrom({ ...request, floor: reach })
  }
}

interface RecoveryRequest<State> {
  readonly kernel: Kernel
  readonly head: Head
  readonly fold: Fold<State>
  readonly options: RecoverOptions
  readonly lineage: readonly Head[]
  /** History above it can be read. */
  readonly floor: Point
  readonly to: number
}

/** Plans, tries one checkpoint after the other, and reports on the first that works. */
async function recoverFrom<State>(request: RecoveryRequest<State>): Promise<Recovered<State>> {
  const { kernel, head, fold, lineage } = request
  const { clock, events } = kernel
  const started = clock.elapsed()
  const loading = new Loading(kernel, head.timeline)
  const plan = planOf(request, await kernel.store.checkpoints(head.timeline))
  const planned = clock.elapsed()
  const skipped = [...plan.skipped]
  const damaged: { record: ManifestRecord; reason: string }[] = []
  let unread: RepriseError | null = null
  // Checkpoints share pages: once one was refused, the others are read completely.
  let { isPaged } = plan
  for (const record of plan.attempts) {
    const attempt = await tryFrom(request, record, isPaged, loading)
    if (!(attempt instanceof RepriseError)) {
      const report = reportOf(request, record, attempt, { skipped, started, planned, ended: clock.elapsed() })
      loading.end()
      const cleared = record && plan.wereInvalid.has(record.id) ? record : null
      return { ...recoveredOf(record, attempt, report), lineage, damaged, cleared }
    }
    isPaged = false
    skipped.push({ id: record!.id, seq: record!.seq, why: attempt.message })
    unread ??= isDamage(attempt) ? null : attempt
    if (!isDamage(attempt) || plan.wereInvalid.has(record!.id)) continue
    damaged.push({ record: record!, reason: attempt.message })
    events.emit('checkpoint-damaged', { timeline: head.timeline, id: record!.id, reason: attempt.message })
  }
  throw unread ?? migrationMissing(head, fold, plan.recovery) ?? unrecoverable(head, plan.recovery, skipped)
}

interface Plan {
  /** In the order to try them. Null: from the origin of history. */
  readonly attempts: readonly (ManifestRecord | null)[]
  readonly skipped: RecoveryReport['skipped']
  /** Checkpoints that were marked but may still be intact. */
  readonly wereInvalid: ReadonlySet<string>
  /** Pages may be read later. */
  readonly isPaged: boolean
  readonly recovery: RecoveryPlan<ManifestRecord>
}

/** Pure: the catalog and the request decide. */
function planOf<State>(request: RecoveryRequest<State>, all: readonly ManifestRecord[]): Plan {
  const { head, fold, options, floor, to } = request
  const { without, only, evenInvalid = false } = options
  const catalog = all.filter(({ id }) => !without?.has(id) && (only === undefined || id === only))
  const planFor = (candidates: readonly ManifestRecord[], reachesOrigin: boolean) =>
    planRecovery({
      head: { seq: head.seq, floor: floor.seq },
      reachesOrigin,
      catalog: candidates,
      foldVersion: fold.version,
      migratable: fold.migrations && new Set(Object.keys(fold.migrations)),
      to,
      authority: fold.authority ?? 'history',
    })
  // A mark may be wrong: its writer may not have had access to the chunks. Marked checkpoints are read again as a last
  // resort.
  const suspects = catalog.filter(mayBeSound).map((record) => ({ ...record, invalid: null }))
  const recovery = planFor(evenInvalid ? suspects : catalog, !evenInvalid && floor.seq === 0)
  const again = evenInvalid ? [] : planFor(suspects, false).attempts
  const attempts = [...recovery.attempts, ...again].flatMap((attempt) => {
    if (attempt.kind === 'origin') return only === undefined ? [null] : []
    return [catalog.find(({ id }) => id === attempt.manifest.id)!]
  })
  const areSound = catalog.every(({ invalid }) => invalid === null)
  return {
    attempts,
    skipped: recovery.skipped.map(({ manifest: { id, seq }, why, detail }) => ({ id, seq, why: `${why}: ${detail}` })),
    wereInvalid: new Set(suspects.map(({ id }) => id)),
    isPaged: options.isPaged === true && fold.paged !== undefined && !fold.valid && areSound,
    recovery,
  }
}

interface Attempt<State> {
  readonly state: TimelineState<State>
  readonly restored: Restored | null
  readonly isMigrated: boolean
  readonly from: Point
  readonly point: Point
  readonly entries: number
  readonly beganAt: number
  readonly restoredAt: number
}

/** Restores and replays. A returned error refuses this checkpoint; a thrown one ends the recovery. */
async function tryFrom<State>(
  request: RecoveryRequest<State>,
  record: ManifestRecord | null,
  isPaged: boolean,
  loading: Loading,
): Promise<Attempt<State> | RepriseError> {
  const { kernel, head, fold, options, lineage, floor, to } = request
  const { clock } = kernel
  const { timeline } = head
  const beganAt = clock.elapsed()
  const isMigrated =
    record !== null && fold.migrations?.[record.foldVersion] !== undefined && record.foldVersion !== fold.version
  const restored = record ? await tryRestore(kernel, lineage, record, isPaged && !isMigrated, loading) : null
  if (restored instanceof RepriseError) return restored
  const restoredAt = clock.elapsed()
  const parts = restored && isMigrated ? migrated(kernel, head, record, fold, restored.parts) : restored?.parts
  const state = new TimelineState(fold, parts, guards(kernel, fold))
  if (record) {
    const why = invalidityOf(kernel, fold, state.value, timeline)
    if (why) return invalidState({ timeline, seq: record.seq }, why, 'the captured state is not valid')
    await fold.restored?.(state.value, new Yielder(clock))
  }
  const from = record ? { seq: record.seq, digest: record.digest } : floor
  const replayed = await replay(kernel, lineage, state, from, fold.authority === 'state' ? from.seq : to, loading)
  if (replayed instanceof RepriseError) return replayed
  const { seq } = replayed.point
  // Before its first entry, a timeline has its initial state.
  const why = options.mustBeValid && seq > 0 ? invalidityOf(kernel, fold, state.value, timeline) : null
  if (why !== null) throw invalidState({ ...head, seq }, why, 'its history folds into an invalid state')
  return { state, restored, isMigrated, from, ...replayed, beganAt, restoredAt }
}

function reportOf<State>(
  { head, fold, to }: RecoveryRequest<State>,
  record: ManifestRecord | null,
  { restored, from, point, entries, beganAt, restoredAt }: Attempt<State>,
  at: Pick<RecoveryReport, 'skipped'> & Readonly<Record<'started' | 'planned' | 'ended', number>>,
): RecoveryReport {
  return {
    timeline: head.timeline,
    seq: point.seq,
    epoch: head.epoch,
    checkpoint: record && { id: record.id, seq: record.seq },
    skipped: at.skipped,
    entriesReplayed: entries,
    bytesRead: restored?.bytesRead ?? 0,
    healed: restored?.healed ?? 0,
    entriesLost: fold.authority === 'state' && !fold.rereads ? to - from.seq : 0,
    planMs: at.planned - at.started,
    restoreMs: restoredAt - beganAt,
    replayMs: at.ended - restoredAt,
    totalMs: at.ended - at.started,
  }
}

function recoveredOf<State>(
  record: ManifestRecord | null,
  { state, point, restored, isMigrated }: Attempt<State>,
  report: RecoveryReport,
): Pick<Recovered<State>, 'state' | 'point' | 'base' | 'restored' | 'replayMsPerEntry' | 'report'> {
  const { entriesReplayed, replayMs } = report
  return {
    state,
    point,
    // A migrated state differs from the stored one: the next checkpoint is full.
    base: restored && record && !isMigrated ? { id: record.id, capture: restored.base } : null,
    restored: record && { bytes: record.totalBytes, at: record.createdAt },
    replayMsPerEntry: entriesReplayed > 0 ? replayMs / entriesReplayed : 0,
    report,
  }
}

/** True if it was marked because it could not be read, not because its content contradicts history. */
export function mayBeSound({ invalid }: ManifestRecord): boolean {
  return invalid !== null && !isBadMark(invalid) && /\[[A-Z_]+\]/.test(invalid)
}

/** An error in a migration is the code's fault and not the checkpoint's. */
function migrated<State>(
  kernel: Kernel,
  head: Head,
  { foldVersion }: ManifestRecord,
  fold: Fold<State>,
  parts: CapturedParts,
): CapturedParts {
  try {
    const what = `the migration of ${head.timeline} from state ${foldVersion}`
    return callPure(kernel.guardsFolds(), what, () => migrateParts(parts, fold.migrations![foldVersion]!))
  } catch (error) {
    if (isReprise(error, 'NON_DETERMINISTIC')) throw error
    const reason = error instanceof Error ? error.message : String(error)
    const what = `${head.timeline}: the migration of state ${foldVersion} to ${fold.version} threw: ${reason}`
    throw new RepriseError('FOLD_FAILED', what, { timeline: head.timeline, from: foldVersion, to: fold.version }, error)
  }
}

interface Restored {
  readonly parts: CapturedParts
  readonly base: CaptureBase
  readonly bytesRead: number
  readonly healed: number
}

async function tryRestore(
  kernel: Kernel,
  lineage: readonly Head[],
  record: ManifestRecord,
  isPaged: boolean,
  loading: Loading,
): Promise<Restored | RepriseError> {
  try {
    const manifest = readManifest(kernel, record)
    await checkBranch(kernel, lineage, record)
    const isLeft = (part: string | null) => isPaged && part?.startsWith('value.') === true
    const { state, ...restored } = await restoreState(
      manifest,
      loading.watching(stateIo(kernel), record.totalBytes),
      isLeft,
    )
    return { parts: state as CapturedParts, ...restored }
  } catch (error) {
    if (isDamage(error) || isReprise(error, ...beyondThis)) return error
    throw error
  }
}

/** Errors that prove that the stored bytes are wrong. Any other error concerns this process, and is never marked. */
export function isDamage(error: unknown): error is RepriseError {
  return isReprise(error, 'CHUNK_MISSING', 'CHUNK_DAMAGED', 'CHECKPOINT_DAMAGED', 'MALFORMED')
}

/** This process cannot read the checkpoint, though it may be intact: an older checkpoint may work. */
const beyondThis = ['LIMIT_EXCEEDED', 'INCOMPATIBLE_VERSION'] as const

/** Errors of a tool that lacks keys, classes, limits, migrations or the folder of the chunks: it cannot verify. */
export function cannotTell(error: unknown): boolean {
  const lacking = [
    'KEY_MISSING',
    'UNKNOWN_CODEC',
    'STORE_UNSUPPORTED',
    'CHUNKS_ELSEWHERE',
    'MIGRATION_MISSING',
  ] as const
  return isReprise(error, ...beyondThis, ...lacking)
}

export const chunkless = 'unknown: this store contains no chunks; name their folder (blobs)'

/**
 * A chunk is missing in a store without any chunks: they may be in a folder that was not passed, in a store from before
 * such folders were recorded. Then the checkpoint must not be marked.
 */
export async function isChunkless(kernel: Kernel, record: ManifestRecord): Promise<boolean> {
  if ((await kernel.store.blobs.list(null, 1)).length > 0) return false
  // A store with a recorded folder was opened with it: missing chunks are lost.
  if (await notesItsFolder(kernel.store)) return false
  try {
    return (await liveChunks(readManifest(kernel, record), stateIo(kernel))).length > 0
  } catch (error) {
    return isReprise(error, 'CHUNK_MISSING')
  }
}

/**
 * A checkpoint of another branch must not be restored here. Only stored digests are compared: recovery does not need
 * the run with the checkpoint's own sequence, so damage in it does not invalidate the checkpoint.
 */
async function checkBranch(kernel: Kernel, lineage: readonly Head[], record: ManifestRecord): Promise<void> {
  const head = lineage.find((each) => !each.base || record.seq > each.base.seq) ?? lineage[lineage.length - 1]!
  const known =
    record.seq === head.seq
      ? head.digest
      : record.seq === head.floor
        ? head.floorDigest
        : (await kernel.store.read(head.timeline, record.seq - 1, 1)).find((run) => lastSeq(run) === record.seq)?.digest
  if (known && !equalBytes(known, record.digest)) throw mismatch(record, 'is on another branch')
}

/** A returned error is damage in a page of the checkpoint that these entries touch. */
async function replay<State>(
  kernel: Kernel,
  lineage: readonly Head[],
  state: TimelineState<State>,
  from: Point,
  to: number,
  loading: Loading,
): Promise<{ point: Point; entries: number } | RepriseError> {
  let point = from
  let count = 0
  const yielder = new Yielder(kernel.clock)
  const history = readHistory(kernel, lineage, from, to)
  for (let step = await history.next(); !step.done; step = await history.next()) {
    if (yielder.isDue) await yielder.take()
    const entries = entriesOf(kernel, step.value)
    const fetching = state.fetch(entries)
    const damage = fetching && (await fetching.then(() => null, damageOf))
    if (damage) return damage
    state.replay(entries)
    count += entries.length
    loading.at('replay', count, to - from.seq)
    point = { seq: step.value.run.first + step.value.run.count - 1, digest: step.value.run.digest }
  }
  return { point, entries: count }
}

/** For page reads: returns damage, and throws any other error. */
export function damageOf(error: unknown): RepriseError {
  if (isDamage(error) || isReprise(error, ...beyondThis)) return error
  throw error
}

type Versioned = Pick<Fold<unknown>, 'version' | 'migrationFor'>

/** Null: no migration is missing. */
function migrationMissing(head: Head, fold: Versioned, plan: RecoveryPlan<ManifestRecord>): RepriseError | null {
  const other = plan.attempts.length === 0 ? plan.skipped.find(({ why }) => why === 'other fold version') : undefined
  return other ? missingMigration(head, other.manifest, fold) : null
}

/** There is state, but of another version than this code has, and nothing to rebuild it from. */
export function missingMigration(
  { timeline }: Pick<Head, 'timeline'>,
  { seq, foldVersion }: Pick<ManifestRecord, 'seq' | 'foldVersion'>,
  fold: Versioned,
): RepriseError {
  const wanted = fold.migrationFor?.(foldVersion) ?? `migrations: { ${JSON.stringify(foldVersion)}: (old) => … }`
  const what = `${timeline}: its state at ${seq} is of version ${foldVersion}, this code is of version ${fold.version}`
  return new RepriseError(
    'MIGRATION_MISSING',
    `${what}, and there is no history to rebuild it from. Missing: ${wanted}`,
    { timeline, seq, from: foldVersion, to: fold.version },
  )
}

function unrecoverable(
  head: Head,
  plan: RecoveryPlan<ManifestRecord>,
  skipped: readonly { id: string; why: string }[],
): RepriseError {
  return new RepriseError('UNRECOVERABLE', `${head.timeline} cannot be recovered: ${plan.missing ?? plan.ifAllFail}`, {
    timeline: head.timeline,
    seq: head.seq,
    floor: head.floor,
    skipped,
  })
}
