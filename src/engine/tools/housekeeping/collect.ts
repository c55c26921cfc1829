// Garbage collection by reachability, concurrently with writers. First retention for each timeline, then chunks: raise
// the sweep mark, mark from every checkpoint in the catalog, sweep unmarked chunks that were last touched before the
// sweep mark. The reason a checkpoint published during the sweep is safe: the store checked it against the sweep mark, so its
// new chunks are younger than the swept ones; its reused chunks belong to its base, which the store found in the
// catalog when it published. If that base existed during marking, its chunks are marked; if the base itself came later,
// the same holds for it. docs/decisions/collection.md has the whole argument.

import type { RetentionPlan, RetentionPolicy } from '../../../core/checkpoint/retention.ts'
import { timelineId, toHex } from '../../../core/coordinate.ts'
import { isReprise, type RepriseError } from '../../../core/errors.ts'
import type { ChunkRow, Head, ManifestRecord } from '../../../core/store/ports.ts'
import { eachPage } from '../../../lib/each-page.ts'
import { capturesKey } from '../../base/running-captures.ts'
import { carryOut, planFor } from '../../checkpoint/retain.ts'
import { policyOf } from '../../checkpoint/stored-policy.ts'
import { cursorHolds } from '../../feed/cursor-holds.ts'
import { readManifest } from '../../history/recover.ts'
import { isOfStore } from '../../model/id-prefixes.ts'
import { stateIo } from '../../snapshot/kernel-io.ts'
import { liveChunks } from '../../snapshot/restore.ts'
import type { Kernel } from '../../storage/kernel.ts'
import { lacking, lackingKeys } from '../../storage/key-notes.ts'
import { followRedundancy } from '../../storage/redundancy-choice.ts'
import { headsOf, isDamageOfOne, soundHeads } from '../../storage/sound-page.ts'
import { type ExpiredForks, expireForks } from './fork-expiry.ts'

export interface CollectOptions {
  /** Only report what would be removed and why. */
  readonly dryRun?: boolean
  readonly timelines?: readonly string[]
  /**
   * Chunks touched within this time stay. Default: those stay that a running capture may still name and, beside a
   * worker of an earlier version, those of the last hour (`grace`). No value harms a checkpoint.
   */
  readonly graceMs?: number
  /** Only chunks, without retention. */
  readonly chunksOnly?: boolean
}

export interface CollectReport {
  readonly isDryRun: boolean
  readonly timelines: readonly {
    readonly timeline: string
    readonly drop: RetentionPlan['drop']
    readonly keep: RetentionPlan['keep']
    readonly floor: RetentionPlan['floor']
    /** The floor before: history is removed only if `floor.seq` is above it. */
    readonly floorBefore: number
    readonly refused: readonly string[]
  }[]
  /** Forks that were due by `retain.forks`. */
  readonly forks: ExpiredForks
  /** Timelines without a known policy, left unchanged. */
  readonly unknown: readonly { readonly timeline: string; readonly because: string }[]
  readonly chunks: {
    readonly live: number
    readonly liveBytes: number
    readonly swept: number
    readonly sweptBytes: number
    readonly tooYoung: number
    /**
     * Listed checkpoints and segments that could not be read: the chunks they need are unknown, so no chunk was
     * removed. Empty in an intact store.
     */
    readonly unreadable: readonly Unreadable[]
  }
}

export interface Unreadable {
  readonly timeline: string
  readonly seq: number
  readonly because: string
}

