// Verify reads everything and trusts nothing: chains, joints between forks and parents, manifests, chunks, floors, orphans,
// and the store's own structures. Each fault is reported with its timeline, sequence and place. Nothing is changed without
// `repair`, which repairs damage from redundancy or from another source.

import { equalBytes, toHex } from '../../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../../core/errors.ts'
import { lastSeq } from '../../../core/history/entry-run.ts'
import { isHeadLost } from '../../../core/history/lost-head.ts'
import type { ChunkRow, Head } from '../../../core/store/ports.ts'
import { eachPage } from '../../../lib/each-page.ts'
import { Yielder } from '../../base/yielder.ts'
import { Mirror } from '../../feed/mirror/mirror.ts'
import { entriesOf, floorOf, lineageOf, readHistory } from '../../history/history.ts'
import { cannotTell } from '../../history/recover.ts'
import { retryWithFreshHead } from '../../history/retry-with-fresh-head.ts'
import { editWords } from '../../model/fork-edit.ts'
import { headLost, madeAgain } from '../../ownership/lost-head.ts'
import type { VerifyReport } from '../../storage/fault.ts'
import type { Kernel } from '../../storage/kernel.ts'
import { lacking, lackingKeys } from '../../storage/key-notes.ts'
import { lossesOf, noteLosses, storeLosses } from '../../storage/losses.ts'
import type { OpenUrl } from '../../storage/open-store.ts'
import { headsOf, inspected, legibleHeads, renewed } from '../../storage/sound-page.ts'
import { storeChanges } from '../../storage/store-change.ts'
import { mend, planMending } from '../repair/history.ts'
import { faultOfMirror, type MirrorSource, mirrorFor } from '../repair/mirror-source.ts'
import { openSource, type RepairSource } from '../repair/source.ts'
import { type CatalogCheck, noteLive, verifyCatalog } from './catalog.ts'
import { attempt, newTally, type Tally } from './findings.ts'
import { type VerifyProgress, VerifyWatch } from './progress.ts'

export type { EarlierVerify, Fault, HealedFault, VerifyReport } from '../../storage/fault.ts'
export type { VerifyProgress } from './progress.ts'

export type VerifyOptions = {
  /** Only these timelines; the store's own structures and orphans are then not checked. */
  readonly timelines?: readonly string[]
  readonly signal?: AbortSignal
  readonly onProgress?: (progress: VerifyProgress) => void
  /**
   * Saves progress in the store once per second, and resumes an interrupted verify, if there is any: timelines that were
   * verified then and not written since are skipped, and the report names this. For the whole store, and without `repair`.
   */
  readonly resume?: boolean
} & (
  | {
      /** Repairs everything with an intact copy: chunks, parity, lines of the catalog. Default: false, nothing is changed. */
      readonly repair?: boolean
      readonly from?: never
    }
  | {
      readonly repair: true
      /** Another source of intact copies: a store's URL, a folder of chunks, an export or a backup. */
      readonly from: string
    }
)

const editedMax = 100

export async function verify(
  kernel: Kernel,
  options: VerifyOptions = {},
  places: OpenUrl | null = null,
): Promise<VerifyReport> {
  const { from, repair }: { readonly from?: string; readonly repair?: boolean } = options
  if (from === undefined || !places) return await verifyWith(kernel, options, null)
  // The types forbid this as well.
  if (!repair) {
    throw new RepriseError('INVALID_ARGUMENT', 'from names the source of copies for a repair: set repair, too', {
      from,
    })
  }
  const source = await openSource(kernel, from, places)
  try {
    return await verifyWith(kernel, options, source)
  } finally {
    await source.close()
  }
}

