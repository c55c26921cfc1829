// Verify: reads everything and believes nothing. Chains, joints between forks and parents, manifests, chunks, floors,
// orphans, and the store's own structures. Each fault is named with its timeline, sequence and place. Nothing is changed unless
// `repair` is asked for: then what is damaged is put right from its redundancy, or from another place.

import { equalBytes, toHex } from '../../core/coordinate.ts'
import { lastSeq } from '../../core/entry-run.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { forwardBlobs } from '../../core/forward.ts'
import { isHeadLost } from '../../core/lost-head.ts'
import type { Head, ManifestRecord } from '../../core/ports.ts'
import type { StateIo } from '../checkpoint/capture.ts'
import type { Kernel } from '../kernel.ts'
import { stateIo } from '../kernel-io.ts'
import { Mirror } from '../mirror/mirror.ts'
import { entriesOf, floorOf, lineageOf, readHistory } from '../recovery/history.ts'
import { headLost, madeAgain } from '../recovery/lost-head.ts'
import { cannotTell, chunkless, isChunkless, readManifest } from '../recovery/recover.ts'
import { liveChunks, verifyChunks } from '../recovery/restore.ts'
import { retryWithFreshHead } from '../recovery/retry-with-fresh-head.ts'
import { isSoundLine } from '../redundancy/lines.ts'
import { lacking, lackingKeys } from '../seal/key-notes.ts'
import { isSegment } from '../segments/catalog.ts'
import { editWords } from './fork-edit.ts'
import { faultOfMirror, type MirrorSource, mirrorFor } from './mirror-source.ts'
import { readCatalog } from './repair-catalog.ts'
import { mend, planMending } from './repair-history.ts'
import { type OpenUrl, openSource, type RepairSource } from './repair-source.ts'
import type { Fault, HealedFault, VerifyReport } from './verify-fault.ts'
import { verifySegments } from './verify-segments.ts'
import { headsOf, inspected, legibleHeads, renewed } from './verify-structure.ts'

export type { Fault, HealedFault, VerifyReport } from './verify-fault.ts'

export type VerifyOptions = {
  /** Only these timelines; the store's own structures and orphans are then left out. */
  readonly timelines?: readonly string[]
  readonly signal?: AbortSignal
} & (
  | {
      /** Puts right what has a sound copy: chunks, parity, lines of the catalog. Without it nothing is changed. */
      readonly repair?: boolean
      readonly from?: never
    }
  | {
      readonly repair: true
      /** Where else sound copies may be: a store's URL, a folder of chunks, an export or a backup. */
      readonly from: string
    }
)

interface Tally {
  readonly faults: Fault[]
  readonly healed: HealedFault[]
  readonly cannotTell: Fault[]
  readonly live: Set<string>
  timelines: number
  entries: number
  checkpoints: number
  readonly edited: { timeline: string; what: string }[]
}

const editedMax = 100

export async function verify(
  kernel: Kernel,
  options: VerifyOptions = {},
  places: OpenUrl | null = null,
): Promise<VerifyReport> {
  const { from, repair }: { readonly from?: string; readonly repair?: boolean } = options
  if (from === undefined || !places) return await verifyWith(kernel, options, null)
  // The compiler says so too, to those who ask it.
  if (!repair) {
    throw new RepriseError('INVALID_ARGUMENT', 'from is where a repair takes copies from: ask for repair', { from })
  }
  const source = await openSource(kernel, from, places)
  try {
    return await verifyWith(kernel, options, source)
  } finally {
    await source.close()
  }
}

