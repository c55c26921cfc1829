// The drill restores real checkpoints separately, replays the history after them, compares the result with another way
// to the same coordinate, and reports how long a recovery would take and what would be lost. The outcome is recorded in
// the catalog.

import { type ManifestId, toHex } from '../../../core/coordinate.ts'
import { type Duration, formatMs, toMs } from '../../../core/duration.ts'
import { isReprise, RepriseError } from '../../../core/errors.ts'
import { isBadMark } from '../../../core/history/validity.ts'
import { Keyed } from '../../../core/keyed-state/keyed.ts'
import { epochGuardOf } from '../../../core/store/commit-guard.ts'
import type { Head, ManifestMark, ManifestRecord } from '../../../core/store/ports.ts'
import { within } from '../../../lib/waiting.ts'
import { installGuard } from '../../base/guard/install.ts'
import type { RecoveryReport } from '../../base/recovery-report.ts'
import { floorOf, lineageOf } from '../../history/history.ts'
import {
  cannotTell,
  chunkless,
  isChunkless,
  mayBeSound,
  missingMigration,
  readManifest,
  recover,
} from '../../history/recover.ts'
import type { TimelineState } from '../../history/state.ts'
import { canRead, type Fold } from '../../model/definition.ts'
import { isOfStore } from '../../model/id-prefixes.ts'
import { stateIo } from '../../snapshot/kernel-io.ts'
import { verifyChunks } from '../../snapshot/restore.ts'
import { type Kernel, submit } from '../../storage/kernel.ts'
import { headsOf } from '../../storage/sound-page.ts'
import { isInCatalog } from '../verify/catalog.ts'

export interface DrillOptions {
  readonly timelines?: readonly string[]
  /** Checkpoints per timeline, newest first. Default: all usable ones. */
  readonly checkpoints?: number
  /** For `rebuild` and `check` of state that another system holds, each. Default: one minute. */
  readonly timeout?: Duration
}

interface Bounds {
  readonly most: number
  readonly timeoutMs: number
}

export interface DrillResult {
  readonly timeline: string
  readonly checkpoint: string | null
  readonly seq: number
  readonly ok: boolean
  /** This process could not read it: it neither passed nor failed, and nothing was recorded. */
  readonly isUnknown: boolean
  /** The reason of a failure, or the other side of the comparison. */
  readonly note: string
  readonly stateDigest: string | null
  readonly recoveryMs: number
  /** Chunks that were damaged or missing and were rebuilt: the restore succeeded, but the disk needs attention. */
  readonly healed: number
  readonly entriesReplayed: number
  /** Entries that a recovery from here could not restore. */
  readonly entriesLost: number
}

export interface DrillReport {
  readonly ok: boolean
  readonly results: readonly DrillResult[]
  /** Timelines whose definition is not known here: open or register one to drill them. */
  readonly unknown: readonly string[]
}

export type FoldOf = (head: Head) => Fold<unknown> | null

/** Always guards folds, regardless of the engine's options: an impure fold must be detected here. */
export async function drill(engine: Kernel, foldOf: FoldOf, options: DrillOptions = {}): Promise<DrillReport> {
  const uninstallGuard = installGuard()
  try {
    return await drillAll({ ...engine, guardsFolds: () => true }, foldOf, options)
  } finally {
    uninstallGuard()
  }
}

async function drillAll(kernel: Kernel, foldOf: FoldOf, options: DrillOptions): Promise<DrillReport> {
  const { checkpoints: most = Number.POSITIVE_INFINITY, timeout = '1m' } = options
  const bounds = { most, timeoutMs: toMs(timeout, 'timeout') }
  const results: DrillResult[] = []
  const unknown: string[] = []
  for await (const head of headsOf(kernel, options.timelines)) {
    const fold = foldOf(head)
    if (!fold) {
      if (!isOfStore(head.timeline)) unknown.push(head.timeline)
    } else results.push(...(await drillTimeline(kernel, head, fold, bounds)))
  }
  return { ok: results.every((result) => result.ok), results, unknown }
}

interface Drilled {
  readonly result: DrillResult
  /** The checkpoint itself fails to restore, or restores another state: it is marked. Damage elsewhere is not counted. */
  readonly isDamaged: boolean
  /** It had been marked, and is intact. */
  readonly isCleared?: boolean
  /** The checkpoint that carries the outcome, if it was not drilled itself. */
  readonly notedOn?: string | undefined
}