export async function collect(kernel: Kernel, options: CollectOptions = {}): Promise<CollectReport> {
  const missing = await lackingKeys(kernel)
  if (missing.length > 0) throw lacking(missing)
  // Registering also reads the store's clock. A dry run writes nothing, and reads the time separately.
  if (!options.dryRun) await kernel.worker.register()
  const now = options.dryRun ? await storeTime(kernel) : kernel.worker.earliest()
  const timelines: CollectReport['timelines'][number][] = []
  const unknown: CollectReport['unknown'][number][] = []
  const expired: string[] = []
  const kept: CollectReport['forks']['kept'][number][] = []
  // A damaged timeline is left unchanged, and the others are processed.
  const leave = (timeline: string, { message }: RepriseError) => unknown.push({ timeline, because: message })
  const all = () => (options.timelines ? headsOf(kernel, options.timelines) : soundHeads(kernel, {}, leave))
  for await (const head of options.chunksOnly ? noHeads() : all()) {
    // The store maintains its own timelines.
    if (isOfStore(head.timeline)) continue
    try {
      const known = await policyOf(kernel, head)
      if (typeof known === 'string') {
        unknown.push({ timeline: head.timeline, because: known })
        continue
      }
      const { policy, foldVersion } = known
      // Forks first, so that the history they held is removed in the same round.
      const forks = await expireForks(kernel, head, policy, now, options.dryRun ?? false)
      expired.push(...forks.expired)
      kept.push(...forks.kept)
      const plan = await planBesideCursors(kernel, head, policy, foldVersion)
      const { refused } = options.dryRun ? { refused: [] } : await carryOut(kernel, head, plan)
      const { drop, keep, floor } = plan
      timelines.push({ timeline: head.timeline, drop, keep, floor, floorBefore: head.floor, refused })
    } catch (error) {
      if (!isDamageOfOne(error)) throw error
      leave(head.timeline, error)
    }
  }
  const chunks = await sweep(kernel, options, options.dryRun ? now : kernel.worker.earliest())
  if (!options.dryRun) {
    await kernel.store.upkeep.tidy(kernel.worker.earliest() - kernel.graceMs)
    kernel.events.emit('collected', { chunks: chunks.swept, bytes: chunks.sweptBytes })
  }
  return { isDryRun: options.dryRun ?? false, timelines, forks: { expired, kept }, unknown, chunks }
}

/** Reads the feed only if history would be removed: only then it matters which cursor still needs it. */
export async function planBesideCursors(
  kernel: Kernel,
  head: Head,
  policy: RetentionPolicy,
  foldVersion: string,
): Promise<RetentionPlan> {
  const plan = await planFor(kernel, head, policy, foldVersion)
  if (Math.max(plan.floor.seq, plan.movable?.seq ?? 0) <= head.floor) return plan
  const held = (await cursorHolds(kernel, [head.timeline])).get(head.timeline)
  return held ? await planFor(kernel, head, policy, foldVersion, held) : plan
}

/** Any inbox returns the store's time. */
async function storeTime({ store }: Kernel): Promise<number> {
  return (await store.inbox(timelineId('reprise/store'), 0)).now
}

async function sweep(kernel: Kernel, options: CollectOptions, now: number): Promise<CollectReport['chunks']> {
  const touchedBefore = await sweepableBefore(kernel, now, options.graceMs)
  // Raise the mark first, then read the catalogs: a later publication is either in them, or was checked against the mark.
  if (!options.dryRun && !kernel.planted.has('sweep-unmarked')) await kernel.store.sweepMark(touchedBefore)
  const { live, unreadable } = await mark(kernel)
  let liveBytes = 0
  let swept = 0
  let sweptBytes = 0
  let tooYoung = 0
  let due: ChunkRow['digest'][] = []
  // With parity, a chunk leaves its group; all that leave together cost as much as one.
  const dueMax = kernel.redundancy ? 20_000 : 500
  const flush = async () => {
    if (due.length > 0) await kernel.store.blobs.delete(due, touchedBefore)
    due = []
  }
  const { blobs } = kernel.store
  for await (const page of eachPage<ChunkRow>((last, limit) => blobs.list(last?.digest ?? null, limit))) {
    const dead = page.filter((row) => !live.has(toHex(row.digest)))
    for (const row of page) liveBytes += row.bytes
    for (const row of dead) liveBytes -= row.bytes
    if (unreadable.length > 0) continue
    const old = dead.filter((row) => row.touchedAt < touchedBefore)
    tooYoung += dead.length - old.length
    swept += old.length
    for (const row of old) sweptBytes += row.bytes
    if (!options.dryRun) due.push(...old.map((row) => row.digest))
    if (due.length >= dueMax) await flush()
  }
  await flush()
  const [first] = unreadable
  if (first && !options.dryRun) {
    const what = `no chunk is removed while ${unreadable.length} checkpoints or segments cannot be read: ${first.because}`
    kernel.events.emit('report', { kind: 'damage', timeline: first.timeline, what, data: { unreadable } })
  }
  if (!first && !options.dryRun) {
    await tendRedundancy(kernel, live, touchedBefore, options.chunksOnly ?? false)
    await kernel.store.blobs.compact?.()
  }
  return { live: live.size, liveBytes, swept, sweptBytes, tooYoung, unreadable }
}

