// Export and import: a timeline as one file, with its history, its checkpoints and their chunks, or only a savepoint.
// An import becomes visible whole or not at all: its parts are checked against the chain before the last commit.

import { ByteReader, ByteWriter } from '../core/bytes.ts'
import { type Coordinate, type ManifestId, type TimelineId, timelineId, toHex } from '../core/coordinate.ts'
import { isReprise, RepriseError } from '../core/errors.ts'
import type { Attribute, ManifestRecord, Run } from '../core/ports.ts'
import { lastSeq, verifyRun } from '../core/run.ts'
import { locate, type Where } from './fork.ts'
import { floorOf, lineageOf, type Point, readHistory } from './history.ts'
import { type Kernel, newId, newOperation } from './kernel.ts'
import { stateIo } from './kernel-io.ts'
import { readManifest } from './recover.ts'
import { liveChunks } from './restore.ts'
import { type Frame, readTransfer, writeTransfer } from './transfer-file.ts'
import { refusalError } from './writer.ts'

export interface ExportOptions {
  /** Leave history out: the newest checkpoint at or below the coordinate alone, as a self-contained savepoint. */
  readonly stateOnly?: boolean
}

interface Header {
  readonly timeline: string
  readonly seq: number
  readonly epoch: number
  readonly digest: Uint8Array
  readonly floor: number
  readonly floorDigest: Uint8Array
  readonly attributes: Readonly<Record<string, Attribute>>
  readonly exportedAt: number
}

const importing = 'importing'

export async function exportTimeline(
  kernel: Kernel,
  where: Where,
  path: string,
  options: ExportOptions = {},
): Promise<{ readonly coordinate: Coordinate; readonly bytes: number }> {
  const { head, point } = await locate(kernel, where)
  const records = (await kernel.store.checkpoints(head.timeline)).filter(
    (record) => record.seq <= point.seq && record.invalid === null && record.verifiedAt !== null,
  )
  const newest = records[0]
  if (options.stateOnly && !newest) {
    throw new RepriseError(
      'NOT_FOUND',
      `${head.timeline} has no verified checkpoint at or below ${point.seq}; take a savepoint first`,
    )
  }
  const end = options.stateOnly ? { seq: newest!.seq, digest: newest!.digest } : point
  const bytes = await writeTransfer(
    path,
    frames(kernel, head.timeline, options.stateOnly ? [newest!] : records, end, options),
  )
  return { coordinate: { timeline: head.timeline, seq: end.seq, epoch: head.epoch, digest: toHex(end.digest) }, bytes }
}

async function* frames(
  kernel: Kernel,
  id: TimelineId,
  records: readonly ManifestRecord[],
  end: Point,
  options: ExportOptions,
): AsyncGenerator<Frame> {
  const [head] = await kernel.store.head([id])
  const lineage = await lineageOf(kernel, head!)
  const floor = options.stateOnly ? end : floorOf(lineage)
  const header: Header = {
    timeline: id,
    seq: end.seq,
    epoch: head!.epoch,
    digest: end.digest,
    floor: floor.seq,
    floorDigest: floor.digest,
    attributes: head!.attributes,
    exportedAt: kernel.clock.now(),
  }
  yield { kind: 'header', bytes: kernel.codec.encode(header) }
  const done = new Set<string>()
  for (const record of records) {
    yield* chunkFrames(kernel, record, done)
    yield { kind: 'checkpoint', bytes: kernel.codec.encode(record) }
  }
  for await (const { run } of readHistory(kernel, lineage, floor, end.seq)) yield { kind: 'run', bytes: encodeRun(run) }
}

async function* chunkFrames(kernel: Kernel, record: ManifestRecord, done: Set<string>): AsyncGenerator<Frame> {
  for (const digest of await liveChunks(readManifest(kernel, record), stateIo(kernel))) {
    if (done.has(toHex(digest))) continue
    done.add(toHex(digest))
    const [bytes] = await kernel.store.blobs.get([digest])
    if (!bytes || toHex(kernel.hash(bytes)) !== toHex(digest)) {
      throw new RepriseError('CHUNK_DAMAGED', `chunk ${toHex(digest)} of checkpoint ${record.id} is missing or damaged`)
    }
    yield { kind: 'chunk', bytes }
  }
}

/** @example await rp.import('orders.reprise', { as: 'counter/restored' }) */
export async function importTimeline(
  kernel: Kernel,
  path: string,
  options: { readonly as?: string } = {},
): Promise<Coordinate> {
  const reading = readTransfer(path)
  const first = await reading.next()
  if (first.done || first.value.kind !== 'header')
    throw new RepriseError('NOT_A_SAVEPOINT', 'the file does not start with a header')
  const header = kernel.codec.decode(first.value.bytes) as Header
  const id = timelineId(options.as ?? header.timeline)
  const epoch = await begin(kernel, id, header)
  try {
    return await fill(kernel, id, epoch, header, reading)
  } catch (error) {
    await kernel.committer
      .submit({ operation: newOperation(kernel.random), guard: { timeline: id, epoch }, forget: true })
      .catch(() => undefined)
    throw error
  }
}