async function verifyWith(kernel: Kernel, options: VerifyOptions, source: RepairSource | null): Promise<VerifyReport> {
  const tally = newTally()
  const { repair = false } = options
  const { location, isReadOnly } = await kernel.store.upkeep.facts()
  const watch = await VerifyWatch.begin(kernel, options, { location, isReadOnly })
  const missing = await lackingKeys(kernel)
  if (missing.length > 0) {
    const { message: what, code } = lacking(missing)
    tally.cannotTell.push({ timeline: null, seq: null, where: `${location}: keys`, what, code })
  }
  const structures = async () =>
    options.timelines || watch.areStructuresDone
      ? { faults: [], isOfFile: false }
      : await inspected(kernel, location, watch.inspection())
  const first = await structures()
  tally.faults.push(...first.faults)
  const inspectedFaults = tally.faults.length
  if (inspectedFaults === 0) await watch.structuresDone()
  if (repair && first.isOfFile) {
    const outcome = await renewed(kernel, location)
    tally.healed.push(...(outcome?.healed ?? []))
    tally.faults.push(...(outcome?.lost ?? []))
  }
  if (repair && inspectedFaults > 0) await mendLives(kernel, tally, `${location}: the past`)
  const mirror = await openMirror(kernel, tally, location)
  const histories = [mirror, source].filter((each) => each !== null)
  const heads = legibleHeads(kernel, options.timelines, (timeline, { message: what, code }) => {
    tally.faults.push({ timeline, seq: null, where: `${location}: timelines`, what, code })
  })
  const yielder = new Yielder(kernel.clock)
  const how: CatalogCheck = { location, repair, source, histories, yielder }
  for await (const head of heads) {
    await yielder.take()
    await watch.at(head, tally)
    tally.timelines += 1
    const what = editWords(head)
    if (what !== null && tally.edited.length < editedMax) tally.edited.push({ timeline: head.timeline, what })
    if (watch.wasVerified(head) && (await noteLive(kernel, head, tally))) {
      tally.entries += head.seq - Math.max(head.floor, head.base?.seq ?? 0)
      watch.passedOver()
      continue
    }
    if (isHeadLost(head)) await verifyHead(kernel, head, tally, location, repair)
    await verifyHistory(kernel, head, tally, how)
    await verifyCatalog(kernel, head, tally, how)
  }
  // Faults of the structures may have been repaired together with the history in them.
  if (repair && inspectedFaults > 0) tally.faults.splice(0, inspectedFaults, ...(await structures()).faults)
  const counted = options.timelines
    ? { chunks: tally.live.size, orphans: 0 }
    : await countChunks(kernel, tally.live, watch, yielder).catch((error) => {
        if (!cannotTell(error) && !isReprise(error, 'STORE_DAMAGED')) throw error
        const { message, code } = error as RepriseError
        const list = cannotTell(error) ? tally.cannotTell : tally.faults
        list.push({ timeline: null, seq: null, where: `${location}: chunks`, what: message, code })
        return { chunks: 0, orphans: 0 }
      })
  watch.report({ part: 'copies', done: 0, total: null, at: null })
  if (mirror && !options.timelines) await verifyMirror(kernel, mirror, tally, repair)
  if (!options.timelines) await verifyRedundancy(kernel, tally, location, repair)
  await watch.end()
  return { ...(await concluded(kernel, options, tally)), ...counted, earlier: watch.earlier }
}

/** A lost life is also noted in the store, until a person accepts the loss. */
async function mendLives(kernel: Kernel, tally: Tally, where: string): Promise<void> {
  const { mended, lost } = await kernel.store.upkeep.mendPasts()
  const fault = (what: string) => ({ timeline: null, seq: null, where, what, code: 'STORE_DAMAGED' })
  tally.healed.push(...mended.map((what) => ({ ...fault(what), from: 'its checksum', isPutRight: true })))
  tally.faults.push(...lost.map(fault))
  tally.lost.push(...lost.map((what) => ({ timeline: null, where, what })))
}

/** The verdict over everything that was found, with the losses and unfinished changes of the store. */
async function concluded(
  kernel: Kernel,
  { timelines: only, repair = false }: VerifyOptions,
  tally: Tally,
): Promise<Omit<VerifyReport, 'chunks' | 'orphans' | 'earlier'>> {
  const { faults, timelines, entries, checkpoints } = tally
  const isWhole = tally.healed.every((fault) => fault.isPutRight)
  const changes = only ? [] : await storeChanges(kernel)
  const areEnded = changes.every(({ blocks, isRunning }) => isRunning && !blocks)
  if (repair) await noteLosses(kernel, tally.lost)
  const losses = lossesOf(await storeLosses(kernel), only)
  const isSound = faults.length === 0 && losses.length === 0
  const ok = isSound && tally.cannotTell.length === 0 && isWhole && areEnded
  if (repair && (tally.healed.length > 0 || faults.length > 0)) {
    const right = tally.healed.filter((fault) => fault.isPutRight && !fault.isIncomplete).length
    const what = `${right} of ${tally.healed.length + faults.length} damaged places were repaired`
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
    edited: tally.edited,
    unfinished: changes,
    losses,
  }
}

