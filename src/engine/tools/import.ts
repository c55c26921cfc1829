// Import: timelines from a file. Each becomes visible whole or not at all: its parts are checked against the chain before
// the last commit, which also brings what waits for it and when it wants to run. One that was interrupted goes on where it
// stopped when the same file is imported again.

import {
  type Coordinate,
  type Digest,
  equalBytes,
  type ManifestId,
  type MessageId,
  type TimelineId,
  timelineId,
  toHex,
} from '../../core/coordinate.ts'
import { lastSeq, unpackEntries, verifyEntries } from '../../core/entry-run.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Commit, EntryRun, Head, ManifestRecord, OutgoingMessage } from '../../core/ports.ts'
import { checkIn, isRedacted } from '../../core/redacted.ts'
import { checkAttributes } from '../../core/shapes.ts'
import { ChunkHold } from '../checkpoint/chunk-hold.ts'
import { refusalError } from '../commit/refusal-error.ts'
import { heldAttribute } from '../group/held.ts'
import { type Kernel, newId, newOperation } from '../kernel.ts'
import { checkChunkSize, stateIo } from '../kernel-io.ts'
import { checkSameKind, refuseOfStore } from '../kinds.ts'
import { messageContext } from '../message.ts'
import { recordErasure } from '../recovery/erasures.ts'
import { entriesOf, type Point } from '../recovery/history.ts'
import { readManifest } from '../recovery/recover.ts'
import { restoreState, verifyChunks } from '../recovery/restore.ts'
import { existing, locate } from './fork.ts'
import { movedAttribute, movedStatus } from './moved.ts'
import type { Header, TransferredMessage } from './transfer.ts'
import { type Frame, readTransfer } from './transfer-file.ts'
import { decodeRun, headerOf, messageOf, recordOf } from './transfer-shape.ts'

export interface ImportOptions {
  /** Another id than the one in the file; only where the file holds one timeline. */
  readonly as?: string
  /** One that is there already with the same history is taken for imported. */
  readonly orSame?: boolean
}

const importing = 'importing'

export interface Imported extends Coordinate {
  /** It was there already, with the same history (`orSame`). */
  readonly isSame?: boolean
}

/** What others are told of a timeline that arrives, by its model; in the commit that makes it visible. */
export type Arrival = (head: Head) => Promise<readonly OutgoingMessage[]>

/** Throws where a timeline of the file may not arrive under another id. */
export type Admission = (id: TimelineId, isSameAs: (head: Head) => Promise<boolean>) => Promise<void>

/** All timelines of the file, in its order. @example await rp.import('orders.reprise', { as: 'counter/restored' }) */
export async function importTimelines(
  kernel: Kernel,
  path: string,
  options: ImportOptions,
  arrive: Arrival,
  admit: Admission = async () => undefined,
): Promise<Imported[]> {
  const frames = readTransfer(path)
  const made: Imported[] = []
  let next = await frames.next()
  if (next.done || next.value.kind !== 'header')
    throw new RepriseError('NOT_A_SAVEPOINT', 'the file does not start with a header')
  while (!next.done) {
    const header = headerOf(kernel.codec.decode(next.value.bytes))
    checkAttributes(header.attributes, kernel.limits)
    if (options.as !== undefined && made.length > 0) {
      throw new RepriseError('INVALID_ARGUMENT', 'the file holds several timelines: they keep their ids', {})
    }
    const id = timelineId(options.as ?? header.timeline)
    if (options.as !== undefined) {
      refuseOfStore(id)
      checkSameKind(header.timeline, id)
      await admit(id, async (head) => head.seq >= header.seq && (await isSame(kernel, head.timeline, header)))
    }
    const section = new Section(frames)
    made.push(await importOne(kernel, id, header, section, options, arrive))
    for await (const _ of section) void _
    next = section.after
  }
  return made
}