async function begin(kernel: Kernel, id: TimelineId, header: Header): Promise<number> {
  const floor = { seq: header.floor, digest: header.floorDigest }
  // An import that died half-way left a timeline in this status: nobody used it, so it makes room.
  const [left] = await kernel.store.head([id])
  if (left?.status === importing && !left.isOwnerAlive) {
    await kernel.committer.submit({
      operation: newOperation(kernel.random),
      guard: { timeline: id, epoch: left.epoch },
      forget: true,
    })
  }
  const outcome = await kernel.committer.submit({
    operation: newOperation(kernel.random),
    guard: { timeline: id, epoch: 0 },
    take: { worker: await kernel.worker.register(), from: 'free', create: { digest: floor.digest, floor } },
    status: importing,
  })
  if (!outcome.ok) {
    throw outcome.code === 'FENCED' || outcome.code === 'EXISTS'
      ? new RepriseError('EXISTS', `there is already a timeline ${id}`, { timeline: id })
      : refusalError(id, outcome)
  }
  return outcome.epoch
}

async function fill(
  kernel: Kernel,
  id: TimelineId,
  epoch: number,
  header: Header,
  frames: AsyncIterable<Frame>,
): Promise<Coordinate> {
  let at: Point = { seq: header.floor, digest: header.floorDigest }
  const records: ManifestRecord[] = []
  for await (const { kind, bytes } of frames) {
    if (kind === 'chunk') await kernel.store.blobs.put([{ digest: kernel.hash(bytes), bytes }])
    else if (kind === 'checkpoint') records.push(kernel.codec.decode(bytes) as ManifestRecord)
    else if (kind === 'run') {
      const run = decodeRun(bytes)
      verifyRun(kernel.hash, id, run, at)
      await commit(kernel, id, { epoch, ...at }, { run })
      at = { seq: lastSeq(run), digest: run.digest }
    }
  }
  if (at.seq !== header.seq || toHex(at.digest) !== toHex(header.digest)) {
    throw new RepriseError(
      'NOT_A_SAVEPOINT',
      `the history in the file ends at ${at.seq}, its header says ${header.seq}`,
    )
  }
  const publish = records.map((record) => ({
    ...record,
    id: newId(kernel.random) as ManifestId,
    baseId: null,
    verifiedAt: null,
  }))
  for (const record of publish) await checkRecord(kernel, record)
  const at0 = kernel.worker.now()
  await commit(
    kernel,
    id,
    { epoch, ...at },
    {
      publish,
      marks: publish.map((record) => ({ id: record.id, verifiedAt: at0 })),
      attributes: header.attributes,
      status: 'open',
      release: true,
    },
  )
  return { timeline: id, seq: at.seq, epoch, digest: toHex(at.digest) }
}

async function checkRecord(kernel: Kernel, record: ManifestRecord): Promise<void> {
  for (const digest of await liveChunks(readManifest(kernel, record), stateIo(kernel))) {
    const [bytes] = await kernel.store.blobs.get([digest])
    if (!bytes)
      throw new RepriseError('CHUNK_MISSING', `the file lacks chunk ${toHex(digest)} of checkpoint ${record.id}`)
  }
}

async function commit(
  kernel: Kernel,
  id: TimelineId,
  guard: { readonly epoch: number } & Point,
  what: Partial<Parameters<Kernel['committer']['submit']>[0]>,
): Promise<void> {
  const outcome = await kernel.committer.submit({
    ...what,
    operation: newOperation(kernel.random),
    guard: { timeline: id, ...guard },
  })
  if (!outcome.ok) throw refusalError(id, outcome)
}

function encodeRun(run: Run): Uint8Array {
  const writer = new ByteWriter(run.bytes.length + 64)
  writer.integer(run.first)
  writer.integer(run.count)
  writer.raw(run.digest)
  writer.raw(run.bytes)
  return writer.take()
}

function decodeRun(bytes: Uint8Array): Run {
  try {
    const reader = new ByteReader(bytes)
    return {
      first: reader.integer(),
      count: reader.integer(),
      digest: reader.raw(32).slice(),
      bytes: reader.raw(reader.remaining).slice(),
    }
  } catch (error) {
    if (isReprise(error, 'MALFORMED'))
      throw new RepriseError('NOT_A_SAVEPOINT', 'a run in the file is malformed', {}, error)
    throw error
  }
}
