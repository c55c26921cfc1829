// Verifies the catalog of one timeline: its lines, their manifests, every chunk that a restore would read, and whether trimmed
// history still has a checkpoint to restore from.

import { equalBytes, toHex } from '../../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../../core/errors.ts'
import type { Head, ManifestRecord } from '../../../core/store/ports.ts'
import { forwardBlobs } from '../../../core/store/store-wrapper.ts'
import type { Yielder } from '../../base/yielder.ts'
import { chunkless, isChunkless, readManifest } from '../../history/recover.ts'
import type { StateIo } from '../../model/state-io.ts'
import { stateIo } from '../../snapshot/kernel-io.ts'
import { liveChunks, verifyChunks } from '../../snapshot/restore.ts'
import type { Fault } from '../../storage/fault.ts'
import type { Kernel } from '../../storage/kernel.ts'
import { isSoundLine } from '../../storage/redundancy/catalog-copies.ts'
import { isSegment } from '../../storage/segment-catalog.ts'
import { readCatalog } from '../repair/catalog.ts'
import type { RepairSource } from '../repair/source.ts'
import { attempt, type Tally } from './findings.ts'
import { verifySegments } from './segments.ts'

/** The resources and permissions of a catalog check. */
export interface CatalogCheck {
  readonly location: string
  readonly repair: boolean
  /** Another source, for lines and chunks. */
  readonly source: RepairSource | null
  /** Sources of intact copies of history. */
  readonly histories: readonly RepairSource[]
  readonly yielder: Yielder
}

export async function verifyCatalog(kernel: Kernel, head: Head, tally: Tally, how: CatalogCheck): Promise<void> {
  const { location, repair, source, histories, yielder } = how
  const fetched = source ? await fetchLines(kernel, head, source) : []
  const { records: lines, mended, lost, isCounted } = await readCatalog(kernel, head, repair)
  const records = lines.filter((record) => !isSegment(record))
  for (const { id, isPutRight } of mended) {
    const from = fetched.includes(id) ? source!.name : 'copy'
    tally.healed.push({ ...faultOf(head, `${location}: catalog`, id, 'STORE_DAMAGED'), from, isPutRight })
  }
  if (lost !== null) {
    const fault = {
      timeline: head.timeline,
      seq: null,
      where: `${location}: catalog`,
      what: lost,
      code: 'STORE_DAMAGED',
    }
    tally.faults.push(fault)
    if (isCounted) tally.lost.push({ timeline: head.timeline, where: 'catalog', what: lost })
  }
  const io = watching(kernel, how, (digest, from, isPutRight) => {
    const what = `chunk ${toHex(digest)} was damaged or missing`
    if (tally.healed.some((fault) => fault.what === what)) return
    tally.healed.push({ ...faultOf(head, `${location}: chunks`, '', 'CHUNK_DAMAGED'), what, from, isPutRight })
  })
  const model = kernel.models.find(head.timeline)
  let restorable = 0
  for (const record of records) {
    await yielder.take()
    tally.checkpoints += 1
    const isSound = await attempt(tally, head, `${location}: checkpoint ${record.id}`, async () => {
      try {
        const manifest = readManifest(kernel, record)
        if (record.seq > head.seq && record.seq > (await seqNow(kernel, head))) {
          throw new RepriseError('CHECKPOINT_DAMAGED', 'is beyond the head', { seq: record.seq })
        }
        await verifyChunks(manifest, io)
        // A checkpoint that was found bad before has a mark, and is not restored from.
        if (record.invalid === null) await model?.readCheckpoint?.(record, manifest, io)
        for (const digest of await liveChunks(manifest, io)) tally.live.add(toHex(digest))
      } catch (error) {
        // Retention may have removed it during the read: a removed checkpoint is not damaged.
        if (!(await isInCatalog(kernel, record, head))) return
        if (await isChunkless(kernel, record)) throw new RepriseError('CHUNKS_ELSEWHERE', chunkless, {}, error)
        throw error
      }
    })
    // The copy of this line was read and verified just now.
    if (isSound && (isRestorable(record, head) || mended.some(({ id }) => id === record.id))) restorable += 1
  }
  const history = lines.filter(isSegment)
  const check = (where: string, call: () => Promise<void>) => attempt(tally, head, `${location}: ${where}`, call)
  const copies = repair ? histories : []
  const { entries, reachesOrigin } = await verifySegments(kernel, head, history, { io, tally, check, location, copies })
  tally.entries += entries
  const isUnknown = tally.cannotTell.some((fault) => fault.timeline === head.timeline)
  const isLegible = (lost === null || records.length > 0) && !reachesOrigin
  if (head.floor > 0 && restorable === 0 && isLegible && !isUnknown && !(head.base && head.floor <= head.base.seq)) {
    tally.faults.push({
      timeline: head.timeline,
      seq: head.floor,
      where: location,
      what: `history up to ${head.floor} was trimmed and no sound, verified checkpoint at or above it is left`,
      code: 'UNRECOVERABLE',
    })
  }
}