/** The report of an erasure about the chunks that it could not remove. */
export function chunksLeft({ tooYoung, unreadable }: CollectReport['chunks']): string[] {
  const left = unreadable.map(({ timeline, seq, because }) => {
    return `chunks that may no longer be needed: ${timeline} at ${seq} cannot be read (${because}); repair or delete it, and erase again`
  })
  if (tooYoung > 0)
    left.push(`${tooYoung} chunks that a capture in progress may still reference: erase again when it has finished`)
  return left
}

/** Every time: the remains of a killed sweep in a parity must not outlast the next sweep. */
async function tendRedundancy(
  kernel: Kernel,
  live: ReadonlySet<string>,
  touchedBefore: number,
  chunksOnly: boolean,
): Promise<void> {
  const { redundancy } = kernel
  if (!redundancy) return
  await followRedundancy(kernel)
  await redundancy.blobs.tend(live, touchedBefore)
  if (chunksOnly) return
  for await (const head of headsOf(kernel)) {
    await redundancy.tendCatalog(head.timeline, kernel.models.foldOf(head.timeline)?.authority === 'state')
  }
}

/**
 * Chunks last touched before this time belong to no announced capture. An optimisation: a checkpoint stays complete
 * because its publication is refused if the mark is above its oldest chunk.
 */
async function sweepableBefore(kernel: Kernel, now: number, graceMs: number | undefined): Promise<number> {
  const { worker, store, planted } = kernel
  if (graceMs !== undefined) return now - graceMs
  let before = Math.min(now, worker.captures.oldest ?? now)
  for (const row of await store.workers()) {
    if (row.id === worker.id) continue
    const announced = row.info[capturesKey]
    // An earlier version neither announces captures nor has its publications checked. A worker presumed dead may
    // return, too.
    if (announced === undefined && row.beatAt > now - kernel.graceMs) before = Math.min(before, now - kernel.graceMs)
    if (planted.has('sweep-unannounced')) continue
    if (typeof announced === 'number' && row.isAlive) before = Math.min(before, announced)
  }
  return before
}

async function* noHeads(): AsyncGenerator<Head> {}

/**
 * A concurrent rollback or fork moves or copies checkpoints to a timeline that was not listed yet: lists are read again
 * until one of them shows nothing new.
 */
async function mark(kernel: Kernel): Promise<{ live: ReadonlySet<string>; unreadable: readonly Unreadable[] }> {
  const live = new Set<string>()
  const unreadable: Unreadable[] = []
  const marked = new Set<string>()
  // The chunks that it needs are unknown.
  const quarantine = (timeline: string, { message }: RepriseError) => {
    if (!marked.has(timeline)) unreadable.push({ timeline, seq: 0, because: message })
    marked.add(timeline)
  }
  for (let before = -1; before < marked.size; ) {
    before = marked.size
    for await (const head of soundHeads(kernel, {}, quarantine)) {
      if (marked.has(head.timeline)) continue
      marked.add(head.timeline)
      if (kernel.planted.has('collect-ignores-forks') && head.base) continue
      unreadable.push(...(await markTimeline(kernel, head, live)))
    }
  }
  return { live, unreadable }
}

/** Returns the unreadable ones: their chunks may be temporarily unreachable, with everything they refer to. */
async function markTimeline(kernel: Kernel, head: Head, live: Set<string>): Promise<Unreadable[]> {
  const io = stateIo(kernel)
  const { timeline } = head
  const unreadable: Unreadable[] = []
  let records: readonly ManifestRecord[]
  try {
    records = await kernel.segments.all(timeline)
  } catch (error) {
    if (!isReprise(error, 'STORE_DAMAGED')) throw error
    return [{ timeline, seq: 0, because: error.message }]
  }
  // Segments of history included: their chunks are needed as much as those of checkpoints.
  for (const record of records) {
    try {
      for (const digest of await liveChunks(readManifest(kernel, record), io)) live.add(toHex(digest))
    } catch (error) {
      // Verify reports it. Any other error must stop the sweep.
      if (!isReprise(error, 'CHECKPOINT_DAMAGED', 'CHUNK_MISSING', 'CHUNK_DAMAGED', 'MALFORMED')) throw error
      unreadable.push({ timeline, seq: record.seq, because: error.message })
    }
  }
  return unreadable
}
