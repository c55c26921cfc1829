// The drill: restores real checkpoints aside, replays what follows, compares the result with another way to the same
// place, and reports how long recovery would take and what would be lost. The outcome is noted in the catalog.

import { toHex } from '../core/coordinate.ts'
import { isReprise, RepriseError } from '../core/errors.ts'
import { Keyed } from '../core/keyed.ts'
import type { Head, ManifestMark, ManifestRecord } from '../core/ports.ts'
import type { Fold } from './definition.ts'
import { floorOf, lineageOf } from './history.ts'
import { type Kernel, newOperation } from './kernel.ts'
import { recover } from './recover.ts'
import type { RecoveryReport } from './report.ts'
import type { TimelineState } from './state.ts'
import { headsOf } from './verify.ts'

export interface DrillOptions {
  readonly timelines?: readonly string[]
  /** Checkpoints a timeline, newest first; default all that are usable. */
  readonly checkpoints?: number
}

export interface DrillResult {
  readonly timeline: string
  readonly checkpoint: string | null
  readonly seq: number
  readonly ok: boolean
  /** Why it failed, or what it was compared with. */
  readonly note: string
  readonly stateDigest: string | null
  readonly recoveryMs: number
  readonly entriesReplayed: number
  /** Entries that a recovery from here could not bring back. */
  readonly entriesLost: number
}

export interface DrillReport {
  readonly ok: boolean
  readonly results: readonly DrillResult[]
  /** Timelines whose definition is not known here: open or register one to drill them. */
  readonly unknown: readonly string[]
}

export type FoldOf = (head: Head) => Fold<unknown> | null

export async function drill(kernel: Kernel, foldOf: FoldOf, options: DrillOptions = {}): Promise<DrillReport> {
  const results: DrillResult[] = []
  const unknown: string[] = []
  for await (const head of headsOf(kernel, options.timelines)) {
    const fold = foldOf(head)
    if (!fold) unknown.push(head.timeline)
    else results.push(...(await drillTimeline(kernel, head, fold, options.checkpoints ?? Number.POSITIVE_INFINITY)))
  }
  return { ok: results.every((result) => result.ok), results, unknown }
}

async function drillTimeline(kernel: Kernel, head: Head, fold: Fold<unknown>, most: number): Promise<DrillResult[]> {
  const records = (await kernel.store.checkpoints(head.timeline))
    .filter((record) => record.foldVersion === fold.version)
    .slice(0, most)
  const reference = await referenceDigest(kernel, head, fold)
  const results: DrillResult[] = []
  const marks: ManifestMark[] = []
  let other: { readonly digest: string; readonly of: string } | null = reference && {
    digest: reference.digest,
    of: 'full replay',
  }
  for (const record of records) {
    const result = await drillCheckpoint(kernel, head, fold, record, other)
    // Where history does not reach the origin, checkpoints are compared with each other; saves are each their own truth.
    if (result.ok && fold.authority !== 'state') other ??= { digest: result.stateDigest!, of: `checkpoint ${record.id}` }
    results.push(result)
    const at = kernel.worker.now()
    marks.push({
      id: record.id,
      drilledAt: at,
      drill: `${result.ok ? 'ok' : 'failed'}: ${result.note}`,
      ...(!result.ok && { invalid: result.note }),
    })
    kernel.events.emit('drilled', { timeline: head.timeline, ok: result.ok, ms: result.recoveryMs })
  }
  if (records.length === 0 && reference) {
    const { report, digest } = reference
    results.push(resultOf(head, null, report, true, 'no checkpoint: recovered from all history', digest))
  }
  if (marks.length > 0) await note(kernel, head, marks)
  return results
}

/** The state as full replay gives it, where history reaches the origin: what checkpoints are measured against. */
async function referenceDigest(kernel: Kernel, head: Head, fold: Fold<unknown>) {
  if (fold.authority === 'state' || floorOf(await lineageOf(kernel, head)).seq > 0) return null
  const all = new Set((await kernel.store.checkpoints(head.timeline)).map((record) => record.id as string))
  const { state, report } = await recover(kernel, head, fold, { without: all })
  return { digest: stateDigest(kernel, state), report }
}

async function drillCheckpoint(
  kernel: Kernel,
  head: Head,
  fold: Fold<unknown>,
  record: ManifestRecord,
  other: { readonly digest: string; readonly of: string } | null,
): Promise<DrillResult> {
  try {
    if (record.invalid !== null) throw new RepriseError('CHECKPOINT_DAMAGED', `marked invalid: ${record.invalid}`)
    const { state, report } = await recover(kernel, head, fold, { only: record.id })
    const digest = stateDigest(kernel, state)
    if (other && digest !== other.digest) {
      return resultOf(head, record, report, false, `restored state differs from that of ${other.of}`, digest)
    }
    const note = other ? `equal to ${other.of}` : 'restored and replayed; no second way to compare with'
    return resultOf(head, record, report, true, note, digest)
  } catch (error) {
    if (!isReprise(error) || error.remedy === 'retry') throw error
    const skipped = (error.data.skipped as { why: string }[] | undefined)?.map(({ why }) => why).join('; ')
    return resultOf(head, record, null, false, skipped || error.message, null)
  }
}

/** Equal for equal states, however they were reached: keyed parts count by content, not by page. */
export function stateDigest(kernel: Pick<Kernel, 'codec' | 'hash'>, state: TimelineState<unknown>): string {
  const plain: Record<string, unknown> = {}
  for (const [name, part] of Object.entries(state.parts())) {
    plain[name] = part instanceof Keyed ? { keyed: [...part.entries()] } : part
  }
  return toHex(kernel.hash(kernel.codec.encode(plain)))
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
    note,
    stateDigest: digest,
    recoveryMs: report?.totalMs ?? 0,
    entriesReplayed: report?.entriesReplayed ?? 0,
    entriesLost: report?.entriesLost ?? 0,
  }
}

async function note(kernel: Kernel, head: Head, marks: readonly ManifestMark[]): Promise<void> {
  await kernel.committer.submit({
    operation: newOperation(kernel.random),
    guard: { timeline: head.timeline, epoch: head.epoch },
    marks,
  })
}