/** The frames of one timeline; then what comes after them. */
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
  options: ImportOptions,
  arrive: Arrival,
): Promise<Imported> {
  let begun: Begun
  try {
    begun = await begin(kernel, id, header)
  } catch (error) {
    if (options.orSame && isReprise(error, 'EXISTS') && (await isSame(kernel, id, header))) {
      return { timeline: id, seq: header.seq, epoch: header.epoch, digest: toHex(header.digest), isSame: true }
    }
    throw error
  }
  const { epoch } = begun
  const commit = (what: Partial<Commit>) =>
    kernel.committer.submit({ ...what, operation: newOperation(kernel.random), guard: { timeline: id, epoch } })
  try {
    return await fill(kernel, id, begun, header, frames, arrive)
  } catch (error) {
    // What a store that failed has of it is sound, and the next import of this file goes on from there. What was here
    // before, and comes back, is as it was.
    const isWorthKeeping = isReprise(error) && error.remedy === 'retry'
    const leave = begun.isReturn ? { release: true, status: movedStatus } : { release: true }
    await commit(begun.isReturn || isWorthKeeping ? leave : { forget: true }).catch(() => undefined)
    throw error
  }
}

async function isSame(kernel: Kernel, id: TimelineId, header: Header): Promise<boolean> {
  try {
    const { head } = await locate(kernel, { timeline: id, seq: header.seq, epoch: 0, digest: toHex(header.digest) })
    return head.timeline === id && head.status !== importing
  } catch (error) {
    if (isReprise(error, 'NOT_ON_BRANCH', 'OUT_OF_RANGE')) return false
    throw error
  }
}

interface Begun {
  readonly epoch: number
  /** History is there up to here. */
  readonly at: Point
  /** It was moved away from here, and comes back. */
  readonly isReturn: boolean
}

/** New, or what an import of the same history left when it died, or what was moved away and has grown elsewhere. */
async function begin(kernel: Kernel, id: TimelineId, header: Header): Promise<Begun> {
  const floor = { seq: header.floor, digest: header.floorDigest }
  const [left] = await kernel.store.head([id])
  const isLeft = left?.status === importing
  const isReturn = left?.status === movedStatus && header.floor <= left.seq && header.seq >= left.seq
  if (isLeft && left.isOwnerAlive) await kernel.worker.retireGone()
  const isOurs = isReturn || (isLeft && left.floor === floor.seq && equalBytes(left.floorDigest, floor.digest))
  if (isLeft && !isOurs && !left.isOwnerAlive) {
    await kernel.committer.submit({
      operation: newOperation(kernel.random),
      guard: { timeline: id, epoch: left.epoch },
      forget: true,
    })
  }
  const outcome = await kernel.committer.submit({
    operation: newOperation(kernel.random),
    guard: { timeline: id, epoch: isOurs ? left.epoch : 0 },
    take: { worker: await kernel.worker.register(), from: 'dead', create: { digest: floor.digest, floor } },
    status: importing,
  })
  if (outcome.ok) {
    return { epoch: outcome.epoch, at: isOurs ? { seq: left.seq, digest: left.digest } : floor, isReturn }
  }
  if (isLeft && outcome.code === 'OWNED') {
    throw new RepriseError('OWNED', `${id} is being imported by another process`, { timeline: id })
  }
  throw outcome.code === 'FENCED' || outcome.code === 'EXISTS' || outcome.code === 'OWNED'
    ? new RepriseError('EXISTS', `there is already a timeline ${id}`, { timeline: id })
    : refusalError(id, outcome)
}

async function fill(
  kernel: Kernel,
  id: TimelineId,
  begun: Begun,
  header: Header,
  frames: AsyncIterable<Frame>,
  arrive: Arrival,
): Promise<Coordinate> {
  const hold = await ChunkHold.begin(kernel)
  try {
    return await fillUnder(hold, kernel, id, begun, header, frames, arrive)
  } finally {
    hold.end()
  }
}

