// Reading the feed: entries of many timelines in one order, each run checked against the digest chain of its timeline
// before its entries are handed on. Remembers where each timeline stood, so that going on costs no extra reads.

import type { Digest, TimelineId } from '../core/coordinate.ts'
import { RepriseError } from '../core/errors.ts'
import type { FeedFilter, FeedItem, FeedPosition } from '../core/ports.ts'
import { lastSeq, verifyRun } from '../core/run.ts'
import { digestAt, type Entry, entriesOf, lineageOf } from './history.ts'
import type { Kernel } from './kernel.ts'

export interface FeedRun {
  /** Everything up to and including this run was given. */
  readonly position: FeedPosition
  readonly timeline: TimelineId
  readonly entries: readonly Entry[]
}

export interface FeedEntries {
  readonly runs: readonly FeedRun[]
  readonly next: FeedPosition
  readonly isEnd: boolean
}

const rememberedMax = 10_000

export class FeedReader {
  readonly #kernel: Kernel
  readonly #filter: FeedFilter
  readonly #known = new Map<TimelineId, { readonly seq: number; readonly digest: Digest }>()

  constructor(kernel: Kernel, filter: FeedFilter = {}) {
    this.#kernel = kernel
    this.#filter = filter
  }

  /** @example const { runs, next } = await reader.read(feedStart, 500) */
  async read(after: FeedPosition, limit: number): Promise<FeedEntries> {
    const page = await this.#kernel.store.feed(after, this.#filter, limit)
    const runs: FeedRun[] = []
    for (const item of page.items) {
      runs.push({ position: item.position, timeline: item.timeline, entries: await this.#open(item) })
    }
    return { runs, next: page.next, isEnd: page.isEnd }
  }

  async #open({ timeline, run }: FeedItem): Promise<Entry[]> {
    const known = this.#known.get(timeline)
    const before = known?.seq === run.first - 1 ? known.digest : await this.#digestBefore(timeline, run.first)
    verifyRun(this.#kernel.hash, timeline, run, { seq: run.first - 1, digest: before })
    this.#known.delete(timeline)
    this.#known.set(timeline, { seq: lastSeq(run), digest: run.digest })
    if (this.#known.size > rememberedMax) this.#known.delete(this.#known.keys().next().value!)
    return entriesOf(this.#kernel, { timeline, run, before, skipTo: run.first - 1 })
  }

  async #digestBefore(timeline: TimelineId, first: number): Promise<Digest> {
    const [head] = await this.#kernel.store.head([timeline])
    if (!head) throw new RepriseError('NOT_FOUND', `${timeline} was removed while it was being read`, { timeline })
    return await digestAt(this.#kernel, await lineageOf(this.#kernel, head), first - 1)
  }
}
