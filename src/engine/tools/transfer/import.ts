// Imports timelines from a file. They become visible together, each whole: their parts are verified against the chain before
// the last commits, which are one batch and also contain the mail and the wakeup of each. Until then they cannot be opened. An
// interrupted import resumes when the same file is imported again.

import {
  type Coordinate,
  type Digest,
  equalBytes,
  type ManifestId,
  type MessageId,
  type TimelineId,
  timelineId,
  toHex,
} from '../../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../../core/errors.ts'
import { lastSeq, unpackEntries, verifyEntries } from '../../../core/history/entry-run.ts'
import {
  copiedAttribute,
  importedOriginal,
  inheritedAttribute,
  originalAttribute,
} from '../../../core/history/inheritance.ts'
import { checkIn, isRedacted } from '../../../core/history/redacted-run.ts'
import { checkAttributes } from '../../../core/store/argument-checks.ts'
import type { Commit, EntryRun, Head, ManifestRecord, OutgoingMessage } from '../../../core/store/ports.ts'
import { refusalError } from '../../base/refusal-error.ts'
import { recordErasure } from '../../history/erasures.ts'
import { entriesOf, type Point } from '../../history/history.ts'
import { existing, locate } from '../../history/locate.ts'
import { readManifest } from '../../history/recover.ts'
import { checkSameKind, refuseOfStore } from '../../model/id-prefixes.ts'
import type { HeadAgain } from '../../model/model.ts'
import { checkChunkSize, stateIo } from '../../snapshot/kernel-io.ts'
import { restoreState, verifyChunks } from '../../snapshot/restore.ts'
import { identityAttribute } from '../../storage/carried-identity.ts'
import { ChunkHold } from '../../storage/chunk-hold.ts'
import { type Kernel, newId, newOperation, submit } from '../../storage/kernel.ts'
import { markIn, movedAttribute, movedStatus } from '../../storage/moved-mark.ts'
import { heldAttribute } from '../../storage/restore-hold.ts'
import { importingAttribute, importingStatus } from '../../storage/store-change.ts'
import { forgetUnlessMail } from '../housekeeping/delete.ts'
import { type Header, inheritanceBeside, messagesMax, type TransferredMessage } from './export.ts'
import { type Frame, firstFrame, readTransfer, type TransferSource } from './export-file.ts'
import { checkOpens, decodeRun, headerOf, messageOf, readIdsOf, recordOf } from './file-checks.ts'
import { refuseForeignFeed } from './foreign-feed.ts'
import { carriedAndRead, ReadElsewhere, readdress } from './import-mail.ts'

export interface ImportOptions {
  /** An id other than the one in the file; only for a file with one timeline. */
  readonly as?: string
  /** A timeline that already exists with the same history is treated as imported. */
  readonly orSame?: boolean
}

export interface ArrivalOptions extends ImportOptions {
  /** A moved timeline that already exists receives the unread messages of the file, which were sent to its old place. */
  readonly takesLateMail?: boolean
}

export interface Imported extends Coordinate {
  /** True: it existed already, with the same history (`orSame`). */
  readonly isSame?: boolean
}

/** The model's part in the commit that makes a timeline visible. `isCopy`: it arrives under another id. */
export type Arrival = (head: Head, isCopy: boolean) => Promise<Arriving>

export interface Arriving {
  readonly send: readonly OutgoingMessage[]
  /** Replaces parts of the head in the file. */
  readonly head?: HeadAgain
  /** Whether unread messages of this kind in the file arrive. */
  takes(kind: string): boolean
}

/** Throws if a timeline of the file may not arrive under another id. */
export type Admission = (id: TimelineId, isSameAs: (head: Head) => Promise<boolean>) => Promise<void>

/** All timelines of the file, in its order. @example await rp.import('orders.reprise', { as: 'counter/restored' }) */
export async function importTimelines(
  kernel: Kernel,
  source: TransferSource,
  options: ArrivalOptions,
  arrive: Arrival,
  admit: Admission = async () => undefined,
  /** The id of the change that includes this import (store-change.ts). */
  change = 'import',
  isCopy = false,
  stored: (timelines: number) => Promise<void> = async () => undefined,
): Promise<Imported[]> {
  const filled: Filled[] = []
  try {
    await fillAll(kernel, source, { ...options, change, isCopy }, arrive, admit, filled, stored)
    await show(kernel, filled)
  } catch (error) {
    for (const each of filled) await leave(kernel, each, error)
    throw error
  }
  return filled.map(({ imported }) => imported)
}