async function verifyWith(kernel: Kernel, options: VerifyOptions, source: RepairSource | null): Promise<VerifyReport> {
  const tally: Tally = {
    faults: [],
    healed: [],
    cannotTell: [],
    live: new Set(),
    timelines: 0,
    entries: 0,
    checkpoints: 0,
    edited: [],
  }
  const { location } = await kernel.store.facts()
  const missing = await lackingKeys(kernel)
  if (missing.length > 0) {
    const { message: what, code } = lacking(missing)
    tally.cannotTell.push({ timeline: null, seq: null, where: `${location}: keys`, what, code })
  }
  const structures = async () =>
    options.timelines ? { faults: [], isOfFile: false } : await inspected(kernel, location)
  const first = await structures()
  tally.faults.push(...first.faults)
  const inspectedFaults = tally.faults.length
  if (options.repair && first.isOfFile) {
    const outcome = await renewed(kernel, location)
    tally.healed.push(...(outcome?.healed ?? []))
    tally.faults.push(...(outcome?.lost ?? []))
  }
  const mirror = await openMirror(kernel, tally, location)
  const histories = [mirror, source].filter((each) => each !== null)
  const heads = legibleHeads(kernel, options.timelines, (timeline, { message: what, code }) => {
    tally.faults.push({ timeline, seq: null, where: `${location}: timelines`, what, code })
  })
  for await (const head of heads) {
    if (options.signal?.aborted) throw new RepriseError('ABORTED', 'verify: aborted', {}, options.signal.reason)
    tally.timelines += 1
    const what = editWords(head)
    if (what !== null && tally.edited.length < editedMax) tally.edited.push({ timeline: head.timeline, what })
    if (isHeadLost(head)) await verifyHead(kernel, head, tally, location, options.repair ?? false)
    await verifyHistory(kernel, head, tally, location, histories, options.repair ?? false)
    await verifyCatalog(kernel, head, tally, location, options.repair ?? false, source, histories)
  }
  // What its own checks found may have been put right with the history that it holds.
  if (options.repair && inspectedFaults > 0) tally.faults.splice(0, inspectedFaults, ...(await structures()).faults)
  const { chunks, orphans } = options.timelines
    ? { chunks: tally.live.size, orphans: 0 }
    : await countChunks(kernel, tally.live).catch((error) => {
        if (!cannotTell(error) && !isReprise(error, 'STORE_DAMAGED')) throw error
        const { message, code } = error as RepriseError
        const list = cannotTell(error) ? tally.cannotTell : tally.faults
        list.push({ timeline: null, seq: null, where: `${location}: chunks`, what: message, code })
        return { chunks: 0, orphans: 0 }
      })
  if (mirror && !options.timelines) await verifyMirror(kernel, mirror, tally, options.repair ?? false)
  if (!options.timelines) await verifyRedundancy(kernel, tally, location, options.repair ?? false)
  const { faults, timelines, entries, checkpoints } = tally
  const isWhole = tally.healed.every((fault) => fault.isPutRight)
  const ok = faults.length === 0 && tally.cannotTell.length === 0 && isWhole
  if (options.repair && (tally.healed.length > 0 || faults.length > 0)) {
    const right = tally.healed.filter((fault) => fault.isPutRight && !fault.isIncomplete).length
    const what = `${right} of ${tally.healed.length + faults.length} damaged places were put right`
    kernel.events.emit('report', { kind: 'repair', timeline: null, what, data: { healed: tally.healed, faults } })
  }
  return {
    ok,
    faults,
    healed: tally.healed,
    cannotTell: tally.cannotTell,
    timelines,
    entries,
    checkpoints,
    chunks,
    orphans,
    edited: tally.edited,
  }
}

/** Its row was lost with a damaged page, and written anew without a status: its model makes that again from its history. */
async function verifyHead(kernel: Kernel, head: Head, tally: Tally, location: string, repair: boolean): Promise<void> {
  const { timeline } = head
  const where = `${location}: timelines`
  try {
    if (!repair) throw headLost(head, 'verify --repair makes them again from its history')
    const { status } = await madeAgain(kernel, head)
    const what = `its status, queue and wakeup were lost; its status is ${status || 'empty'}, as its history says`
    tally.healed.push({ timeline, seq: null, where, what, code: 'HEAD_LOST', from: 'history', isPutRight: true })
  } catch (error) {
    if (!isReprise(error)) throw error
    tally.faults.push({ timeline, seq: null, where, what: error.message, code: error.code })
  }
}