/** A row lost with a damaged page was rewritten without a status: the model recomputes the status from history. */
async function verifyHead(kernel: Kernel, head: Head, tally: Tally, location: string, repair: boolean): Promise<void> {
  const { timeline } = head
  const where = `${location}: timelines`
  try {
    if (!repair) throw headLost(head, 'verify --repair rebuilds them from its history')
    const { status } = await madeAgain(kernel, head)
    const what = `its status, queue and wakeup were lost; its status is ${status || 'empty'}, as recorded in its history`
    tally.healed.push({ timeline, seq: null, where, what, code: 'HEAD_LOST', from: 'history', isPutRight: true })
  } catch (error) {
    if (!isReprise(error)) throw error
    tally.faults.push({ timeline, seq: null, where, what: error.message, code: error.code })
  }
}

/** With `repair`, damage with an intact copy elsewhere is repaired from there, and is not a fault. */
async function verifyHistory(
  kernel: Kernel,
  listed: Head,
  tally: Tally,
  { location, repair, histories: sources, yielder }: CatalogCheck,
): Promise<void> {
  const faultsBefore = tally.faults.length
  await followHistory(kernel, listed, tally, location, yielder)
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
  // Only the current state counts.
  if (isPutRight) await followHistory(kernel, head, tally, location, yielder)
}

async function followHistory(
  kernel: Kernel,
  listed: Head,
  tally: Tally,
  location: string,
  yielder: Yielder,
): Promise<void> {
  let head: Head | null = listed
  await attempt(tally, listed, location, () =>
    retryWithFreshHead(async () => {
      const current = head ?? (await kernel.store.head([listed.timeline]))[0]
      head = null
      if (current) tally.entries += await countVerified(kernel, current, yielder)
    }),
  )
}

/** Follows the chain of one timeline from where its own history starts to its head. */
async function countVerified(kernel: Kernel, head: Head, yielder: Yielder): Promise<number> {
  const lineage = await lineageOf(kernel, head)
  // Ancestors are verified on their own; here only the timeline's own part.
  const own = head.base && head.floor < head.base.seq ? head.base : { seq: head.floor, digest: head.floorDigest }
  const from = lineage.length === 1 ? floorOf(lineage) : own
  const history = readHistory(kernel, [{ ...head, base: null }], from, head.seq)
  let point = from
  let entries = 0
  for (let step = await history.next(); !step.done; step = await history.next()) {
    entries += entriesOf(kernel, step.value).length
    if (yielder.isDue) await yielder.take()
    point = { seq: lastSeq(step.value.run), digest: step.value.run.digest }
  }
  if (!equalBytes(point.digest, head.digest)) {
    throw new RepriseError('HISTORY_DAMAGED', `history does not lead to the digest of the head`, { seq: head.seq })
  }
  return entries
}

/** Null: there is no mirror, or it cannot be read here, which is reported. */
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

/** Checks parity and copies, which are not read until they are needed. */
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
    // For chunks stored elsewhere, the count of chunks has reported it.
    if (!cannotTell(error)) throw error
  }
}

async function countChunks(
  kernel: Kernel,
  live: ReadonlySet<string>,
  watch: VerifyWatch,
  yielder: Yielder,
): Promise<{ chunks: number; orphans: number }> {
  let chunks = 0
  let orphans = 0
  const { blobs } = kernel.store
  for await (const page of eachPage<ChunkRow>((last, limit) => blobs.list(last?.digest ?? null, limit), 1000)) {
    await yielder.take()
    watch.report({ part: 'chunks', done: chunks, total: null, at: null })
    for (const { digest } of page) {
      chunks += 1
      if (!live.has(toHex(digest))) orphans += 1
    }
  }
  return { chunks, orphans }
}
