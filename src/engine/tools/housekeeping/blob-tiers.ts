// Moves chunks of older checkpoints to colder tiers. One round reads the catalogs, newest checkpoint first, and
// determines the tier of each chunk: that of the warmest checkpoint that names it. Then, batch by batch: chunks are
// read, checked, put into the colder place, read back and checked there, and only then deleted from the warmer one,
// unless they were touched since.
// It may be stopped anywhere. The next round deletes a chunk in two places from the warmer one; the collector removes
// chunks that no checkpoint names.

import { type Digest, toHex } from '../../../core/coordinate.ts'
import { isReprise, type RepriseError } from '../../../core/errors.ts'
import type { Blobs, ChunkRow, ManifestRecord } from '../../../core/store/ports.ts'
import { eachRow } from '../../../lib/each-page.ts'
import { readManifest } from '../../history/recover.ts'
import { stateIo } from '../../snapshot/kernel-io.ts'
import { liveChunks } from '../../snapshot/restore.ts'
import type { Kernel } from '../../storage/kernel.ts'
import { isDamageOfOne, soundHeads } from '../../storage/sound-page.ts'
import { notedTiers, shown, type TierRule } from '../../storage/tier-policy.ts'
import { soundIn, type TierRequests } from '../../storage/tiered-blobs.ts'
import { type HistoryReport, moveHistories } from './history-tiers.ts'

export interface MoveTiersOptions {
  /** Only report what would move. */
  readonly dryRun?: boolean
  /** Chunks touched within this time are not moved. Default: one hour. */
  readonly restMs?: number
  readonly signal?: AbortSignal
}

export interface TierReport {
  readonly name: string
  /** Without a query. */
  readonly at: string
  /** The content after the round; with `dryRun`, the current content. */
  readonly chunks: number
  readonly bytes: number
  /** Moved there by this round. */
  readonly moved: number
  readonly movedBytes: number
  /** Chunks that failed to move: damaged at their place, or different when read back. */
  readonly failed: number
  /** It belongs to this store alone: chunks may be moved there, and swept. */
  readonly isOwn: boolean
  /** Requests of this process to the object store since it was opened, this round included; null for other places. */
  readonly requests: TierRequests | null
}

export interface TiersReport {
  readonly isDryRun: boolean
  /** The store's own place first. */
  readonly tiers: readonly TierReport[]
  /** History in a colder tier. */
  readonly history: HistoryReport
  /** Damaged timelines: chunks that only they use stay in place, and the others had their turn. */
  readonly unreadable: readonly { readonly timeline: string; readonly because: string }[]
}

const restMs = 3_600_000
const batchBytes = 8 * 1024 * 1024
const pageRows = 1000

/** @example const { tiers } = await rp.tiers() */
export async function moveTiers(kernel: Kernel, options: MoveTiersOptions = {}): Promise<TiersReport> {
  const { tiers, store, worker } = kernel
  if (!options.dryRun) await worker.register()
  const { tiers: rules } = await notedTiers(kernel)
  const now = options.dryRun ? kernel.clock.now() : worker.earliest()
  const unreadable = new Map<string, RepriseError>()
  const leave = (timeline: string, error: RepriseError) => void unreadable.set(timeline, error)
  const wanted = await coldest(kernel, rules, now, leave)
  const named = [{ name: 'hot', at: (await store.upkeep.facts()).location }, ...tiers.places]
  const places = (await tiers.opened()).map((place, i) => ({ name: named[i]!.name, at: named[i]!.at, ...place }))
  const reports = places.map(({ name, at, isOwn }) => ({
    ...{ name, at: shown(at), chunks: 0, bytes: 0, moved: 0, movedBytes: 0, failed: 0, isOwn },
  }))
  const takes = rules.findLastIndex(({ rule }) => rule?.history === true) + 1
  const history = await moveHistories(kernel, takes > 0 ? places[takes]! : null, options, leave)
  // The warmest tier first: a moved chunk counts in its new tier.
  for (const [from, place] of places.entries()) {
    const due = places.map(() => [] as { digest: Digest; bytes: number }[])
    for await (const row of rowsOf(place.blobs)) {
      reports[from]!.chunks += 1
      reports[from]!.bytes += row.bytes
      const to = wanted.get(toHex(row.digest)) ?? from
      const isResting = row.touchedAt >= now - (options.restMs ?? restMs)
      if (to > from && !isResting && places[to]!.isOwn && place.isOwn) due[to]!.push(row)
    }
    for (const [to, rows] of due.entries()) {
      for (const batch of batches(rows)) {
        if (options.signal?.aborted) break
        const digests = batch.map(({ digest }) => digest)
        const moved = options.dryRun ? digests : await moveBatch(kernel, place.blobs, places[to]!.blobs, digests)
        const names = new Set(moved.map(toHex))
        reports[to]!.moved += moved.length
        reports[to]!.failed += digests.length - moved.length
        for (const { digest, bytes } of batch) {
          if (!names.has(toHex(digest))) continue
          reports[to]!.movedBytes += bytes
          if (options.dryRun) continue
          reports[from]!.chunks -= 1
          reports[from]!.bytes -= bytes
        }
      }
    }
  }
  const moved = reports.reduce((sum, each) => sum + each.moved, 0)
  const bytes = reports.reduce((sum, each) => sum + each.movedBytes, 0)
  if (!options.dryRun && moved > 0) kernel.events.emit('tiers-moved', { chunks: moved, bytes })
  const meters = places.map(({ meter }) => (meter ? { ...meter } : null))
  if (!options.dryRun) for (const [where, error] of unreadable) kernel.events.emit('problem', { where, error })
  return {
    isDryRun: options.dryRun ?? false,
    tiers: reports.map((report, i) => ({ ...report, requests: meters[i] ?? null })),
    history,
    unreadable: [...unreadable].map(([timeline, { message }]) => ({ timeline, because: message })),
  }
}

