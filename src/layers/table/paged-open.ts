// Opens a paged table: takes ownership, reads the newest intact checkpoint (its directory, not its rows), and the log after
// it. The usual fallbacks apply: a damaged checkpoint is marked and the previous one is used, then the origin.

import type { TimelineId } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { Keyed } from '../../core/keyed-state/keyed.ts'
import type { Head, ManifestRecord } from '../../core/store/ports.ts'
import { entriesOf, floorOf, lineageOf, readHistory } from '../../engine/history/history.ts'
import { missingMigration, readManifest } from '../../engine/history/recover.ts'
import { type CapturedParts, TimelineState } from '../../engine/history/state.ts'
import { canRead, type Fold, type OpenOptions } from '../../engine/model/definition.ts'
import { giveBack, takeTimeline } from '../../engine/ownership/take-timeline.ts'
import type { CaptureBase } from '../../engine/snapshot/capture.ts'
import { stateIo } from '../../engine/snapshot/kernel-io.ts'
import { restoreState, verifyChunks } from '../../engine/snapshot/restore.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import { OpenTimeline } from '../../engine/writing/timeline.ts'
import { PagedRows } from './pages.ts'
import { initialState, type Ops, type TableState } from './state.ts'
import { migratedPending, type RowVersions } from './versions.ts'

export interface OpenedPaged<V> {
  readonly open: OpenTimeline<TableState<V>>
  readonly rows: PagedRows<V>
  readonly base: { readonly id: string; readonly capture: CaptureBase } | null
}

interface Loaded<V> {
  readonly rows: PagedRows<V>
  readonly captured: CapturedParts
  readonly base: { readonly id: string; readonly capture: CaptureBase } | null
  readonly record: ManifestRecord | null
}

export interface PagedModel<V> {
  readonly fold: Fold<TableState<V>>
  readonly versions: RowVersions<V>
  readonly cacheBytes: number
}

export async function openPaged<V>(
  kernel: Kernel,
  timeline: TimelineId,
  model: PagedModel<V>,
  options: OpenOptions,
): Promise<OpenedPaged<V>> {
  const started = kernel.clock.elapsed()
  const head = await takeTimeline(kernel, timeline, options)
  try {
    return await openTaken<V>(kernel, head, model, started)
  } catch (error) {
    await giveBack(kernel, head)
    throw error
  }
}

async function openTaken<V>(
  kernel: Kernel,
  head: Head,
  model: PagedModel<V>,
  started: number,
): Promise<OpenedPaged<V>> {
  const { timeline } = head
  const { fold } = model
  const lineage = await lineageOf(kernel, head)
  const floor = floorOf(lineage)
  const skipped: { id: string; seq: number; why: string }[] = []
  const loaded = await loadNewest<V>(kernel, head, model, floor.seq, skipped)
  const state = new TimelineState(fold, loaded.captured, kernel.guardsFolds())
  const from = loaded.record ? { seq: loaded.record.seq, digest: loaded.record.digest } : floor
  const restoredAt = kernel.clock.elapsed()
  let point = from
  let count = 0
  for await (const verified of readHistory(kernel, lineage, from, head.seq)) {
    const entries = entriesOf(kernel, verified)
    state.replay(entries)
    count += entries.length
    point = { seq: verified.run.first + verified.run.count - 1, digest: verified.run.digest }
  }
  const done = kernel.clock.elapsed()
  const report = {
    ...{
      timeline,
      seq: point.seq,
      epoch: head.epoch,
      skipped,
      healed: 0,
      entriesReplayed: count,
      bytesRead: 0,
      entriesLost: 0,
    },
    checkpoint: loaded.record ? { id: loaded.record.id, seq: loaded.record.seq } : null,
    ...{ planMs: 0, restoreMs: restoredAt - started, replayMs: done - restoredAt, totalMs: done - started },
  }
  const recovered = { state, point, lineage, base: null, damaged: [], report, replayMsPerEntry: 0 }
  const open = new OpenTimeline(kernel, head, fold, recovered, () => undefined)
  for (const { id, why } of skipped) await open.mark({ id: id as never, invalid: why })
  return { open, rows: loaded.rows, base: loaded.base }
}

async function loadNewest<V>(
  kernel: Kernel,
  head: Head,
  model: PagedModel<V>,
  floor: number,
  skipped: { id: string; seq: number; why: string }[],
): Promise<Loaded<V>> {
  const records = await kernel.store.checkpoints(head.timeline)
  // Pages are read on demand, and checkpoints share them: if one was found damaged, the others are read completely first.
  const isSuspect = records.some(({ invalid }) => invalid !== null)
  let unread: ManifestRecord | null = null
  for (const record of records) {
    if (record.invalid !== null || record.seq < floor || record.seq > head.seq) continue
    if (!canRead(model.fold, record.foldVersion)) {
      unread ??= record
      continue
    }
    try {
      return await load<V>(kernel, record, model, isSuspect)
    } catch (error) {
      if (!isReprise(error, 'CHUNK_MISSING', 'CHUNK_DAMAGED', 'CHECKPOINT_DAMAGED', 'MALFORMED')) throw error
      skipped.push({ id: record.id, seq: record.seq, why: error.message })
    }
  }
  if (floor > 0 && unread && skipped.length === 0) throw missingMigration(head, unread, model.fold)
  if (floor > 0) {
    throw new RepriseError(
      'UNRECOVERABLE',
      `${head.timeline}: history 1..${floor} was trimmed and no checkpoint is intact`,
      {
        timeline: head.timeline,
        skipped,
      },
    )
  }
  const rows = new PagedRows<V>(stateIo(kernel), model.cacheBytes)
  return {
    rows,
    captured: capturedOf(initialState<V>() as unknown as Record<string, unknown>, rows),
    base: null,
    record: null,
  }
}

async function load<V>(
  kernel: Kernel,
  record: ManifestRecord,
  { fold, versions, cacheBytes }: PagedModel<V>,
  isSuspect: boolean,
): Promise<Loaded<V>> {
  const { parts } = readManifest(kernel, record)
  const io = stateIo(kernel)
  const part = parts.find(({ name }) => name === 'value.rows')
  if (part?.kind !== 'keyed') throw new RepriseError('CHECKPOINT_DAMAGED', `checkpoint ${record.id} has no rows`)
  if (isSuspect) await verifyChunks({ parts }, io)
  const migrate = record.foldVersion === fold.version ? null : versions.migrationOf(record.foldVersion)
  const rows = await PagedRows.load<V>(io, cacheBytes, part, migrate)
  const others = await restoreState({ parts: parts.filter((each) => each !== part) }, io)
  const captured: CapturedParts = { ...(others.state as CapturedParts), 'value.rows': rows }
  const pending = captured['value.pending']
  if (migrate && pending instanceof Keyed) captured['value.pending'] = migratedPending(pending as Keyed<Ops>, migrate)
  return { rows, captured, base: { id: record.id, capture: others.base }, record }
}

function capturedOf<V>(state: Record<string, unknown>, rows: PagedRows<V>): CapturedParts {
  const parts: CapturedParts = { shape: 'object', value: {} }
  for (const [name, part] of Object.entries(state)) parts[`value.${name}`] = name === 'rows' ? rows : part
  return parts
}