async function drillTimeline(
  kernel: Kernel,
  listed: Head,
  fold: Fold<unknown>,
  bounds: Bounds,
): Promise<DrillResult[]> {
  let head = listed
  let drilled = await drillEach(kernel, head, fold, bounds)
  if (drilled.some(({ result }) => !result.ok)) {
    // With concurrent writers the listed head becomes outdated: a failure counts only with a fresh head, too.
    const [now] = await kernel.store.head([listed.timeline])
    if (!now) return []
    head = now
    drilled = await drillEach(kernel, head, fold, bounds)
  }
  const marks = new Map<string, ManifestMark>()
  for (const { result, isDamaged, isCleared, notedOn } of drilled) {
    if (result.isUnknown) continue
    const { ok, recoveryMs: ms, note } = result
    kernel.events.emit('drilled', { timeline: head.timeline, ok, ms, note })
    const id = result.checkpoint ?? notedOn
    if (id === undefined) continue
    marks.set(id, {
      ...marks.get(id),
      id: id as ManifestId,
      drilledAt: kernel.worker.now(),
      drill: `${ok ? 'ok' : 'failed'}: ${note}`,
      ...(isDamaged && { invalid: note }),
      ...(isCleared && { invalid: null }),
    })
  }
  if (marks.size > 0) await record(kernel, head, [...marks.values()])
  return drilled.map(({ result }) => result)
}

async function drillEach(
  kernel: Kernel,
  head: Head,
  fold: Fold<unknown>,
  { most, timeoutMs }: Bounds,
): Promise<Drilled[]> {
  const catalog = (await kernel.store.checkpoints(head.timeline)).filter((record) => record.seq <= head.seq)
  // A checkpoint that a person marked is skipped: a drill would not change that.
  const records = catalog
    .filter((record) => canRead(fold, record.foldVersion) && !isBadMark(record.invalid))
    .slice(0, most)
  const reference = await referenceDigest(kernel, head, fold)
  const drilled: Drilled[] = []
  let other: { readonly digest: string; readonly of: string } | null =
    reference && !(reference instanceof RepriseError) ? { digest: reference.digest, of: 'full replay' } : null
  for (const record of records) {
    const one = await drillCheckpoint(kernel, head, fold, record, other)
    // Retention may remove it meanwhile: a removed checkpoint neither passes nor fails.
    if (!one.result.ok && !(await isInCatalog(kernel, record, head))) continue
    // If history does not reach the origin, checkpoints are compared with each other; with authority "state", with
    // nothing.
    if (one.result.ok && fold.authority !== 'state' && record.foldVersion === fold.version) {
      other ??= { digest: one.result.stateDigest!, of: `checkpoint ${record.id}` }
    }
    drilled.push(one)
  }
  if (reference instanceof RepriseError) {
    const result = resultOf(head, null, null, false, `full replay failed: ${reference.message}`, null)
    drilled.push({ result: { ...result, isUnknown: cannotTell(reference) }, isDamaged: false })
  } else if (records.length === 0 && reference) {
    const { report, digest } = reference
    const result = resultOf(head, null, report, true, 'no checkpoint: recovered from all history', digest)
    drilled.push({ result, isDamaged: false })
  } else if (records.length === 0 && catalog.length > 0) {
    // The only remaining state cannot be read by this code: a process with its migrations can verify it.
    const { message } = missingMigration(head, catalog[0]!, fold)
    const result = resultOf(head, catalog[0]!, null, false, `not decidable: ${message}`, null)
    drilled.push({ result: { ...result, isUnknown: true }, isDamaged: false })
  }
  if (fold.external && drilled.every(({ result }) => result.ok)) {
    const external = await drillExternal(kernel, head, fold, timeoutMs)
    drilled.push({ ...external, notedOn: external.result.ok ? undefined : records[0]?.id })
  }
  return drilled
}

/** Rebuilds the state that another system holds from there, and compares it with the recorded progress (A1.5). */
async function drillExternal(kernel: Kernel, head: Head, fold: Fold<unknown>, timeoutMs: number): Promise<Drilled> {
  const { rebuild, check } = fold.external!
  const { state, report } = await recover(kernel, head, fold)
  const outcome = (ok: boolean, note: string) => ({
    result: resultOf(head, null, report, ok, note, stateDigest(kernel, state)),
    isDamaged: false,
  })
  const inTime = <T>(call: (signal: AbortSignal) => T) => answerOf(kernel, timeoutMs, call)
  let failure = 'not rebuilt from the other system'
  try {
    // A state of its own: `rebuild` may change it.
    const { state: given } = await recover(kernel, head, fold)
    const rebuilt = await inTime((signal) => rebuild(given.value, { timeline: head.timeline, signal }))
    failure = 'not compared'
    const verdict = check ? await inTime(() => check(rebuilt, state.value)) : true
    if (verdict === true)
      return outcome(true, `rebuilt from the other system${check ? ', and equal to the progress' : ''}`)
    return outcome(false, `rebuilt state differs from the progress${typeof verdict === 'string' ? `: ${verdict}` : ''}`)
  } catch (error) {
    // The other system may be unavailable: the progress is intact, and the state cannot be rebuilt now.
    return outcome(false, `${failure}: ${(error as Error)?.message ?? String(error)}`)
  }
}

async function answerOf<T>({ clock }: Kernel, ms: number, call: (signal: AbortSignal) => T): Promise<Awaited<T>> {
  const stop = new AbortController()
  const answer = (async () => ({ value: await call(stop.signal) }))()
  const first = await within(clock, ms, answer)
  if (first !== 'late') return first.value
  stop.abort()
  throw new Error(`no answer within ${formatMs(ms)}`)
}

