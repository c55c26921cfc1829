// Verify: reads everything and believes nothing. Chains, joints between forks and parents, manifests, chunks, floors,
// orphans, and the store's own structures. Each fault is named with its timeline, sequence and place; nothing is changed.

import { equalBytes, type TimelineId, timelineId, toHex } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Head, ManifestRecord } from '../../core/ports.ts'
import { lastSeq } from '../../core/run.ts'
import type { Kernel } from '../kernel.ts'
import { stateIo } from '../kernel-io.ts'
import { entriesOf, floorOf, lineageOf, readHistory } from '../recovery/history.ts'
import { cannotTell, chunkless, isChunkless, readManifest } from '../recovery/recover.ts'
import { liveChunks, verifyChunks } from '../recovery/restore.ts'
import { lookAgain } from '../recovery/second-look.ts'
import { lacking, lackingKeys } from '../seal/key-notes.ts'

export interface Fault {
  readonly timeline: string | null
  readonly seq: number | null
  /** The file, table or chunk. */
  readonly where: string
  readonly what: string
  readonly code: string
}

export interface VerifyReport {
  readonly ok: boolean
  readonly faults: readonly Fault[]
  /** What this process could not read because it lacks something: keys, classes, a higher limit, the folder of the chunks. */
  readonly cannotTell: readonly Fault[]
  readonly timelines: number
  readonly entries: number
  readonly checkpoints: number
  readonly chunks: number
  /** Chunks that no checkpoint needs: collect() removes them. Not a fault. */
  readonly orphans: number
}

export interface VerifyOptions {
  /** Only these timelines; the store's own structures and orphans are then left out. */
  readonly timelines?: readonly string[]
  readonly signal?: AbortSignal
}

interface Tally {
  readonly faults: Fault[]
  readonly cannotTell: Fault[]
  readonly live: Set<string>
  timelines: number
  entries: number
  checkpoints: number
}

export async function verify(kernel: Kernel, options: VerifyOptions = {}): Promise<VerifyReport> {
  const tally: Tally = { faults: [], cannotTell: [], live: new Set(), timelines: 0, entries: 0, checkpoints: 0 }
  const { location } = await kernel.store.facts()
  const missing = await lackingKeys(kernel)
  if (missing.length > 0) {
    const { message: what, code } = lacking(missing)
    tally.cannotTell.push({ timeline: null, seq: null, where: `${location}: keys`, what, code })
  }
  if (!options.timelines) {
    for (const { where, what } of await kernel.store.inspect()) {
      tally.faults.push({ timeline: null, seq: null, where: `${location}: ${where}`, what, code: 'STORE_DAMAGED' })
    }
  }
  for await (const head of headsOf(kernel, options.timelines)) {
    if (options.signal?.aborted) throw new RepriseError('ABORTED', 'verify: aborted', {}, options.signal.reason)
    tally.timelines += 1
    await verifyHistory(kernel, head, tally, location)
    await verifyCatalog(kernel, head, tally, location)
  }
  const { chunks, orphans } = options.timelines
    ? { chunks: tally.live.size, orphans: 0 }
    : await countChunks(kernel, tally.live).catch((error) => {
        if (!cannotTell(error)) throw error
        const { message, code } = error as RepriseError
        tally.cannotTell.push({ timeline: null, seq: null, where: `${location}: chunks`, what: message, code })
        return { chunks: 0, orphans: 0 }
      })
  const { faults, timelines, entries, checkpoints } = tally
  const ok = faults.length === 0 && tally.cannotTell.length === 0
  return { ok, faults, cannotTell: tally.cannotTell, timelines, entries, checkpoints, chunks, orphans }
}

export async function* headsOf(kernel: Kernel, only?: readonly string[]): AsyncGenerator<Head> {
  if (only) {
    const heads = await kernel.store.head(only.map((id) => timelineId(id)))
    for (let i = 0; i < heads.length; i++) {
      if (!heads[i]) throw new RepriseError('NOT_FOUND', `there is no timeline ${only[i]}`, { timeline: only[i] })
      yield heads[i]!
    }
    return
  }
  let after: TimelineId | undefined
  for (;;) {
    const page = await kernel.store.timelines({ limit: 200, ...(after !== undefined && { after }) })
    yield* page
    if (page.length < 200) return
    after = page[page.length - 1]!.timeline
  }
}

async function verifyHistory(kernel: Kernel, listed: Head, tally: Tally, location: string): Promise<void> {
  let head: Head | null = listed
  await attempt(tally, listed, location, () =>
    lookAgain(async () => {
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

async function verifyCatalog(kernel: Kernel, head: Head, tally: Tally, location: string): Promise<void> {
  const records = await kernel.store.checkpoints(head.timeline)
  const io = stateIo(kernel)
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
        for (const digest of await liveChunks(manifest, io)) tally.live.add(toHex(digest))
      } catch (error) {
        // Retention may have dropped it while we read: what is gone is not damaged.
        if (!(await isInCatalog(kernel, record, head))) return
        if (await isChunkless(kernel, record)) throw new RepriseError('CHUNKS_ELSEWHERE', chunkless, {}, error)
        throw error
      }
    })
    if (isSound && isRestorable(record, head)) restorable += 1
  }
  const isUnknown = tally.cannotTell.some((fault) => fault.timeline === head.timeline)
  if (head.floor > 0 && restorable === 0 && !isUnknown && !(head.base && head.floor <= head.base.seq)) {
    tally.faults.push({
      timeline: head.timeline,
      seq: head.floor,
      where: location,
      what: `history up to ${head.floor} was trimmed and no sound, verified checkpoint at or above it is left`,
      code: 'UNRECOVERABLE',
    })
  }
}

async function isInCatalog(kernel: Kernel, record: ManifestRecord, head: Head): Promise<boolean> {
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