/**
 * The same for a timeline that was verified before and not written since: only notes the chunks it needs. False: they are
 * unknown, and the timeline must be verified again.
 */
export async function noteLive(kernel: Kernel, head: Head, tally: Tally): Promise<boolean> {
  const io = stateIo(kernel)
  try {
    const lines = await kernel.segments.all(head.timeline)
    for (const record of lines) {
      for (const digest of await liveChunks(readManifest(kernel, record), io)) tally.live.add(toHex(digest))
    }
    tally.checkpoints += lines.filter((record) => !isSegment(record)).length
    return true
  } catch (error) {
    if (isReprise(error)) return false
    throw error
  }
}

function faultOf(head: Head, where: string, id: string, code: string): Fault {
  const what = `the catalog row of checkpoint ${id} is damaged or missing`
  return { timeline: head.timeline, seq: null, where, what, code }
}

/** Fetches lines that the store has lost or can no longer read, and that have no copy here. Returns those found. */
async function fetchLines(kernel: Kernel, head: Head, source: RepairSource): Promise<readonly string[]> {
  const { redundancy } = kernel
  const offered = redundancy ? await source.lines(head.timeline) : []
  if (!redundancy || offered.length === 0) return []
  const { records, damaged } = await redundancy.examine(head.timeline).then(
    (examined) => ({ records: examined.records, damaged: isDamagedLine(kernel) }),
    (error) => {
      if (!isReprise(error, 'STORE_DAMAGED')) throw error
      return { records: [], damaged: () => true }
    },
  )
  const fetched: string[] = []
  for (const record of offered) {
    const own = records.find(({ id }) => id === record.id)
    // A line that is missing here was removed, unless the store itself reports missing lines.
    const isWanted = own ? damaged(own) : records.length === 0
    if (!isWanted || record.seq > head.seq) continue
    if (await redundancy.restoreLine(head.timeline, record, source.name)) fetched.push(record.id)
  }
  return fetched
}

function isDamagedLine(kernel: Kernel): (record: ManifestRecord) => boolean {
  return (record) => !isSoundLine(kernel.hash, record)
}

/** Reads damaged chunks from their redundancy or another source, and reports it; without `repair` it changes nothing. */
function watching(
  kernel: Kernel,
  { repair, source, yielder }: CatalogCheck,
  onMended: (digest: Uint8Array, from: string, isPutRight: boolean) => void,
): StateIo {
  const io = stateIo(kernel)
  const { blobs } = io
  return {
    ...io,
    blobs: forwardBlobs(blobs, {
      async get(digests) {
        // A store that answers synchronously never yields to the event loop.
        await yielder.take()
        return await blobs.get(digests)
      },
      async mend(digest) {
        const mended = (await blobs.mend?.(digest, repair)) ?? null
        if (mended) onMended(digest, 'parity', repair && (await isInPlace(kernel, digest)))
        if (mended || !source) return mended
        const found = await source.chunk(digest)
        if (!found || !(await kernel.redundancy?.blobs.restore(digest, found, source.name))) return null
        onMended(digest, source.name, true)
        return found
      },
    }),
  }
}

/**
 * Whether a repaired chunk can be read back. If its place is broken, the copy is elsewhere, and further damage would lose it.
 */
async function isInPlace(kernel: Kernel, digest: Uint8Array): Promise<boolean> {
  const [stored] = await kernel.store.blobs.get([digest])
  return stored != null && equalBytes(kernel.hash(stored), digest)
}

export async function isInCatalog(kernel: Kernel, record: ManifestRecord, head: Head): Promise<boolean> {
  return (await kernel.store.checkpoints(head.timeline)).some((each) => each.id === record.id)
}

async function seqNow(kernel: Kernel, head: Head): Promise<number> {
  const [now] = await kernel.store.head([head.timeline])
  return now?.seq ?? head.seq
}

function isRestorable(record: ManifestRecord, head: Head): boolean {
  return record.invalid === null && record.verifiedAt !== null && record.seq >= head.floor
}