/**
 * The state by full replay, if history reaches the origin: the reference for checkpoints. Damaged history is a result,
 * too: it must not stop the drill of other checkpoints and other timelines.
 */
async function referenceDigest(kernel: Kernel, head: Head, fold: Fold<unknown>) {
  try {
    if (fold.authority === 'state' || floorOf(await lineageOf(kernel, head)).seq > 0) return null
    const all = new Set((await kernel.store.checkpoints(head.timeline)).map((record) => record.id as string))
    const { state, report } = await recover(kernel, head, fold, { without: all })
    return { digest: stateDigest(kernel, state), report }
  } catch (error) {
    if (!isReprise(error) || error.remedy === 'retry') throw error
    return error
  }
}

async function drillCheckpoint(
  kernel: Kernel,
  head: Head,
  fold: Fold<unknown>,
  record: ManifestRecord,
  other: { readonly digest: string; readonly of: string } | null,
): Promise<Drilled> {
  try {
    const isMarked = record.invalid !== null
    if (isMarked && !mayBeSound(record)) {
      throw new RepriseError('CHECKPOINT_DAMAGED', `marked invalid: ${record.invalid}`)
    }
    const { state, report } = await recover(kernel, head, fold, { only: record.id, evenInvalid: isMarked })
    // With authority "state", parts that are read only on demand (the bytes of a stream) have no other copy.
    if (fold.authority === 'state') await verifyChunks(readManifest(kernel, record), stateIo(kernel))
    const model = kernel.models.find(head.timeline)
    await model?.readCheckpoint?.(record, readManifest(kernel, record), stateIo(kernel))
    const digest = stateDigest(kernel, state)
    if (record.foldVersion !== fold.version) {
      // A migrated state may differ from a full replay by the current code: that is not a fault of the checkpoint.
      const note = `restored and migrated from version ${record.foldVersion}; not compared`
      return { result: resultOf(head, record, report, true, note, digest), isDamaged: false, isCleared: isMarked }
    }
    if (other && digest !== other.digest) {
      const note = `restored state differs from that of ${other.of}`
      return { result: resultOf(head, record, report, false, note, digest), isDamaged: true }
    }
    const how = other ? `equal to ${other.of}` : 'restored and replayed; no second way to compare with'
    const healed = report.healed > 0 ? `; ${report.healed} of its chunks were damaged and rebuilt` : ''
    const note = isMarked ? `${how}; it had been marked: ${record.invalid}` : `${how}${healed}`
    return { result: resultOf(head, record, report, true, note, digest), isDamaged: false, isCleared: isMarked }
  } catch (error) {
    if (!isReprise(error) || error.remedy === 'retry') throw error
    const skipped = (error.data.skipped as { why: string }[] | undefined)?.map(({ why }) => why).join('; ')
    const result = resultOf(head, record, null, false, skipped || error.message, null)
    if (cannotTell(error)) {
      const note = `not decidable: ${error.message}`
      return { result: { ...result, isUnknown: true, note }, isDamaged: false }
    }
    if (await isChunkless(kernel, record)) {
      return { result: { ...result, isUnknown: true, note: chunkless }, isDamaged: false }
    }
    const isLost = ['UNRECOVERABLE', 'CHUNK_DAMAGED', 'CHECKPOINT_DAMAGED'].includes(error.code)
    const isDamaged = record.invalid === null && isLost && record.seq >= head.floor
    return { result, isDamaged }
  }
}

/**
 * Equal for equal states, however they were reached: keyed parts count by content, not by page. Parts and values are
 * encoded one by one, as a checkpoint stores them: an object shared by two of them becomes two objects after a restore.
 */
export function stateDigest({ codec, hash }: Pick<Kernel, 'codec' | 'hash'>, state: TimelineState<unknown>): string {
  const digests: Record<string, unknown> = {}
  for (const [name, part] of Object.entries(state.parts())) {
    digests[name] =
      part instanceof Keyed
        ? { keyed: [...part.entries()].map(([key, value]) => [key, hash(codec.encode(value))]) }
        : hash(codec.encode(part))
  }
  return toHex(hash(codec.encode(digests)))
}

function resultOf(
  head: Head,
  record: ManifestRecord | null,
  report: RecoveryReport | null,
  ok: boolean,
  note: string,
  digest: string | null,
): DrillResult {
  return {
    timeline: head.timeline,
    checkpoint: record?.id ?? null,
    seq: record?.seq ?? head.seq,
    ok,
    isUnknown: false,
    note,
    stateDigest: digest,
    recoveryMs: report?.totalMs ?? 0,
    healed: report?.healed ?? 0,
    entriesReplayed: report?.entriesReplayed ?? 0,
    entriesLost: report?.entriesLost ?? 0,
  }
}

async function record(kernel: Kernel, head: Head, marks: readonly ManifestMark[]): Promise<void> {
  await submit(kernel, {
    guard: epochGuardOf(head),
    aside: true,
    marks,
  })
}
