// Reads history so that nothing unverified gets through: runs in order across a fork and its ancestors, each checked
// against the digest chain before it is returned. Damage is an error that names the timeline and the sequence.

import { type Digest, equalBytes, type TimelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { eachEntry, lastSeq, sliceEntries, verifyEntries } from '../../core/history/entry-run.ts'
import { isRedacted } from '../../core/history/redacted-run.ts'
import { archivedFrom, archiveNumber, archiveOf } from '../../core/history/scope.ts'
import type { Base, EntryRun, Head } from '../../core/store/ports.ts'
import type { Entry } from '../model/entry.ts'
import type { Kernel } from '../storage/kernel.ts'
import { openEntry } from '../storage/seal/entries.ts'
import { confirmErased } from './erasures.ts'
import { reasonOf } from './retry-with-fresh-head.ts'
import { readRunsBelow, readSegment, type SegmentReader, segmentsBelow } from './segments.ts'

export type { Entry } from '../model/entry.ts'

type Reader = SegmentReader

export interface Point {
  readonly seq: number
  readonly digest: Digest
}

/** A verified run; entries up to and including `skipTo` were read before. */
export interface VerifiedRun {
  readonly timeline: TimelineId
  readonly run: EntryRun
  readonly before: Digest
  readonly skipTo: number
}

const pageBytes = 4 * 1024 * 1024

/**
 * The timeline and its ancestors, itself first. Every rollback adds one, so reading has no bound: fork.ts bounds how
 * deep forks nest.
 */
export async function lineageOf(reader: Pick<Reader, 'store'>, head: Head): Promise<readonly Head[]> {
  const heads = [head]
  const seen = new Set<string>([head.timeline])
  let ahead = new Map<string, Head>()
  for (let current = head; current.base && !ownsHistoryFrom(current); ) {
    const id = current.base.timeline
    if (seen.has(id)) {
      throw new RepriseError('HISTORY_DAMAGED', `${head.timeline} is an ancestor of itself`, { timeline: id })
    }
    seen.add(id)
    if (!ahead.has(id)) ahead = await familyOf(reader, id)
    const parent = ahead.get(id)
    if (!parent) {
      throw new RepriseError(
        'HISTORY_DAMAGED',
        `${current.timeline} is a fork of ${current.base.timeline}, which no longer exists`,
        {
          timeline: current.timeline,
          seq: current.base.seq,
        },
      )
    }
    heads.push(parent)
    current = parent
  }
  return heads
}

const archivesAtOnce = 64

/** The head of this id and, for an archive, those of the earlier archives: after many rollbacks each builds on the previous. */
async function familyOf({ store }: Pick<Reader, 'store'>, id: TimelineId): Promise<Map<string, Head>> {
  const live = archivedFrom(id)
  const ids = [id]
  for (let n = archiveNumber(id) - 1; live !== null && n > 0 && ids.length < archivesAtOnce; n--) {
    ids.push(archiveOf(live, n) as TimelineId)
  }
  const heads = await store.head(ids)
  return new Map(heads.flatMap((found) => (found ? [[found.timeline, found]] : [])))
}

/** A fork that was trimmed above its base no longer reads its parent. */
function ownsHistoryFrom(head: Head): boolean {
  return !head.base || head.floor >= head.base.seq
}

/** The earliest point from which the store itself has history. */
export function floorOf(lineage: readonly Head[]): Point {
  const last = lineage[lineage.length - 1]!
  return { seq: last.floor, digest: last.floorDigest }
}

/** The earliest point from which history can be read, including segments below the floor. */
export async function reachOf(reader: Reader, lineage: readonly Head[]): Promise<Point> {
  const floor = floorOf(lineage)
  const [oldest] = await segmentsBelow(reader, lineage[lineage.length - 1]!)
  return oldest ? oldest.from : floor
}

/** Verified runs of `(from, to]`, oldest first. */
export async function* readHistory(
  reader: Reader,
  lineage: readonly Head[],
  from: Point,
  to: number,
): AsyncGenerator<VerifiedRun, Point> {
  if (to < from.seq) {
    // The caller read the head before it was trimmed.
    const { timeline } = lineage[0]!
    const what = `history of ${timeline} begins after ${from.seq}, and ${to} is before that`
    throw new RepriseError('OUT_OF_RANGE', what, { timeline, seq: to, floor: from.seq })
  }
  try {
    return yield* readAll(reader, lineage, from, to)
  } catch (error) {
    throw await reasonOf(reader, lineage[0]!, error)
  }
}

async function* readAll(
  reader: Reader,
  lineage: readonly Head[],
  from: Point,
  to: number,
): AsyncGenerator<VerifiedRun, Point> {
  let at = from
  // A branch may leave its ancestors below the point where its parent left them: the earliest point counts.
  const ends = [to]
  for (const { base } of lineage) ends.push(Math.min(ends.at(-1)!, base?.seq ?? to))
  for (let i = lineage.length - 1; i >= 0; i--) {
    const head = lineage[i]!
    const end = ends[i]!
    if (end <= at.seq) continue
    at = yield* readOwn(reader, head, at, end)
    const leaves = lineage.slice(0, i).flatMap(({ base }) => base ?? [])
    checkJoint(head, leaves, at)
  }
  return at
}

async function* readOwn(reader: Reader, head: Head, from: Point, end: number): AsyncGenerator<VerifiedRun, Point> {
  let at = from
  while (at.seq < end) {
    const isBelow = at.seq < head.floor
    const runs = isBelow
      ? await readRunsBelow(reader, head, at.seq)
      : await reader.store.read(head.timeline, at.seq, pageBytes)
    if (runs.length === 0) {
      throw new RepriseError(
        'HISTORY_DAMAGED',
        `history of ${head.timeline} ends at ${at.seq}, its head is at ${head.seq}`,
        {
          timeline: head.timeline,
          seq: at.seq + 1,
          head: head.seq,
        },
      )
    }
    for (const whole of runs) {
      // A fork that left in the middle of a segment continues with its own history.
      if (at.seq >= end || (isBelow && at.seq >= head.floor)) break
      const before = whole.first > at.seq ? at.digest : await digestInside(reader, head, whole, at)
      verifyEntries(reader.hash, head.timeline, whole, {
        seq: whole.first > at.seq ? at.seq : whole.first - 1,
        digest: before,
      })
      if (isRedacted(whole.bytes)) await confirmErased(reader, head.timeline, whole)
      const last = isBelow ? Math.min(end, head.floor) : end
      const run = lastSeq(whole) > last ? sliceEntries(reader.hash, whole, before, last) : whole
      yield { timeline: head.timeline, run, before, skipTo: at.seq }
      at = { seq: lastSeq(run), digest: run.digest }
    }
    if (isBelow && at.seq === head.floor && !equalBytes(at.digest, head.floorDigest)) throw offFloor(head)
  }
  return at
}

function offFloor({ timeline, floor }: Head): RepriseError {
  const what = `the segments of ${timeline} do not lead to the digest of its floor at ${floor}`
  return new RepriseError('HISTORY_DAMAGED', what, { timeline, seq: floor })
}

/** `at` is inside the run: finds the digest before the run, and checks that the run passes through `at`. */
async function digestInside(reader: Reader, head: Head, run: EntryRun, at: Point): Promise<Digest> {
  const before = await digestBefore(reader, head, run.first)
  // The whole run is checked first: the prefix of a damaged one would look like another branch.
  verifyEntries(reader.hash, head.timeline, run, { seq: run.first - 1, digest: before })
  const prefix = sliceEntries(reader.hash, run, before, at.seq)
  if (!equalBytes(prefix.digest, at.digest)) throw offBranch(head.timeline, at.seq)
  return before
}

async function digestBefore(reader: Reader, head: Head, first: number): Promise<Digest> {
  if (first - 1 === head.floor) return head.floorDigest
  if (first - 1 === head.base?.seq) return head.base.digest
  if (first - 1 < head.floor) return await digestBelow(reader, head, first - 1)
  const [previous] = await reader.store.read(head.timeline, first - 2, 1)
  if (!previous || lastSeq(previous) !== first - 1) {
    throw new RepriseError('HISTORY_DAMAGED', `history of ${head.timeline} has a gap before sequence ${first}`, {
      timeline: head.timeline,
      seq: first - 1,
    })
  }
  return previous.digest
}

/** The digest of history at a sequence, read from the run that contains it, without folding. */
export async function digestAt(reader: Reader, lineage: readonly Head[], seq: number): Promise<Digest> {
  try {
    return await digestIn(reader, lineage, seq)
  } catch (error) {
    throw await reasonOf(reader, lineage[0]!, error)
  }
}

async function digestIn(reader: Reader, lineage: readonly Head[], seq: number): Promise<Digest> {
  const head = lineage.find((each) => !each.base || seq >= each.base.seq) ?? lineage[lineage.length - 1]!
  if (seq === head.seq) return head.digest
  if (seq === head.floor) return head.floorDigest
  if (seq === head.base?.seq) return head.base.digest
  if (seq < head.floor) return await digestBelow(reader, head, seq)
  if (seq > head.seq) {
    throw new RepriseError(
      'OUT_OF_RANGE',
      `${head.timeline} has history from ${head.floor} to ${head.seq}, not at ${seq}`,
      {
        timeline: head.timeline,
        seq,
        floor: head.floor,
        head: head.seq,
      },
    )
  }
  const [run] = await reader.store.read(head.timeline, seq - 1, 1)
  if (!run || run.first > seq || lastSeq(run) < seq) {
    throw new RepriseError('HISTORY_DAMAGED', `history of ${head.timeline} has no sequence ${seq}`, {
      timeline: head.timeline,
      seq,
    })
  }
  const before = await digestBefore(reader, head, run.first)
  verifyEntries(reader.hash, head.timeline, run, { seq: run.first - 1, digest: before })
  if (isRedacted(run.bytes)) await confirmErased(reader, head.timeline, run)
  return sliceEntries(reader.hash, run, before, seq).digest
}

/** The same below the floor, from the segment that contains it. Throws OUT_OF_RANGE if there is none. */
async function digestBelow(reader: Reader, head: Head, seq: number): Promise<Digest> {
  const starts = await segmentsBelow(reader, head)
  const start = starts.findLast(({ from }) => from.seq <= seq)
  if (!start) {
    const floor = starts[0]?.from.seq ?? head.floor
    const what = `${head.timeline} has history from ${floor} to ${head.seq}, not at ${seq}`
    throw new RepriseError('OUT_OF_RANGE', what, { timeline: head.timeline, seq, floor, head: head.seq })
  }
  let before = start.from.digest
  if (start.from.seq === seq) return before
  for (const run of (await readSegment(reader, head.timeline, start)).runs) {
    if (lastSeq(run) >= seq) return sliceEntries(reader.hash, run, before, seq).digest
    before = run.digest
  }
  throw offFloor(head)
}

/** The current form of one entry. Null: it was trimmed, or does not exist. */
export async function entryAt(kernel: Kernel, timeline: TimelineId, seq: number): Promise<Entry | null> {
  const [head] = await kernel.store.head([timeline])
  const lineage = head ? await lineageOf(kernel, head) : []
  if (!head || seq > head.seq || seq <= (await reachOf(kernel, lineage)).seq) return null
  const from = { seq: seq - 1, digest: await digestAt(kernel, lineage, seq - 1) }
  const { value } = await readHistory(kernel, lineage, from, seq).next()
  const [entry] = entriesOf(kernel, value as VerifiedRun)
  return { ...entry!, timeline }
}

/**
 * The last entry, bound to its head by the digest of the run before it; older history is not read. Null: these two runs
 * do not suffice or do not match, and the caller must read all of history, which reports the fault.
 */
export async function lastEntry(kernel: Kernel, head: Head): Promise<Entry | null> {
  const { timeline, seq, floor, base } = head
  if (base !== null || floor > seq - 2) return null
  const runs = await kernel.store.read(timeline, seq - 2, pageBytes)
  const [previous, last] = runs
  if (!previous || !last || runs.length > 2 || lastSeq(last) !== seq || !equalBytes(last.digest, head.digest))
    return null
  if (last.first !== lastSeq(previous) + 1 || isRedacted(last.bytes)) return null
  verifyEntries(kernel.hash, timeline, last, { seq: lastSeq(previous), digest: previous.digest })
  return entriesOf(kernel, { timeline, run: last, before: previous.digest, skipTo: seq - 1 })[0] ?? null
}

/** The decoded entries of a verified run, without those read before. */
export function entriesOf(kernel: Pick<Kernel, 'codec' | 'sealer'>, verified: VerifiedRun): Entry[] {
  const { timeline, run, before, skipTo } = verified
  const { codec, sealer } = kernel
  const entries: Entry[] = []
  eachEntry(run, (stored) => {
    const { seq, epoch, version, time } = stored
    if (seq <= skipTo) return
    const { type, key, plain } = openEntry(sealer, stored, before, seq - run.first)
    entries.push({ timeline, seq, epoch, type, version, time, key, data: codec.decode(plain) })
  })
  return entries
}

function checkJoint(head: Head, leaves: readonly Base[], at: Point): void {
  const expected = leaves.find((base) => base.seq === at.seq)?.digest ?? (at.seq === head.seq ? head.digest : null)
  if (expected && !equalBytes(expected, at.digest)) {
    throw new RepriseError(
      'HISTORY_DAMAGED',
      `history of ${head.timeline} does not lead to its head's digest at ${at.seq}`,
      {
        timeline: head.timeline,
        seq: at.seq,
      },
    )
  }
}

export function offBranch(timeline: string, seq: number): RepriseError {
  return new RepriseError('NOT_ON_BRANCH', `${timeline}@${seq} with that digest is not part of this branch`, {
    timeline,
    seq,
  })
}
