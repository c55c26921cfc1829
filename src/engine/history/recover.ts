// Executes recovery: the core plans which checkpoints to try and what to replay; this file does it, checks every
// digest, falls back, and returns a report. A damaged checkpoint never stops recovery while an older one plus history
// survives (A1.3); it is reported to the caller, who owns the timeline and may mark it.

import { equalBytes } from '../../core/coordinate.ts'
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
import { Loading } from '../snapshot/loading.ts'
import { mismatch, readManifest } from '../snapshot/read-manifest.ts'
import { liveChunks, restoreState } from '../snapshot/restore.ts'
import { notesItsFolder } from '../storage/chunk-place.ts'
import type { Kernel } from '../storage/kernel.ts'
import { entriesOf, floorOf, lineageOf, type Point, reachOf, readHistory } from './history.ts'
import { reasonOf } from './retry-with-fresh-head.ts'
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
  /** Refuse a state that is invalid at the end, because it will be worked on. Tools accept any state. */
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

async function recoverAll<State>(
  kernel: Kernel,
  head: Head,
  fold: Fold<State>,
  options: RecoverOptions,
): Promise<Recovered<State>> {
  const lineage = await lineageOf(kernel, head)
  const floor = floorOf(lineage)
  try {
    return await recoverFrom(kernel, head, fold, options, lineage, floor)
  } catch (error) {
    if (floor.seq === 0 || !(error instanceof RepriseError)) throw error
    const reach = await reachOf(kernel, lineage)
    if (reach.seq >= floor.seq) throw error
    return await recoverFrom(kernel, head, fold, options, lineage, reach)
  }
}