/** Damage that has a sound copy elsewhere is put right from there, if that was asked for, and is no fault. */
async function verifyHistory(
  kernel: Kernel,
  listed: Head,
  tally: Tally,
  location: string,
  sources: readonly RepairSource[],
  repair: boolean,
): Promise<void> {
  const faultsBefore = tally.faults.length
  await followHistory(kernel, listed, tally, location)
  const fault = tally.faults[faultsBefore]
  if (!fault || sources.length === 0) return
  const [head] = await kernel.store.head([listed.timeline])
  const mending = head ? await planMending(kernel, head, sources) : null
  if (!head || !mending || !('runs' in mending) || mending.runs.length === 0) return
  const isPutRight = repair && (await mend(kernel, head, mending.runs))
  tally.faults.length = faultsBefore
  const { from } = mending.runs[0]!
  for (const { run, from } of mending.runs) {
    const what = `the entries ${run.first} to ${lastSeq(run)} were damaged or missing`
    tally.healed.push({ ...fault, seq: run.first, what, from, isPutRight })
  }
  kernel.events.emit('healed', { what: `history of ${head.timeline}`, from, isPutBack: isPutRight })
  // What is there now is what counts.
  if (isPutRight) await followHistory(kernel, head, tally, location)
}

async function followHistory(kernel: Kernel, listed: Head, tally: Tally, location: string): Promise<void> {
  let head: Head | null = listed
  await attempt(tally, listed, location, () =>
    retryWithFreshHead(async () => {
      const current = head ?? (await kernel.store.head([listed.timeline]))[0]
      head = null
      if (current) tally.entries += await countVerified(kernel, current)
    }),
  )
}

/** Follows the chain of one timeline from where its own history starts to its head. */
async function countVerified(kernel: Kernel, head: Head): Promise<number> {
  const lineage = await lineageOf(kernel, head)
  // Ancestors are verified on their own; here the own part, from where it starts.
  const own = head.base && head.floor < head.base.seq ? head.base : { seq: head.floor, digest: head.floorDigest }
  const from = lineage.length === 1 ? floorOf(lineage) : own
  const history = readHistory(kernel, [{ ...head, base: null }], from, head.seq)
  let point = from
  let entries = 0
  for (let step = await history.next(); !step.done; step = await history.next()) {
    entries += entriesOf(kernel, step.value).length
    point = { seq: lastSeq(step.value.run), digest: step.value.run.digest }
  }
  if (!equalBytes(point.digest, head.digest)) {
    throw new RepriseError('HISTORY_DAMAGED', `history leads to another digest than the head has`, { seq: head.seq })
  }
  return entries
}

async function verifyCatalog(
  kernel: Kernel,
  head: Head,
  tally: Tally,
  location: string,
  repair: boolean,
  source: RepairSource | null,
  histories: readonly RepairSource[],
): Promise<void> {
  const fetched = source ? await fetchLines(kernel, head, source) : []
  const { records: lines, mended, lost } = await readCatalog(kernel, head, repair)
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
  }
  const io = watching(kernel, repair, source, (digest, from, isPutRight) => {
    const what = `chunk ${toHex(digest)} was damaged or missing`
    if (tally.healed.some((fault) => fault.what === what)) return
    tally.healed.push({ ...faultOf(head, `${location}: chunks`, '', 'CHUNK_DAMAGED'), what, from, isPutRight })
  })
  const model = kernel.models.find(head.timeline)
  let restorable = 0
  for (const record of records) {
    tally.checkpoints += 1
    const isSound = await attempt(tally, head, `${location}: checkpoint ${record.id}`, async () => {
      try {
        const manifest = readManifest(kernel, record)
        if (record.seq > head.seq && record.seq > (await seqNow(kernel, head))) {
          throw new RepriseError('CHECKPOINT_DAMAGED', 'lies beyond the head', { seq: record.seq })
        }
        await verifyChunks(manifest, io)
        // What was found bad before is named by its mark, and nobody restores it.
        if (record.invalid === null) await model?.readCheckpoint?.(record, manifest, io)
        for (const digest of await liveChunks(manifest, io)) tally.live.add(toHex(digest))
      } catch (error) {
        // Retention may have dropped it while we read: what is gone is not damaged.
        if (!(await isInCatalog(kernel, record, head))) return
        if (await isChunkless(kernel, record)) throw new RepriseError('CHUNKS_ELSEWHERE', chunkless, {}, error)
        throw error
      }
    })
    // What its copy says was read and found whole just now.
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

/** Null: none is kept, or it cannot be read here, which is told. */
async function openMirror(kernel: Kernel, tally: Tally, location: string): Promise<MirrorSource | null> {
  const mirror = await mirrorFor(kernel)
  if (typeof mirror !== 'string') return mirror
  tally.cannotTell.push({ timeline: null, seq: null, where: `${location}: mirror`, what: mirror, code: 'NOT_FOUND' })
  return null
}

async function verifyMirror(kernel: Kernel, mirror: MirrorSource, tally: Tally, repair: boolean): Promise<void> {
  const what = await faultOfMirror(kernel, mirror)
  if (what === null) return
  const isPutRight = repair && (await new Mirror(kernel, mirror.path).writeAnew())
  const fault = { timeline: null, seq: null, where: mirror.name, what, code: 'HISTORY_DAMAGED' }
  tally.healed.push({ ...fault, from: 'rest', isPutRight })
}

/** The parity and the copies: nobody reads them until they are needed. */
async function verifyRedundancy(kernel: Kernel, tally: Tally, location: string, repair: boolean): Promise<void> {
  const { redundancy } = kernel
  if (!redundancy) return
  try {
    for (const what of await redundancy.blobs.inspect()) {
      const fault = { timeline: null, seq: null, where: `${location}: redundancy`, what, code: 'CHUNK_DAMAGED' }
      tally.healed.push({ ...fault, from: 'rest', isPutRight: repair })
    }
    if (!repair) return
    await redundancy.blobs.repair(tally.live)
    for await (const head of headsOf(kernel)) {
      await redundancy.tendCatalog(head.timeline, kernel.models.foldOf(head.timeline)?.authority === 'state')
    }
  } catch (error) {
    // Where chunks lie elsewhere, the count of chunks has told so.
    if (!cannotTell(error)) throw error
  }
}

function faultOf(head: Head, where: string, id: string, code: string): Fault {
  const what = `the line of checkpoint ${id} is damaged or missing`
  return { timeline: head.timeline, seq: null, where, what, code }
}

/** Lines that the store has lost or can no longer read, and that have no copy here. Says which were found. */
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
    // One that is not here was dropped, unless the store itself says that lines are missing.
    const isWanted = own ? damaged(own) : records.length === 0
    if (!isWanted || record.seq > head.seq) continue
    if (await redundancy.restoreLine(head.timeline, record, source.name)) fetched.push(record.id)
  }
  return fetched
}

