// Exports timelines as one file, with their history, checkpoints and chunks, waiting mail, ids of read mail, and wakeup; or
// only a savepoint.
// import.ts reads the file.

import { ByteWriter } from '../../../core/bytes.ts'
import { type Coordinate, type MessageId, toHex } from '../../../core/coordinate.ts'
import { RepriseError } from '../../../core/errors.ts'
import {
  importedInheritance,
  inheritanceText,
  inheritedAttribute,
  inheritedBy,
} from '../../../core/history/inheritance.ts'
import { liveIdOf } from '../../../core/history/scope.ts'
import type { Attribute, EntryRun, Head, ManifestRecord } from '../../../core/store/ports.ts'
import { lineageOf, type Point, reachOf, readHistory } from '../../history/history.ts'
import { locate, type TimelinePoint } from '../../history/locate.ts'
import { readManifest } from '../../history/recover.ts'
import { stateIo } from '../../snapshot/kernel-io.ts'
import { liveChunks } from '../../snapshot/restore.ts'
import { ChunkInput } from '../../snapshot/restore-input.ts'
import type { Carried } from '../../storage/carried-identity.ts'
import type { Kernel } from '../../storage/kernel.ts'
import { markIn } from '../../storage/moved-mark.ts'
import { type Frame, writeTransfer } from './export-file.ts'
import { feedReadBy } from './foreign-feed.ts'

export interface ExportOptions {
  /** Excludes history: only the newest checkpoint at or below the coordinate, as a self-contained savepoint. */
  readonly stateOnly?: boolean
  /** An existing file or object of that name, or one that is written concurrently, is not replaced: EXISTS. */
  readonly onlyNew?: boolean
}

/** The start of a timeline in the file; the frames up to the next header belong to it. */
export interface Header {
  readonly timeline: string
  readonly seq: number
  readonly epoch: number
  readonly digest: Uint8Array
  readonly floor: number
  readonly floorDigest: Uint8Array
  readonly attributes: Readonly<Record<string, Attribute>>
  readonly exportedAt: number
  /** The following fields are missing in files of format 1. */
  readonly status?: string
  readonly queue?: string | null
  readonly priority?: number
  readonly wakeup?: number | null
  /** True: the timeline had an owner, so it is due where it arrives. */
  readonly wasOwned?: boolean
  /** Missing in older files. Default: 1. */
  readonly life?: number
  /** The data from which its keys are derived. Missing in older files. */
  readonly carried?: Carried
  /** For a reader of the feed: the feed in which it has its position (foreign-feed.ts). Missing in older files. */
  readonly feed?: string
}

/** An unread message, sealed for the timeline to which it was sent. */
export interface TransferredMessage {
  readonly id: string
  readonly to: string
  readonly kind: string
  readonly data: Uint8Array
}

/** The head of a timeline for the importer: current, or as it was before the move. */
export type Scheduling = Pick<Head, 'status' | 'queue' | 'wakeup'>

export const messagesMax = 100_000

export async function exportTimeline(
  kernel: Kernel,
  where: TimelinePoint,
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
  const chosen = options.stateOnly ? [newest!] : records
  const bytes = await writeTransfer(path, frames(kernel, head, chosen, end, options), options.onlyNew)
  return { coordinate: { timeline: head.timeline, seq: end.seq, epoch: head.epoch, digest: toHex(end.digest) }, bytes }
}

/** Exports several timelines to one file, each whole, with the scheduling of each. */
export async function exportFamily(
  kernel: Kernel,
  members: readonly { readonly head: Head; readonly scheduling: Scheduling }[],
  path: string,
): Promise<number> {
  return await writeTransfer(
    path,
    (async function* () {
      for (const { head, scheduling } of members) {
        const records = (await kernel.store.checkpoints(head.timeline)).filter(
          (record) => record.invalid === null && record.verifiedAt !== null,
        )
        yield* frames(kernel, { ...head, ...scheduling }, records, { seq: head.seq, digest: head.digest }, {})
      }
    })(),
  )
}

