// Export: timelines as one file, with their history, their checkpoints and chunks, what waits for them and when they want
// to run again; or only a savepoint. import.ts is the way back.

import { ByteWriter } from '../../../core/bytes.ts'
import { type Coordinate, toHex } from '../../../core/coordinate.ts'
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
import { locate, type Where } from '../../history/locate.ts'
import { readManifest } from '../../history/recover.ts'
import { stateIo } from '../../snapshot/kernel-io.ts'
import { liveChunks } from '../../snapshot/restore.ts'
import { ChunkInput } from '../../snapshot/restore-input.ts'
import type { Carried } from '../../storage/carried-identity.ts'
import type { Kernel } from '../../storage/kernel.ts'
import { type Frame, writeTransfer } from './file.ts'
import { feedReadBy } from './foreign-feed.ts'

export interface ExportOptions {
  /** Leave history out: the newest checkpoint at or below the coordinate alone, as a self-contained savepoint. */
  readonly stateOnly?: boolean
  /** A file or an object of that name that is there already, or that somebody else writes meanwhile, is not replaced: EXISTS. */
  readonly onlyNew?: boolean
}

/** A timeline in the file begins with this; what follows it is its own, until the next one. */
export interface Header {
  readonly timeline: string
  readonly seq: number
  readonly epoch: number
  readonly digest: Uint8Array
  readonly floor: number
  readonly floorDigest: Uint8Array
  readonly attributes: Readonly<Record<string, Attribute>>
  readonly exportedAt: number
  /** From here on missing in files of format 1. */
  readonly status?: string
  readonly queue?: string | null
  readonly priority?: number
  readonly wakeup?: number | null
  /** Somebody was executing it: it is due where it arrives. */
  readonly wasOwned?: boolean
  /** Missing in older files: 1. */
  readonly life?: number
  /** What its keys are derived from. Missing in older files. */
  readonly carried?: Carried
  /** Of a reader of the feed: the feed that it stands in (foreign-feed.ts). Missing in older files. */
  readonly feed?: string
}

/** A message that nobody had read yet, sealed for the timeline that it was sent to. */
export interface TransferredMessage {
  readonly id: string
  readonly to: string
  readonly kind: string
  readonly data: Uint8Array
}

/** How the head of a timeline reads to the one who imports it: as it is, or as it was before it was moved. */
export type Standing = Pick<Head, 'status' | 'queue' | 'wakeup'>

const messagesMax = 100_000

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
  const chosen = options.stateOnly ? [newest!] : records
  const bytes = await writeTransfer(path, frames(kernel, head, chosen, end, options), options.onlyNew)
  return { coordinate: { timeline: head.timeline, seq: end.seq, epoch: head.epoch, digest: toHex(end.digest) }, bytes }
}

/** Several timelines in one file, each whole, as they stand in `standing`. */
export async function exportFamily(
  kernel: Kernel,
  members: readonly { readonly head: Head; readonly standing: Standing }[],
  path: string,
): Promise<number> {
  return await writeTransfer(
    path,
    (async function* () {
      for (const { head, standing } of members) {
        const records = (await kernel.store.checkpoints(head.timeline)).filter(
          (record) => record.invalid === null && record.verifiedAt !== null,
        )
        yield* frames(kernel, { ...head, ...standing }, records, { seq: head.seq, digest: head.digest }, {})
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
  // Whoever takes it elsewhere takes all of it: what lies in a colder place is read from there.
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
    // What it waits for and when belongs to its end: of an earlier place nobody knows.
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
    // Whoever imports it need not have the keys of long ago: what is not under the current one is wrapped
    // (engine/storage/seal/wrap.ts).
    yield { kind: 'run', bytes: encodeRun({ ...run, bytes: kernel.sealer.wrap('runs', run.bytes) }) }
  }
  if (end.seq === head.seq) yield* messageFrames(kernel, head)
}

/** A file holds the history of a fork whole: what it inherited is noted beside it. */
function inheritanceAt({ identity, limits }: Kernel, lineage: readonly Head[], seq: number): Record<string, string> {
  const stretches = inheritedBy(lineage).map(({ timeline, upTo, identity: known = null }) => {
    const owner = lineage.find((head) => head.timeline === timeline && liveIdOf(timeline) === timeline)
    return { timeline, upTo: Math.min(upTo, seq), identity: known ?? (owner ? identity.origin(owner).identity : null) }
  })
  const text = inheritanceText(stretches, limits.attributeTextLength)
  return text === null ? {} : { [inheritedAttribute]: text }
}

/** A copy beside its original inherits all of its history, like a fork. */
export function inheritanceBeside({ limits }: Kernel, { timeline, seq, carried, attributes }: Header): string | null {
  const original = { timeline, upTo: seq, identity: carried?.identity ?? null }
  return inheritanceText([original, ...importedInheritance(attributes)], limits.attributeTextLength)
}

async function* messageFrames(kernel: Kernel, head: Head): AsyncGenerator<Frame> {
  if (head.mail === 0 || kernel.planted.has('export-forgets-mail')) return
  const { messages } = await kernel.store.inbox(head.timeline, messagesMax)
  if (messages.length === messagesMax) {
    const what = `${head.timeline} has more than ${messagesMax} messages that nobody read`
    throw new RepriseError('LIMIT_EXCEEDED', what, { timeline: head.timeline })
  }
  for (const { id, to, kind, data } of messages) {
    const message: TransferredMessage = { id, to, kind, data: kernel.sealer.wrap('messages', data) }
    yield { kind: 'message', bytes: kernel.codec.encode(message) }
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