/** The ids in the file. Throws NOT_A_SAVEPOINT, before anything is written: the file is not an export. */
export async function timelinesIn({ codec }: Pick<Kernel, 'codec'>, path: string): Promise<string[]> {
  const frames = readTransfer(path)
  const ids = [headerOf(codec.decode((await firstFrame(frames)).value!.bytes)).timeline]
  for await (const { kind, bytes } of frames) if (kind === 'header') ids.push(headerOf(codec.decode(bytes)).timeline)
  return ids
}

async function fillAll(
  kernel: Kernel,
  source: TransferSource,
  options: FillOptions,
  arrive: Arrival,
  admit: Admission,
  filled: Filled[],
  stored: (timelines: number) => Promise<void>,
): Promise<void> {
  const frames = readTransfer(source)
  let next = await firstFrame(frames)
  while (!next.done) {
    const header = headerOf(kernel.codec.decode(next.value.bytes))
    checkAttributes(header.attributes, kernel.limits)
    if (options.as !== undefined && filled.length > 0) {
      throw new RepriseError('INVALID_ARGUMENT', 'the file holds several timelines: they keep their ids', {})
    }
    if (options.change !== 'restore') await refuseForeignFeed(kernel, header)
    const id = timelineId(options.as ?? header.timeline)
    if (options.as !== undefined) {
      refuseOfStore(id)
      checkSameKind(header.timeline, id)
      await admit(id, async (head) => head.seq >= header.seq && (await isSame(kernel, head.timeline, header)))
    }
    const section = new Section(frames)
    filled.push(await importOne(kernel, id, header, section, options, arrive))
    await stored(filled.length)
    for await (const _ of section) void _
    next = section.after
  }
}

type FillOptions = ArrivalOptions & { readonly change: string; readonly isCopy: boolean }

/** A timeline of the file that is stored and not visible yet. */
interface Filled {
  readonly imported: Imported
  readonly begun: Begun | null
  /** Makes it visible. Null: it existed before. */
  readonly last: Commit | null
}

/** Commits in one batch: one database makes all of them visible, or none. */
async function show({ committer }: Kernel, filled: readonly Filled[]): Promise<void> {
  const commits = filled.flatMap(({ last }) => (last ? [last] : []))
  const outcomes = await Promise.all(commits.map((commit) => committer.submit(commit)))
  for (const [i, outcome] of outcomes.entries()) {
    if (!outcome.ok) throw refusalError(commits[i]!.guard?.timeline ?? commits[i]!.send![0]!.to, outcome)
  }
}

/**
 * Cleans up after a failure. If the store failed, the stored part of a timeline is intact, and the next import of this file
 * resumes from there. A timeline that had been moved away and returns is marked as moved again.
 */
async function leave(
  kernel: Kernel,
  { begun, imported }: Pick<Filled, 'begun' | 'imported'>,
  error: unknown,
): Promise<void> {
  if (!begun) return
  const timeline = timelineId(imported.timeline)
  const isWorthKeeping = isReprise(error) && error.remedy === 'retry'
  try {
    const [head] = await kernel.store.head([timeline])
    // Another process owns it by now.
    if (head?.epoch !== begun.epoch) return
    if (!begun.isReturn && !isWorthKeeping && (await forgetUnlessMail(kernel, head))) return
    await submit(kernel, {
      guard: { timeline, epoch: begun.epoch },
      release: true,
      ...(begun.isReturn && { status: movedStatus, attributes: { [importingAttribute]: null } }),
    })
  } catch {
    // The caller gets the first failure. The note of the import stays, and names the remaining ones.
  }
}

/** The frames of one timeline, and then the frame after them. */
class Section implements AsyncIterable<Frame> {
  after: IteratorResult<Frame, void> = { done: true, value: undefined }
  readonly #frames: AsyncIterator<Frame, void>
  #isOver = false