async function* frames(
  kernel: Kernel,
  head: Head,
  records: readonly ManifestRecord[],
  end: Point,
  options: ExportOptions,
): AsyncGenerator<Frame> {
  const lineage = await lineageOf(kernel, head)
  // An export contains all history: the part in a colder tier is read from there.
  const floor = options.stateOnly ? end : await reachOf(kernel, lineage)
  await kernel.identity.load(true)
  const carried = kernel.identity.carried(head)
  const feed = await feedReadBy(kernel, head)
  const header: Header = {
    timeline: head.timeline,
    seq: end.seq,
    epoch: head.epoch,
    digest: end.digest,
    floor: floor.seq,
    floorDigest: floor.digest,
    attributes: { ...head.attributes, ...inheritanceAt(kernel, lineage, end.seq) },
    life: head.life,
    ...(carried && { carried }),
    ...(feed !== null && { feed }),
    exportedAt: kernel.clock.now(),
    // Waiting mail and wakeup belong to the head: they are unknown for an earlier sequence.
    ...(end.seq === head.seq && {
      status: head.status,
      queue: head.queue,
      priority: head.priority,
      wakeup: head.wakeup,
      wasOwned: head.owner !== null,
    }),
  }
  yield { kind: 'header', bytes: kernel.codec.encode(header) }
  const done = new Set<string>()
  for (const record of records) {
    yield* chunkFrames(kernel, record, done)
    const body = kernel.sealer.wrap('checkpoints', record.body)
    yield { kind: 'checkpoint', bytes: kernel.codec.encode({ ...record, body }) }
  }
  for await (const { run } of readHistory(kernel, lineage, floor, end.seq)) {
    // The importer need not have old keys: records under another key than the current one are wrapped
    // (engine/storage/seal/wrap.ts).
    yield { kind: 'run', bytes: encodeRun({ ...run, bytes: kernel.sealer.wrap('runs', run.bytes) }) }
  }
  if (end.seq !== head.seq) return
  yield* messageFrames(kernel, head)
  yield* readFrames(kernel, head)
}

/** A file contains the whole history of a fork: its inheritance is stored beside it. */
export function inheritanceAt(
  { identity, limits }: Pick<Kernel, 'identity' | 'limits'>,
  lineage: readonly Head[],
  seq: number,
): Record<string, string> {
  const stretches = inheritedBy(lineage).map(({ timeline, upTo, identity: known = null }) => {
    const owner = lineage.find((head) => head.timeline === timeline && liveIdOf(timeline) === timeline)
    return { timeline, upTo: Math.min(upTo, seq), identity: known ?? (owner ? identity.origin(owner).identity : null) }
  })
  const text = inheritanceText(stretches, limits.attributeTextLength)
  return text === null ? {} : { [inheritedAttribute]: text }
}

/** A copy beside its original inherits all of its history, like a fork. */
export function inheritanceBeside(
  { limits }: Pick<Kernel, 'limits'>,
  { timeline, seq, carried, attributes }: Pick<Header, 'timeline' | 'seq' | 'carried' | 'attributes'>,
): string | null {
  const original = { timeline, upTo: seq, identity: carried?.identity ?? null }
  return inheritanceText([original, ...importedInheritance(attributes)], limits.attributeTextLength)
}

async function* messageFrames(kernel: Kernel, head: Head): AsyncGenerator<Frame> {
  if (head.mail === 0 || kernel.planted.has('export-forgets-mail')) return
  const { messages } = await kernel.store.inbox(head.timeline, messagesMax)
  if (messages.length === messagesMax) {
    const what = `${head.timeline} has more than ${messagesMax} unread messages`
    const hint = 'Run a process that reads the messages of this timeline, and export it afterwards.'
    throw new RepriseError('LIMIT_EXCEEDED', what, { timeline: head.timeline }, undefined, hint)
  }
  const mark = markIn(head)
  // Messages that have arrived where the timeline continues: there they may be read, and their ids forgotten, by now.
  const arrived = mark?.arrival === 'done' ? (mark.carried ?? 0) : 0
  for (const { id, to, kind, data } of messages.slice(arrived)) {
    const message: TransferredMessage = { id, to, kind, data: kernel.sealer.wrap('messages', data) }
    yield { kind: 'message', bytes: kernel.codec.encode(message) }
  }
}

const idsAtOnce = 500

/** As many as the store has not forgotten: a message that is sent again with such an id has no effect. */
async function* readFrames({ store, codec }: Kernel, { timeline }: Head): AsyncGenerator<Frame> {
  for (let after: MessageId | null = null; ; ) {
    const ids: MessageId[] = await store.upkeep.consumed(timeline, after, idsAtOnce)
    if (ids.length === 0) return
    yield { kind: 'read', bytes: codec.encode(ids) }
    after = ids.at(-1)!
  }
}

async function* chunkFrames(kernel: Kernel, record: ManifestRecord, done: Set<string>): AsyncGenerator<Frame> {
  for (const digest of await liveChunks(readManifest(kernel, record), stateIo(kernel))) {
    if (done.has(toHex(digest))) continue
    done.add(toHex(digest))
    const refs = [{ digest, bytes: 0 }]
    for await (const bytes of new ChunkInput(stateIo(kernel)).read(refs, null)) {
      yield { kind: 'chunk', bytes: kernel.sealer.wrap('chunks', bytes) }
    }
  }
}

function encodeRun(run: EntryRun): Uint8Array {
  const writer = new ByteWriter(run.bytes.length + 64)
  writer.integer(run.first)
  writer.integer(run.count)
  writer.raw(run.digest)
  writer.raw(run.bytes)
  return writer.take()
}