async function recoverFrom<State>(
  kernel: Kernel,
  head: Head,
  fold: Fold<State>,
  options: RecoverOptions,
  lineage: readonly Head[],
  floor: Point,
): Promise<Recovered<State>> {
  const { clock } = kernel
  const started = clock.elapsed()
  const loading = new Loading(kernel, head.timeline)
  const to = options.to ?? head.seq
  const catalog = (await kernel.store.checkpoints(head.timeline)).filter(
    (record) => !options.without?.has(record.id) && (options.only === undefined || record.id === options.only),
  )
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
  const plan = planFor(options.evenInvalid ? suspects : catalog, !options.evenInvalid && floor.seq === 0)
  // Checkpoints share pages: once one was found damaged, the others are read completely.
  let isPaged =
    options.isPaged === true &&
    fold.paged !== undefined &&
    !fold.valid &&
    catalog.every(({ invalid }) => invalid === null)
  const planned = clock.elapsed()
  const skipped: { id: string; seq: number; why: string }[] = plan.skipped.map(({ manifest, why, detail }) => ({
    id: manifest.id,
    seq: manifest.seq,
    why: `${why}: ${detail}`,
  }))
  const damaged: { record: ManifestRecord; reason: string }[] = []
  let unread: RepriseError | null = null
  const setAside = (record: ManifestRecord, error: RepriseError) => {
    const { message } = error
    isPaged = false
    skipped.push({ id: record.id, seq: record.seq, why: message })
    unread ??= isDamage(error) ? null : error
    if (!isDamage(error) || wasInvalid.has(record.id)) return
    damaged.push({ record, reason: message })
    kernel.events.emit('checkpoint-damaged', { timeline: head.timeline, id: record.id, reason: message })
  }
  const wasInvalid = new Set(suspects.map((record) => record.id))
  const again = options.evenInvalid ? [] : planFor(suspects, false).attempts
  for (const attempt of [...plan.attempts, ...again]) {
    if (options.only !== undefined && attempt.kind === 'origin') continue
    const record = attempt.kind === 'checkpoint' ? catalog.find(({ id }) => id === attempt.manifest.id)! : null
    const began = clock.elapsed()
    const migrate = record && record.foldVersion !== fold.version ? fold.migrations?.[record.foldVersion] : undefined
    const restored = record ? await tryRestore(kernel, lineage, record, isPaged && !migrate, loading) : null
    if (restored instanceof RepriseError) {
      setAside(record!, restored)
      continue
    }
    const restoredAt = clock.elapsed()
    const state = new TimelineState(
      fold,
      restored && migrate ? migrated(kernel, head, record!, fold, restored.parts) : restored?.parts,
      guards(kernel, fold),
    )
    const why = record && invalidityOf(kernel, fold, state.value, head.timeline)
    if (record && why) {
      setAside(
        record,
        invalidState({ timeline: head.timeline, seq: record.seq }, why, 'the captured state is not valid'),
      )
      continue
    }
    if (record) await fold.restored?.(state.value, new Yielder(clock))
    const from = record ? { seq: record.seq, digest: record.digest } : floor
    const end = fold.authority === 'state' ? from.seq : to
    const replayed = await replay(kernel, lineage, state, from, end, loading)
    if (replayed instanceof RepriseError) {
      setAside(record!, replayed)
      continue
    }
    const { point, entries } = replayed
    // Before its first entry, a timeline has its initial state.
    if (options.mustBeValid && point.seq > 0) {
      const reason = invalidityOf(kernel, fold, state.value, head.timeline)
      if (reason !== null)
        throw invalidState({ ...head, seq: point.seq }, reason, 'its history folds into a state that is not valid')
    }
    const done = clock.elapsed()
    loading.end()
    return {
      state,
      point,
      lineage,
      // A migrated state differs from the stored one: the next checkpoint is full.
      base: restored && record && !migrate ? { id: record.id, capture: restored.base } : null,
      damaged,
      cleared: record && wasInvalid.has(record.id) ? record : null,
      replayMsPerEntry: entries > 0 ? (done - restoredAt) / entries : 0,
      restored: record && { bytes: record.totalBytes, at: record.createdAt },
      report: {
        timeline: head.timeline,
        seq: point.seq,
        epoch: head.epoch,
        checkpoint: record ? { id: record.id, seq: record.seq } : null,
        skipped,
        entriesReplayed: entries,
        bytesRead: restored?.bytesRead ?? 0,
        healed: restored?.healed ?? 0,
        entriesLost: fold.authority === 'state' && !fold.rereads ? to - from.seq : 0,
        planMs: planned - started,
        restoreMs: restoredAt - began,
        replayMs: done - restoredAt,
        totalMs: done - started,
      },
    }
  }
  throw unread ?? migrationMissing(head, fold, plan) ?? unrecoverable(head, plan, skipped)
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

async function tryRestore(
  kernel: Kernel,
  lineage: readonly Head[],
  record: ManifestRecord,
  isPaged: boolean,
  loading: Loading,
): Promise<{ parts: CapturedParts; base: CaptureBase; bytesRead: number; healed: number } | RepriseError> {
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

export const chunkless =
  'cannot tell: there is no chunk in this store at all; name the folder in which they lie (blobs)'

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
 * the run with the checkpoint's own sequence, so damage in it is no reason to refuse the checkpoint.
 */
async function checkBranch(kernel: Kernel, lineage: readonly Head[], record: ManifestRecord): Promise<void> {
  const head = lineage.find((each) => !each.base || record.seq > each.base.seq) ?? lineage[lineage.length - 1]!
  const known =
    record.seq === head.seq
      ? head.digest
      : record.seq === head.floor
        ? head.floorDigest
        : (await kernel.store.read(head.timeline, record.seq - 1, 1)).find((run) => lastSeq(run) === record.seq)?.digest
  if (known && !equalBytes(known, record.digest)) throw mismatch(record, 'lies on another branch')
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
  const breath = new Yielder(kernel.clock)
  const history = readHistory(kernel, lineage, from, to)
  for (let step = await history.next(); !step.done; step = await history.next()) {
    if (breath.isDue) await breath.take()
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