/** @returns the chunks that are now in the colder place only, except for those touched meanwhile. */
async function moveBatch(kernel: Kernel, from: Blobs, to: Blobs, digests: readonly Digest[]): Promise<Digest[]> {
  const { hash, worker } = kernel
  const chunks = await soundIn(from, digests, hash)
  if (chunks.length === 0) return []
  // The age in the colder place: at least as young as any touch here up to now.
  const at = worker.earliest()
  const all = chunks.map(({ digest }) => digest)
  await to.put(chunks, at)
  let sound = new Set((await soundIn(to, all, hash)).map(({ digest }) => toHex(digest)))
  const wrong = chunks.filter(({ digest }) => !sound.has(toHex(digest)))
  if (wrong.length > 0) {
    // A damaged chunk was in its place: it is replaced.
    await to.delete(
      wrong.map(({ digest }) => digest),
      Number.MAX_SAFE_INTEGER,
    )
    await to.put(wrong, at)
    sound = new Set((await soundIn(to, all, hash)).map(({ digest }) => toHex(digest)))
  }
  const moved = all.filter((digest) => sound.has(toHex(digest)))
  await from.delete(moved, at)
  return moved
}

/** For each chunk that a checkpoint names: the number of the place where it may be, 0 for the store's own. */
async function coldest(
  kernel: Kernel,
  rules: readonly TierRule[],
  now: number,
  leave: (timeline: string, error: RepriseError) => void,
): Promise<ReadonlyMap<string, number>> {
  const all: { readonly record: ManifestRecord; readonly rank: number }[] = []
  const segments: ManifestRecord[] = []
  for await (const { timeline } of soundHeads(kernel, {}, leave)) {
    try {
      const records = (await kernel.store.checkpoints(timeline)).filter(({ invalid }) => invalid === null)
      segments.push(...(await kernel.segments.of(timeline)))
      for (const [rank, record] of records.entries()) all.push({ record, rank })
    } catch (error) {
      if (!isDamageOfOne(error)) throw error
      leave(timeline, error)
    }
  }
  all.sort((a, b) => b.record.createdAt - a.record.createdAt)
  const wanted = new Map<string, number>()
  const io = stateIo(kernel)
  let warmBytes = 0
  for (const { record, rank } of all) {
    // The newest checkpoint of each timeline stays: the next start reads it.
    const byRule = rules.map(({ rule }) => rank > 0 && rule !== null && applies(rule, record, rank, now, warmBytes))
    const to = byRule.lastIndexOf(true) + 1
    for (const digest of await chunksOf(record)) {
      const name = toHex(digest)
      wanted.set(name, Math.min(to, wanted.get(name) ?? to))
    }
    warmBytes += record.addedBytes
  }
  // History that was read, and thereby pulled back into the store, returns to its tier.
  const takes = rules.findLastIndex(({ rule }) => rule?.history === true) + 1
  for (const record of takes > 0 ? segments : []) {
    for (const digest of await chunksOf(record)) wanted.set(toHex(digest), takes)
  }
  return wanted

  /** A damaged checkpoint names none, so its chunks stay in their place. */
  async function chunksOf(record: ManifestRecord): Promise<readonly Digest[]> {
    try {
      return await liveChunks(readManifest(kernel, record), io)
    } catch (error) {
      if (!isReprise(error, 'CHECKPOINT_DAMAGED', 'CHUNK_MISSING', 'CHUNK_DAMAGED', 'MALFORMED')) throw error
      return []
    }
  }
}

function applies(
  { afterMs, keep, over }: NonNullable<TierRule['rule']>,
  record: ManifestRecord,
  rank: number,
  now: number,
  warmBytes: number,
): boolean {
  return (
    (afterMs !== undefined && record.createdAt < now - afterMs) ||
    (keep !== undefined && rank >= keep) ||
    (over !== undefined && warmBytes > over)
  )
}

function rowsOf(blobs: Blobs): AsyncGenerator<ChunkRow> {
  return eachRow<ChunkRow>((last, limit) => blobs.list(last?.digest ?? null, limit), pageRows)
}

function batches<T extends { readonly bytes: number }>(rows: readonly T[]): T[][] {
  const all: T[][] = []
  let bytes = Number.POSITIVE_INFINITY
  for (const row of rows) {
    if (bytes + row.bytes > batchBytes) {
      all.push([])
      bytes = 0
    }
    all.at(-1)!.push(row)
    bytes += row.bytes
  }
  return all
}
