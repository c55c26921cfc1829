// The feed for layers: entries of many timelines in one gap-free order, each run verified against the digest chain of its
// timeline before it is decoded. Branches that were rolled back are hidden, except for the part that is still history.

import { type Digest, equalBytes, type TimelineId, timelineId } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { isChained, lastSeq, originDigest, verifyEntries } from '../../core/history/entry-run.ts'
import { importedInheritance } from '../../core/history/inheritance.ts'
import { isRedacted } from '../../core/history/redacted-run.ts'
import { archivedFrom, idBelow, liveIdOf } from '../../core/history/scope.ts'
import { type FeedItem, type FeedPosition, feedStart, type Head } from '../../core/store/ports.ts'
import { Yielder } from '../base/yielder.ts'
import { confirmErased } from '../history/erasures.ts'
import { type Entry, entriesOf, lineageOf, type Point } from '../history/history.ts'
import { isOfStore } from '../model/id-prefixes.ts'
import type { Kernel } from '../storage/kernel.ts'
import { FeedMarks, goneAt, whereabouts } from './feed-marks.ts'
import { LastDigests } from './last-digests.ts'
import type { SeenRun } from './outside-position.ts'

export interface FeedRun {
  /** All runs up to and including this one were returned. */
  readonly position: FeedPosition
  readonly entries: readonly Entry[]
  /** Absent if the run is not for the reader. */
  readonly seen?: SeenRun
}

export interface FeedEntries {
  readonly runs: readonly FeedRun[]
  /** The entries of all the runs, in order. */
  readonly entries: readonly Entry[]
  /** The position to resume from. */
  readonly next: FeedPosition
  readonly isEnd: boolean
}

export interface FeedReaderOptions {
  /** True: trimmed entries are skipped without an error. */
  readonly mayBeTrimmed?: boolean | undefined
  /** False: excludes entries written to forks, which are experiments. */
  readonly forks?: boolean | undefined
}

/** The number of remembered last digests, at about 150 bytes each; others are read again, with two reads per run. */
const rememberedMax = 1_000_000

export class FeedReader {
  readonly #kernel: Kernel
  readonly #scopes: readonly string[]
  readonly #last = new LastDigests(rememberedMax)
  readonly #yielder: Yielder
  readonly #marks: FeedMarks
  readonly #mayBeTrimmed: boolean
  readonly #hasForks: boolean
  /** Whether timelines with a remembered digest are forks. */
  readonly #forks = new Map<TimelineId, boolean>()
  /** True: read from the very start, and nothing forgotten since: a timeline that does not start at 1 was then trimmed. */
  #isFromStart = false

  /** Without scopes: every timeline. */
  constructor(kernel: Kernel, scopes: readonly string[] = [], options: FeedReaderOptions = {}) {
    this.#mayBeTrimmed = options.mayBeTrimmed ?? false
    this.#hasForks = options.forks ?? true
    this.#kernel = kernel
    this.#yielder = new Yielder(kernel.clock)
    this.#marks = new FeedMarks(kernel)
    this.#scopes = scopes
  }

  /**
   * `limit` counts runs, so there may be more entries. POSITION_GONE if the store no longer has the last entries that this
   * reader read: state derived from them must be dropped.
   */
  async page(after: FeedPosition, limit = 1000): Promise<FeedEntries> {
    try {
      return await this.#page(after, limit)
    } catch (error) {
      if (isReprise(error, 'POSITION_GONE')) {
        this.reset()
        this.#marks.clear()
      }
      throw error
    }
  }

  /** POSITION_GONE if the store no longer has the last entries read. */
  async confirm(): Promise<void> {
    await this.#marks.check('')
  }

