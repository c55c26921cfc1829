// Reads the feed from a position on, page by page, and waits for more at the end: for readers that store the position
// themselves. A reader that resumes from the position of the last handled page misses nothing and gets nothing twice. A page
// without entries is a bookmark: no requested entry precedes its position.

import { RepriseError } from '../../core/errors.ts'
import { type FeedPosition, feedStart } from '../../core/store/ports.ts'
import type { Kernel } from '../storage/kernel.ts'
import { type FeedEntries, FeedReader, type FeedReaderOptions } from './reader.ts'
import { WakeUp } from './wake-up.ts'

export interface FeedStreamOptions extends FeedReaderOptions {
  /** Ids or prefixes of timelines. Default: all timelines. */
  readonly scopes?: readonly string[] | undefined
  /** The position to resume from. Default: the start. */
  readonly after?: FeedPosition
  /** Whether to wait for more at the end. Default: true. */
  readonly follow?: boolean
  /**
   * The cursor that keeps history for readers without a cursor of their own. History behind it may be trimmed: a position
   * behind it is refused with POSITION_GONE, at the start and at every page, and the reader must load the current state again.
   */
  readonly heldBy?: string
  readonly signal?: AbortSignal
  /** The number of entry runs per page. */
  readonly pageRuns?: number
  /** The maximum time between two polls if the store cannot notify. */
  readonly pollMs?: number
}

export class FeedStream {
  readonly #kernel: Kernel
  readonly #options: FeedStreamOptions
  readonly #reader: FeedReader
  readonly #news: WakeUp
  readonly #close = () => this.close()
  #position: FeedPosition
  #isClosed = false

  constructor(kernel: Kernel, options: FeedStreamOptions = {}) {
    this.#kernel = kernel
    this.#options = options
    this.#position = options.after ?? feedStart
    const { mayBeTrimmed = options.heldBy !== undefined, forks } = options
    this.#reader = new FeedReader(kernel, options.scopes, { mayBeTrimmed, forks })
    this.#news = new WakeUp(kernel)
    if (options.signal?.aborted) this.close()
    else options.signal?.addEventListener('abort', this.#close, { once: true })
  }

  /** All pages up to this position were returned. */
  get position(): FeedPosition {
    return this.#position
  }

  /** Null: it was closed or aborted, or the end is reached and it does not follow. */
  async next(): Promise<FeedEntries | null> {
    const { follow = true, pageRuns = 1000, pollMs = 1000 } = this.#options
    while (!this.#isClosed) {
      this.#news.hush()
      const page = await this.#reader.page(this.#position, pageRuns)
      await this.#checkHeld()
      const hasMoved = page.next !== this.#position
      this.#position = page.next
      if (page.runs.length > 0 || hasMoved) return page
      if (page.isEnd && !follow) return null
      if (page.isEnd && !this.#isClosed) await this.#news.wait(pollMs)
    }
    return null
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<FeedEntries> {
    try {
      for (let page = await this.next(); page; page = await this.next()) yield page
    } finally {
      this.close()
    }
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#news.close()
    this.#options.signal?.removeEventListener('abort', this.#close)
  }

  /** Runs after a page was read: while the cursor is not beyond the start of the page, nothing of the page was trimmed. */
  async #checkHeld(): Promise<void> {
    const { heldBy } = this.#options
    if (heldBy === undefined) return
    const held = (await this.#kernel.store.cursors()).find(({ name }) => name === heldBy)
    if (held && held.position <= this.#position) return
    const position = this.#position
    const what = `history after ${position || 'the start'} may have been trimmed: ${heldBy} holds it from ${held ? held.position : 'nowhere'} on`
    const hint =
      'Retention removed these entries. Read from the start of the feed, and rebuild the data derived from it.'
    throw new RepriseError('POSITION_GONE', what, { position, heldBy }, undefined, hint)
  }
}

export interface Lag {
  /** The number of entry runs behind the position, counted up to a bound. */
  readonly runs: number
  readonly isMore: boolean
}

const countedMax = 10_000

/** The distance between a position and the end of the feed. */
export async function lagBehind(
  { store }: Pick<Kernel, 'store'>,
  position: FeedPosition,
  scopes?: readonly string[],
): Promise<Lag> {
  const filter = scopes ? { prefixes: scopes } : {}
  let runs = 0
  for (let at = position; runs < countedMax; ) {
    const page = await store.feed(at, filter, 1000)
    runs += page.items.length
    if (page.isEnd) return { runs, isMore: false }
    at = page.next
  }
  return { runs: countedMax, isMore: true }
}