async function fillUnder(
  hold: ChunkHold,
  kernel: Kernel,
  id: TimelineId,
  begun: Begun,
  header: Header,
  frames: AsyncIterable<Frame>,
  arrive: Arrival,
): Promise<Coordinate> {
  const { epoch, at: had } = begun
  const chunks: Digest[] = []
  let at: Point = { seq: header.floor, digest: header.floorDigest }
  const records: ManifestRecord[] = []
  const messages: TransferredMessage[] = []
  checkSame(id, at, had)
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
      const stored = decodeRun(bytes)
      const run = { ...stored, bytes: kernel.sealer.unwrap(stored.bytes) }
      verifyEntries(kernel.hash, id, run, at)
      // It was erased where it comes from, and whoever has the file takes its word for it.
      if (isRedacted(run.bytes)) await recordErasure(kernel, importedErasure(run))
      // What cannot be read would be found when somebody opens it: it is said now.
      entriesOf(kernel, { timeline: id, run, before: at.digest, skipTo: at.seq })
      const isThere = lastSeq(run) <= had.seq
      if (!isThere) {
        const wrapped = kernel.sealer.wrap('runs', run.bytes)
        await commit(kernel, id, { epoch, ...at }, { run: { ...run, bytes: wrapped } })
      }
      at = { seq: lastSeq(run), digest: run.digest }
      checkSame(id, at, had)
    }
  }
  if (at.seq !== header.seq || !equalBytes(at.digest, header.digest)) {
    throw new RepriseError(
      'NOT_A_SAVEPOINT',
      `the history in the file ends at ${at.seq}, its header says ${header.seq}`,
    )
  }
  const guard = { epoch, ...at }
  checkOpens(header, records)
  await hold.publish(chunks, (chunksSince) => publish(kernel, id, guard, records, chunksSince))
  const now = kernel.worker.now(id)
  const told = await arrive({ ...(await existing(kernel, id)), priority: header.priority ?? 0 })
  const send = [...messages.map((message) => readdress(kernel, id, message)), ...told]
  await commit(kernel, id, guard, {
    attributes: { ...header.attributes, [movedAttribute]: null, [heldAttribute]: null },
    status: header.status ?? 'open',
    queue: header.queue ?? null,
    priority: header.priority ?? 0,
    // Whoever was executing it is not here: it is due at once.
    wakeup: header.wasOwned && header.queue ? now : (header.wakeup ?? null),
    ...(send.length > 0 && { send }),
    release: true,
  })
  return { timeline: id, seq: at.seq, epoch, digest: toHex(at.digest) }
}

/** Those that an interrupted import has published are there already. */
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
    // One by one: others get their turn at the store in between.
    const marks = [{ id: record.id, verifiedAt: kernel.worker.now() }]
    await commit(kernel, id, guard, { publish: [record], marks })
  }
}

/** Nobody has more restore points than this; each is read whole before it is taken. */
const checkpointsMax = 256
const messagesMax = 100_000

function within<One>(those: readonly unknown[], max: number, one: One): One {
  if (those.length < max) return one
  throw new RepriseError('LIMIT_EXCEEDED', `the file holds more than ${max} of one kind for one timeline`, { max })
}

/** History that starts late needs a state to start from. */
function checkOpens({ timeline, seq, floor, floorDigest }: Header, records: readonly ManifestRecord[]): void {
  for (const record of records) {
    if (record.seq <= seq && record.invalid === null) continue
    throw new RepriseError('NOT_A_SAVEPOINT', `checkpoint ${record.id} in the file cannot be one of ${timeline}@${seq}`)
  }
  const isStart = records.some(
    (record) => record.seq > floor || (record.seq === floor && equalBytes(record.digest, floorDigest)),
  )
  if (floor === 0 || isStart) return
  throw new RepriseError(
    'NOT_A_SAVEPOINT',
    `history in the file starts after ${floor}, and no checkpoint in it is at or above that: it could never be opened`,
    { timeline, floor },
  )
}

/** Where both have a digest, it must be the same: else what is there is another history. */
function checkSame(id: TimelineId, at: Point, had: Point): void {
  if (at.seq !== had.seq || equalBytes(at.digest, had.digest)) return
  throw new RepriseError('CONFLICT', `${id} has another history here than in the file: import it under another id`, {
    timeline: id,
    seq: at.seq,
  })
}

/** A message is sealed for the timeline it goes to. */
function readdress(kernel: Kernel, to: TimelineId, message: TransferredMessage): OutgoingMessage {
  const { sealer } = kernel
  const plain = sealer.openChecked(message.data, messageContext(message.to, message.id))
  const data = message.to === to ? message.data : sealer.sealChecked(plain, messageContext(to, message.id))
  return { id: message.id as MessageId, to, kind: message.kind, data }
}

/** Read as a restore would read it, and forgotten: what does not open is not taken. */
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
  const outcome = await kernel.committer.submit({
    ...what,
    operation: newOperation(kernel.random),
    guard: { timeline: id, ...guard },
  })
  if (!outcome.ok) throw refusalError(id, outcome)
}

function importedErasure(run: EntryRun) {
  const entries = unpackEntries(run).filter(({ isErased }) => isErased).length
  return { id: 'import', why: 'it came with an import', entries, checks: [checkIn(run.bytes)] }
}