  async #page(after: FeedPosition, limit: number): Promise<FeedEntries> {
    if (after === feedStart) this.#isFromStart = !this.#mayBeTrimmed
    await this.#marks.begin()
    const filter = this.#scopes.length > 0 ? { prefixes: this.#scopes } : {}
    const { items, next, isEnd } = await this.#kernel.store.feed(after, filter, limit)
    // Check after the page was read: the page is then from the same store, or the next check fails.
    await this.#marks.check(after)
    const last = items.at(-1)
    if (last && isEnd) this.#kernel.identity.saw(last)
    const runs: FeedRun[] = []
    for (const item of items) {
      if (this.#yielder.isDue) await this.#yielder.take()
      // The store's own records are hidden, unless they are requested.
      if (this.#scopes.length === 0 && isOfStore(item.timeline)) {
        runs.push({ position: item.position, entries: [] })
        continue
      }
      const before = await this.#before(item)
      const { timeline, run } = item
      await this.#verify(item, before)
      this.#remember(timeline, { seq: lastSeq(run), digest: run.digest })
      if (!this.#hasForks && (await this.#isFork(item, before))) {
        runs.push({ position: item.position, entries: [] })
        continue
      }
      const decoded = entriesOf(this.#kernel, { timeline, run, before, skipTo: run.first - 1 })
      const entries = archivedFrom(timeline) ? await this.#ofBranch(timeline, decoded) : decoded
      runs.push({ position: item.position, entries, seen: { timeline, seq: lastSeq(run), digest: run.digest } })
    }
    return { runs, entries: runs.flatMap((each) => each.entries), next, isEnd }
  }

  /** Drops remembered digests, after the caller went back to an earlier position. Marks of the last entries read stay. */
  reset(): void {
    this.#last.clear()
    this.#forks.clear()
    this.#isFromStart = false
  }

  async #before({ timeline, run, position }: FeedItem): Promise<Digest> {
    const known = this.#last.get(timeline)
    if (known?.seq === run.first - 1) return known.digest
    // The timeline was rolled back, or has another history.
    if (known && known.seq >= run.first) await this.#refuseGone(timeline, known, position)
    const { store, hash } = this.#kernel
    const origin = originDigest(hash, timeline)
    // A fork made before its parent's first entry starts at 1 too, from its parent's origin.
    const isRoot = run.first === 1 && !archivedFrom(timeline) && isChained(hash, origin, run)
    const [head] = isRoot ? [] : await store.head([timeline])
    // An imported copy has no base. Until it is trimmed, its floor has its starting digest: that of another origin if the copy
    // has another id, or was a fork.
    const isTrimmed = run.first === 1 && !head?.base && head?.floor !== 0 && !archivedFrom(timeline)
    if (isRoot || isTrimmed) return origin
    if (head && run.first - 1 === head.floor) {
      if (this.#isFromStart && !known && head.floor > 0 && head.floor !== head.base?.seq)
        throw trimmed(timeline, run.first)
      return head.floorDigest
    }
    if (head?.base && run.first - 1 === head.base.seq) return head.base.digest
    if (this.#isFromStart && !known) throw trimmed(timeline, run.first)
    const [previous] = await store.read(timeline, run.first - 2, 1)
    if (previous && lastSeq(previous) === run.first - 1) return previous.digest
    throw new RepriseError('HISTORY_DAMAGED', `history of ${timeline} has a gap before sequence ${run.first}`, {
      timeline,
      seq: run.first - 1,
    })
  }

  async #verify({ timeline, run, position }: FeedItem, before: Digest): Promise<void> {
    try {
      verifyEntries(this.#kernel.hash, timeline, run, { seq: run.first - 1, digest: before })
      if (isRedacted(run.bytes)) await confirmErased(this.#kernel, timeline, run)
    } catch (error) {
      const known = this.#last.get(timeline)
      if (known?.seq === run.first - 1) await this.#refuseGone(timeline, known, position)
      throw error
    }
  }

  async #refuseGone(timeline: TimelineId, point: Point, position: FeedPosition): Promise<void> {
    if ((await whereabouts(this.#kernel, timeline, point)) === 'gone') throw goneAt(timeline, point, position)
  }

  #remember(timeline: TimelineId, point: Point): void {
    this.#marks.note(timeline, point)
    const gone = this.#last.set(timeline, point)
    if (gone === undefined) return
    this.#isFromStart = false
    this.#forks.delete(gone)
  }

  /**
   * Whether it branched from another timeline, here or where it was exported: the history of a copy under another id, and of a
   * fork that was moved or restored, starts from the origin of another timeline. A timeline that was rolled back continues from
   * its own archive, and is not a fork.
   */
  async #isFork({ timeline, run }: FeedItem, before: Digest): Promise<boolean> {
    const known = this.#forks.get(timeline)
    if (known !== undefined) return known
    const isFork = run.first === 1 ? !this.#isOrigin(timeline, before) : await this.#leftAnother(timeline)
    this.#forks.set(timeline, isFork)
    return isFork
  }

  #isOrigin(timeline: TimelineId, digest: Digest): boolean {
    const { hash } = this.#kernel
    const own = [timeline, archivedFrom(timeline) ?? timeline]
    return own.some((id) => equalBytes(digest, originDigest(hash, timelineId(id))))
  }

  async #leftAnother(timeline: TimelineId): Promise<boolean> {
    const own = archivedFrom(timeline) ?? timeline
    for (let id: TimelineId | undefined = timeline; id !== undefined; ) {
      const [head]: (Head | null)[] = await this.#kernel.store.head([id])
      // A copy whose history was trimmed has lost its origin, but not the list of the histories that it inherited.
      if (importedInheritance(head?.attributes).some(({ timeline }) => liveIdOf(timeline) !== own)) return true
      const parent: TimelineId | undefined = head?.base?.timeline
      if (parent !== undefined && archivedFrom(parent) !== own) return true
      if (head && parent === undefined && head.floor === 0 && !this.#isOrigin(id, head.floorDigest)) {
        await this.#checkFloor(head)
        return true
      }
      id = parent
    }
    return false
  }

  /** HISTORY_DAMAGED: the first run does not follow from the digest of the floor, so that digest names no origin. */
  async #checkFloor({ timeline, floorDigest }: Head): Promise<void> {
    const [first] = await this.#kernel.store.read(timeline, 0, 1)
    if (first) verifyEntries(this.#kernel.hash, timeline, first, { seq: 0, digest: floorDigest })
  }

  /** An archived branch counts only for the part that its successor continues from, as entries of the successor. */
  async #ofBranch(archive: TimelineId, entries: readonly Entry[]): Promise<readonly Entry[]> {
    const { store } = this.#kernel
    let successor = archive
    let [current] = await store.head([archive])
    // An archive that was rolled back itself leads to an archive.
    for (let from = archivedFrom(archive); current?.status === 'archived' && from !== null; from = archivedFrom(from)) {
      successor = timelineId(from)
      ;[current] = await store.head([successor])
    }
    // Not an archive: it only has the name of one, and belongs to the scope that names it.
    if (successor === archive) return this.#isNamed(archive) ? entries : []
    const upTo = current ? sharedUpTo(await lineageOf(this.#kernel, current), archive) : 0
    return entries.filter((entry) => entry.seq <= upTo).map((entry) => ({ ...entry, timeline: successor }))
  }

  #isNamed(timeline: TimelineId): boolean {
    const isNamedBy = (scope: string) => scope === timeline || idBelow(scope, timeline) !== null
    return this.#scopes.length === 0 || this.#scopes.some(isNamedBy)
  }
}

/** A read from the start must not skip trimmed entries silently. */
function trimmed(timeline: string, first: number): RepriseError {
  return new RepriseError(
    'UNRECOVERABLE',
    `history of ${timeline} before ${first} was trimmed: the feed is incomplete`,
    {
      timeline,
      seq: first,
    },
  )
}

/** The last sequence of the archive that is part of this lineage. */
function sharedUpTo(lineage: readonly Head[], archive: TimelineId): number {
  let upTo = Number.POSITIVE_INFINITY
  for (const { base } of lineage) {
    if (!base) return 0
    upTo = Math.min(upTo, base.seq)
    if (base.timeline === archive) return upTo
  }
  return 0
}
