// The feed for layers: entries of many timelines in one gap-free order, each run checked against the digest chain of its
// timeline before it is decoded. Branches that were rolled back do not show, except for the part that is still history.

import { type Digest, type TimelineId, timelineId } from '../core/coordinate.ts'
import { RepriseError } from '../core/errors.ts'
import { type FeedItem, type FeedPosition, feedStart, type Head } from '../core/ports.ts'
import { lastSeq, originDigest, verifyRun } from '../core/run.ts'
import { archivedFrom, idBelow } from '../core/scope.ts'
import { type Entry, entriesOf, lineageOf, type Point } from './history.ts'
import type { Kernel } from './kernel.ts'

export interface FeedRun {
  /** Everything up to and including this run was given. */
  readonly position: FeedPosition
  readonly entries: readonly Entry[]
}

export interface FeedEntries {
  readonly runs: readonly FeedRun[]
  /** Those of all the runs, in order. */
  readonly entries: readonly Entry[]
  /** Where to go on. */
  readonly next: FeedPosition
  readonly isEnd: boolean
}

/** Timelines whose last digest is remembered; of others it is read again. */
const rememberedMax = 100_000

export class FeedReader {
  readonly #kernel: Kernel
  readonly #scopes: readonly string[]
  readonly #last = new Map<TimelineId, Point>()
  readonly #mayBeTrimmed: boolean
  /** Read from the very start, and nothing forgotten since: then a timeline that does not start at 1 was trimmed. */
  #isFromStart = false

  /** Without scopes: every timeline. `mayBeTrimmed`: what is no longer there is passed over, not an error. */
  constructor(kernel: Kernel, scopes: readonly string[] = [], options: { readonly mayBeTrimmed?: boolean } = {}) {
    this.#mayBeTrimmed = options.mayBeTrimmed ?? false
    this.#kernel = kernel
    this.#scopes = scopes
  }

  /** `limit` counts runs, so there may be more entries. */
  async page(after: FeedPosition, limit = 1000): Promise<FeedEntries> {
    if (after === feedStart) this.#isFromStart = !this.#mayBeTrimmed
    const filter = this.#scopes.length > 0 ? { prefixes: this.#scopes } : {}
    const { items, next, isEnd } = await this.#kernel.store.feed(after, filter, limit)
    const runs: FeedRun[] = []
    for (const item of items) {
      const before = await this.#before(item)
      const { timeline, run } = item
      verifyRun(this.#kernel.hash, timeline, run, { seq: run.first - 1, digest: before })
      this.#remember(timeline, { seq: lastSeq(run), digest: run.digest })
      const decoded = entriesOf(this.#kernel, { timeline, run, before, skipTo: run.first - 1 })
      const entries = archivedFrom(timeline) ? await this.#ofBranch(timeline, decoded) : decoded
      runs.push({ position: item.position, entries })
    }
    return { runs, entries: runs.flatMap((each) => each.entries), next, isEnd }
  }

  /** Forgets what it knows: after the caller goes back to an earlier position. */
  reset(): void {
    this.#last.clear()
    this.#isFromStart = false
  }

  async #before({ timeline, run }: FeedItem): Promise<Digest> {
    const known = this.#last.get(timeline)
    if (known?.seq === run.first - 1) return known.digest
    if (run.first === 1 && !archivedFrom(timeline)) return originDigest(this.#kernel.hash, timeline)
    const { store } = this.#kernel
    const [head] = await store.head([timeline])
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

  #remember(timeline: TimelineId, point: Point): void {
    this.#last.delete(timeline)
    this.#last.set(timeline, point)
    if (this.#last.size <= rememberedMax) return
    this.#isFromStart = false
    for (const oldest of this.#last.keys()) {
      this.#last.delete(oldest)
      return
    }
  }

  /** Of an archived branch only what its successor still builds on counts, and as the successor's. */
  async #ofBranch(archive: TimelineId, entries: readonly Entry[]): Promise<readonly Entry[]> {
    const { store } = this.#kernel
    let successor = archive
    let [current] = await store.head([archive])
    // An archive that was rolled back itself leads to an archive.
    for (let from = archivedFrom(archive); current?.status === 'archived' && from !== null; from = archivedFrom(from)) {
      successor = timelineId(from)
      ;[current] = await store.head([successor])
    }
    // Not an archive: it only has the name of one, and belongs to the scope that names it otherwise.
    if (successor === archive) return this.#isNamed(archive) ? entries : []
    const upTo = current ? sharedUpTo(await lineageOf(this.#kernel, current), archive) : 0
    return entries.filter((entry) => entry.seq <= upTo).map((entry) => ({ ...entry, timeline: successor }))
  }

  #isNamed(timeline: TimelineId): boolean {
    const isNamedBy = (scope: string) => scope === timeline || idBelow(scope, timeline) !== null
    return this.#scopes.length === 0 || this.#scopes.some(isNamedBy)
  }
}

/** Reading from the start must not pass over in silence what is no longer there. */
function trimmed(timeline: string, first: number): RepriseError {
  return new RepriseError(
    'UNRECOVERABLE',
    `history of ${timeline} before ${first} was trimmed: the feed is not whole`,
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