  constructor(frames: AsyncIterator<Frame, void>) {
    this.#frames = frames
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Frame> {
    while (!this.#isOver) {
      const step = await this.#frames.next()
      if (step.done || step.value.kind === 'header') {
        this.#isOver = true
        this.after = step
        return
      }
      yield step.value
    }
  }
}

async function importOne(
  kernel: Kernel,
  id: TimelineId,
  header: Header,
  frames: AsyncIterable<Frame>,
  options: FillOptions,
  arrive: Arrival,
): Promise<Filled> {
  const imported = { timeline: id, seq: header.seq, epoch: header.epoch, digest: toHex(header.digest) }
  let begun: Begun
  try {
    begun = await begin(kernel, id, header, options.change)
  } catch (error) {
    if (options.orSame && isReprise(error, 'EXISTS') && (await isSame(kernel, id, header))) {
      const last = options.takesLateMail ? await lateMail(kernel, id, frames) : null
      return { imported: { ...imported, isSame: true }, begun: null, last }
    }
    throw error
  }
  try {
    const isRestored = options.change === 'restore'
    const last = await fill({ kernel, id, begun, header, frames, arrive, isRestored })
    // Under its old id, it is the timeline that was exported. Under another, or in a copy, it lives beside that one.
    const how = { isBeside: options.isCopy || id !== header.timeline, isRestored }
    const identity = await kernel.identity.arriving(await existing(kernel, id), header.carried, how)
    const inherited = how.isBeside && { [inheritedAttribute]: inheritanceBeside(kernel, header) }
    const arrived = { ...last.attributes, [identityAttribute]: identity, ...inherited }
    const attributes = { ...arrived, [originalAttribute]: importedOriginal(arrived) }
    return { imported: { ...imported, epoch: begun.epoch }, begun, last: { ...last, attributes } }
  } catch (error) {
    await leave(kernel, { begun, imported }, error)
    throw error
  }
}

async function lateMail(kernel: Kernel, id: TimelineId, frames: AsyncIterable<Frame>): Promise<Commit | null> {
  const send: OutgoingMessage[] = []
  for await (const { kind, bytes } of frames) {
    if (kind === 'message')
      send.push(within(send, messagesMax, readdress(kernel, id, messageOf(kernel.codec.decode(bytes)))))
  }
  return send.length === 0 ? null : { operation: newOperation(kernel.random), guard: null, send }
}

export async function isSame(kernel: Kernel, id: TimelineId, header: Pick<Header, 'seq' | 'digest'>): Promise<boolean> {
  try {
    const { head } = await locate(kernel, { timeline: id, seq: header.seq, epoch: 0, digest: toHex(header.digest) })
    return head.timeline === id && head.status !== importingStatus
  } catch (error) {
    if (isReprise(error, 'NOT_ON_BRANCH', 'OUT_OF_RANGE')) return false
    throw error
  }
}

interface Begun {
  readonly epoch: number
  /** History exists up to this point. */
  readonly at: Point
  /** True: it was moved away from here, and returns. */
  readonly isReturn: boolean
}

/** The timeline is new, or left by a dead import of the same history, or was moved away and has grown elsewhere. */
async function begin(kernel: Kernel, id: TimelineId, header: Header, change: string): Promise<Begun> {
  const floor = { seq: header.floor, digest: header.floorDigest }
  const [left] = await kernel.store.head([id])
  const isLeft = left?.status === importingStatus
  const wasMoved = left?.status === movedStatus || (isLeft && left.attributes[movedAttribute] !== undefined)
  const isReturn = wasMoved && header.floor <= left!.seq && header.seq >= left!.seq
  if (isLeft && left.isOwnerAlive) await kernel.deadWorkers.retireGone()
  const isOurs = isReturn || (isLeft && left.floor === floor.seq && equalBytes(left.floorDigest, floor.digest))
  if (isLeft && !isOurs && !left.isOwnerAlive && !(await forgetUnlessMail(kernel, left))) {
    const what = `mail waits for ${id}, which another import has begun: resume or abandon that import (reprise changes)`
    throw new RepriseError('CHANGE_UNFINISHED', what, {
      timeline: id,
      change: left.attributes[importingAttribute] ?? null,
    })
  }
  // A restored timeline is the one that was backed up: its previous owner is fenced by the epoch.
  const copyOf = change === 'restore' ? { life: header.life ?? 1, epoch: header.epoch } : null
  const { epoch } = isOurs ? left! : (copyOf ?? (await kernel.identity.past(id)))
  const create = { digest: floor.digest, floor, ...(copyOf && { copyOf }) }
  const outcome = await submit(kernel, {
    guard: { timeline: id, epoch },
    take: { worker: await kernel.worker.register(), from: 'dead', create },
    status: importingStatus,
    attributes: { [importingAttribute]: change },
  })
  if (outcome.ok) {
    return { epoch: outcome.epoch, at: isOurs ? { seq: left!.seq, digest: left!.digest } : floor, isReturn }
  }
  if (isLeft && outcome.code === 'OWNED') {
    throw new RepriseError('OWNED', `${id} is being imported by another process`, { timeline: id })
  }
  throw outcome.code === 'FENCED' || outcome.code === 'EXISTS' || outcome.code === 'OWNED'
    ? new RepriseError('EXISTS', `there is already a timeline ${id}`, { timeline: id })
    : refusalError(id, outcome)
}

/** An import that has begun. */
interface Incoming {
  readonly kernel: Kernel
  readonly id: TimelineId
  readonly begun: Begun
  readonly header: Header
  readonly frames: AsyncIterable<Frame>
  readonly arrive: Arrival
  /** It belongs to a backup of a whole store. */
  readonly isRestored: boolean
}

/** Stores the content of the file, and returns the commit that opens the timeline. */
async function fill(incoming: Incoming): Promise<Commit> {
  const { kernel, id, begun, header } = incoming
  const hold = await ChunkHold.begin(kernel)
  try {
    const { at, chunks, records, messages, read } = await receive(incoming, hold)
    if (at.seq !== header.seq || !equalBytes(at.digest, header.digest)) {
      const what = `the history in the file ends at ${at.seq}, but its header has ${header.seq}`
      throw new RepriseError('NOT_A_SAVEPOINT', what)
    }
    checkOpens(header, records)
    const guard = { epoch: begun.epoch, ...at }
    await hold.publish(chunks, (chunksSince) => publish(kernel, id, guard, records, chunksSince))
    return await opening(incoming, guard, messages, read.unread)
  } finally {
    hold.end()
  }
}

interface Received {
  readonly at: Point
  readonly chunks: readonly Digest[]
  readonly records: readonly ManifestRecord[]
  readonly messages: readonly TransferredMessage[]
  readonly read: ReadElsewhere
}

async function receive({ kernel, id, begun, header, frames }: Incoming, hold: ChunkHold): Promise<Received> {
  const read = new ReadElsewhere(kernel, id, begun.epoch)
  const chunks: Digest[] = []
  const records: ManifestRecord[] = []
  const messages: TransferredMessage[] = []
  let at: Point = { seq: header.floor, digest: header.floorDigest }
  checkSame(id, at, begun.at)
  for await (const { kind, bytes } of frames) {
    if (kind === 'chunk') {
      const chunk = kernel.sealer.unwrap(bytes)
      const digest = kernel.hash(chunk)
      checkChunkSize(digest, chunk, kernel.limits.chunkBytes)
      chunks.push(digest)
      await hold.blobs.put([{ digest, bytes: chunk }])
    } else if (kind === 'checkpoint')
      records.push(within(records, checkpointsMax, recordOf(kernel.codec.decode(bytes))))
    else if (kind === 'message') messages.push(within(messages, messagesMax, messageOf(kernel.codec.decode(bytes))))
    else if (kind === 'run') {
      at = await receiveRun(kernel, id, begun, at, bytes)
      checkSame(id, at, begun.at)
    } else if (kind === 'read' && id === header.timeline) await read.add(readIdsOf(kernel.codec.decode(bytes)))
  }
  return { at, chunks, records, messages, read }
}

async function receiveRun(kernel: Kernel, id: TimelineId, begun: Begun, at: Point, bytes: Uint8Array): Promise<Point> {
  const stored = decodeRun(bytes)
  const run = { ...stored, bytes: kernel.sealer.unwrap(stored.bytes) }
  verifyEntries(kernel.hash, id, run, at)
  // The entry was erased at its origin, and the file is trusted for that.
  if (isRedacted(run.bytes)) await recordErasure(kernel, importedErasure(run))
  // Unreadable entries would be found at the next open: report them now.
  entriesOf(kernel, { timeline: id, run, before: at.digest, skipTo: at.seq })
  if (lastSeq(run) > begun.at.seq) {
    const wrapped = kernel.sealer.wrap('runs', run.bytes)
    await commit(kernel, id, { epoch: begun.epoch, ...at }, { run: { ...run, bytes: wrapped } })
  }
  return { seq: lastSeq(run), digest: run.digest }
}

/** Attributes that are true only where the timeline was exported: it has no base here. */
const notHere = {
  [movedAttribute]: null,
  [heldAttribute]: null,
  [importingAttribute]: null,
  [copiedAttribute]: null,
}

async function opening(
  { kernel, id, header, arrive, isRestored }: Incoming,
  guard: { readonly epoch: number } & Point,
  messages: readonly TransferredMessage[],
  read: readonly MessageId[],
): Promise<Commit> {
  const now = kernel.worker.now(id)
  const { status, queue, wakeup, moved } = standingOf(header, isRestored)
  const here = { ...(await existing(kernel, id)), priority: header.priority ?? 0 }
  const { send: notices, head: changed, takes } = await arrive(here, id !== header.timeline)
  const mail = messages.filter(({ kind }) => takes(kind)).map((message) => readdress(kernel, id, message))
  const send = [...mail, ...notices]
  const consume = [...new Set([...read, ...(await carriedAndRead(kernel, here, messages))])]
  return {
    operation: newOperation(kernel.random),
    guard: { timeline: id, ...guard },
    status: status ?? 'open',
    queue: queue ?? null,
    priority: header.priority ?? 0,
    // Its owner is not here: it is due at once.
    wakeup: header.wasOwned && queue ? now : (wakeup ?? null),
    // A file from an earlier sequence has no head.
    ...(status !== undefined && changed),
    attributes: { ...header.attributes, ...changed?.attributes, ...notHere, ...moved },
    ...(consume.length > 0 && { consume }),
    ...(send.length > 0 && { send }),
    release: true,
  }
}

/**
 * A timeline that had moved away when its store was backed up continues elsewhere: restored, it is marked as moved again.
 * Messages that had arrived there are not in the file, so the mark counts no messages. An import of such a timeline alone
 * revives it.
 */
function standingOf(
  header: Header,
  isRestored: boolean,
): Pick<Header, 'status' | 'queue' | 'wakeup'> & { readonly moved?: Header['attributes'] } {
  const mark = header.status === movedStatus ? markIn(header) : null
  if (!mark) return header
  if (!isRestored) return mark.was
  const { carried: _, ...rest } = mark
  const kept = mark.arrival === 'done' ? rest : mark
  return { status: movedStatus, queue: null, wakeup: null, moved: { [movedAttribute]: JSON.stringify(kept) } }
}

/** Checkpoints published by an interrupted import exist already. */
async function publish(
  kernel: Kernel,
  id: TimelineId,
  guard: { readonly epoch: number } & Point,
  records: readonly ManifestRecord[],
  chunksSince: number,
): Promise<void> {
  const there = new Set((await kernel.store.checkpoints(id)).map((record) => toHex(record.bodyDigest)))
  const missing = records
    .filter((record) => !there.has(toHex(record.bodyDigest)))
    .map((record) => ({
      ...record,
      id: newId(kernel.random) as ManifestId,
      baseId: null,
      verifiedAt: null,
      chunksSince,
    }))
  for (const record of missing) {
    await checkRecord(kernel, record)
    // One by one: other callers use the store in between.
    const marks = [{ id: record.id, verifiedAt: kernel.worker.now() }]
    await commit(kernel, id, guard, { publish: [record], marks })
  }
}

/** The maximum number of restore points; each is read whole before it is accepted. */
const checkpointsMax = 256

function within<One>(those: readonly unknown[], max: number, one: One): One {
  if (those.length < max) return one
  throw new RepriseError('LIMIT_EXCEEDED', `the file holds more than ${max} of one kind for one timeline`, { max })
}

/** Where both have a digest, it must be the same: otherwise the existing history is a different one. */
function checkSame(id: TimelineId, at: Point, had: Point): void {
  if (at.seq !== had.seq || equalBytes(at.digest, had.digest)) return
  throw new RepriseError(
    'CONFLICT',
    `${id} has a different history in this store than in the file: import it under another id`,
    {
      timeline: id,
      seq: at.seq,
    },
  )
}

/** Reads the checkpoint as a restore would, and drops the result: an unreadable checkpoint is not accepted. */
async function checkRecord(kernel: Kernel, record: ManifestRecord): Promise<void> {
  const manifest = readManifest(kernel, record)
  await verifyChunks(manifest, stateIo(kernel))
  await restoreState(manifest, stateIo(kernel))
}

async function commit(
  kernel: Kernel,
  id: TimelineId,
  guard: { readonly epoch: number } & Point,
  what: Partial<Commit>,
): Promise<void> {
  const outcome = await submit(kernel, {
    ...what,
    guard: { timeline: id, ...guard },
  })
  if (!outcome.ok) throw refusalError(id, outcome)
}

function importedErasure(run: EntryRun) {
  const entries = unpackEntries(run).filter(({ isErased }) => isErased).length
  return { id: 'import', why: 'an import brought it', entries, checks: [checkIn(run.bytes)] }
}