function isDamagedLine(kernel: Kernel): (record: ManifestRecord) => boolean {
  return (record) => !isSoundLine(kernel.hash, record)
}

/** Reads what is damaged from its redundancy, or from elsewhere, and tells of it; without `repair` it changes nothing. */
function watching(
  kernel: Kernel,
  repair: boolean,
  source: RepairSource | null,
  told: (digest: Uint8Array, from: string, isPutRight: boolean) => void,
): StateIo {
  const io = stateIo(kernel)
  const { blobs } = io
  return {
    ...io,
    blobs: forwardBlobs(blobs, {
      async mend(digest) {
        const mended = (await blobs.mend?.(digest, repair)) ?? null
        if (mended) told(digest, 'parity', repair && (await isInPlace(kernel, digest)))
        if (mended || !source) return mended
        const found = await source.chunk(digest)
        if (!found || !(await kernel.redundancy?.blobs.restore(digest, found, source.name))) return null
        told(digest, source.name, true)
        return found
      },
    }),
  }
}

/** What was put back can be read back. Where the place is broken, the copy lies aside, and the next damage would take it. */
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

async function attempt(tally: Tally, head: Head, where: string, check: () => Promise<void>): Promise<boolean> {
  try {
    await check()
    return true
  } catch (error) {
    if (!(error instanceof RepriseError) || error.remedy === 'retry') throw error
    const seq = typeof error.data.seq === 'number' ? error.data.seq : null
    const list = cannotTell(error) ? tally.cannotTell : tally.faults
    list.push({ timeline: head.timeline, seq, where, what: error.message, code: error.code })
    return false
  }
}

async function countChunks(kernel: Kernel, live: ReadonlySet<string>): Promise<{ chunks: number; orphans: number }> {
  let chunks = 0
  let orphans = 0
  let after: Uint8Array | null = null
  for (;;) {
    const page: { readonly digest: Uint8Array }[] = await kernel.store.blobs.list(after, 1000)
    for (const { digest } of page) {
      chunks += 1
      if (!live.has(toHex(digest))) orphans += 1
    }
    if (page.length < 1000) return { chunks, orphans }
    after = page[page.length - 1]!.digest
  }
}
