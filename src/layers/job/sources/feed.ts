// The kernel's feed as a source: entries of many timelines in one gap-free order. Its position is the feed's own, kept as
// a named cursor in the store, so that history is never trimmed before it was consumed.

import { feedStart } from '../../../core/ports.ts'
import { isWithin } from '../../../core/scope.ts'
import { type Readable, reads, systemPrefix } from '../../../engine/definition.ts'
import { FeedReader } from '../../../engine/feed/reader.ts'
import type { Entry } from '../../../engine/recovery/history.ts'
import type { Chunk, ReadContext, Reader, Source } from '../source.ts'

const pageRuns = 200
const pollMs = 1000

export interface FeedSourceOptions {
  readonly prefixes: readonly string[]
  /** Wait for more at the end. */
  readonly follow: boolean
  readonly types?: ReadonlySet<string> | undefined
  readonly forks: boolean
  /** Sources whose entries have a form of their own. */
  readonly readers?: readonly Readable[]
}

export function feedSource(options: FeedSourceOptions): Source<Entry> {
  return {
    kind: 'feed',
    goesOn: true,
    open: (position, context) => new FeedItems(options, (position as string | undefined) ?? feedStart, context),
  }
}

class FeedItems implements Reader<Entry> {
  readonly #options: FeedSourceOptions
  readonly #context: ReadContext
  readonly #reader: FeedReader
  #position: string

  constructor(options: FeedSourceOptions, position: string, context: ReadContext) {
    this.#options = options
    this.#context = context
    this.#position = position
    const { prefixes, forks } = options
    this.#reader = new FeedReader(context.engine.kernel, prefixes, { mayBeTrimmed: true, forks })
  }

  async next(): Promise<Chunk<Entry> | null> {
    for (;;) {
      if (this.#context.signal.aborted) return null
      const page = await this.#reader.page(this.#position, pageRuns)
      const hasMoved = page.next !== this.#position
      this.#position = page.next
      if (page.runs.length > 0 || hasMoved) return this.#chunk(page.runs)
      if (!page.isEnd) continue
      if (!this.#options.follow) return null
      await this.#news()
    }
  }

  #chunk(runs: readonly { readonly position: string; readonly entries: readonly Entry[] }[]): Chunk<Entry> {
    const items: Entry[] = []
    const keys: string[] = []
    for (const { position, entries } of runs) {
      for (const stored of entries) {
        const entry = stored.type.startsWith(systemPrefix) ? null : this.#read(stored)
        if (!entry || (this.#options.types && !this.#options.types.has(entry.type))) continue
        items.push(entry)
        keys.push(keyAt(position, entry))
      }
    }
    return { items, keys, after: { position: this.#position } }
  }

  #read(entry: Entry): Entry | null {
    const reader = this.#options.readers?.find(({ prefix }) => isWithin(prefix, entry.timeline))
    return reader ? reader[reads](entry) : entry
  }

  /** Told by the store, or after a while in any case. */
  #news(): Promise<void> {
    const { engine, signal } = this.#context
    return new Promise((resolve) => {
      const go = () => {
        off()
        cancel()
        signal.removeEventListener('abort', go)
        resolve()
      }
      const cancel = engine.kernel.clock.after(pollMs, go)
      const off = engine.kernel.store.listen(go)
      signal.addEventListener('abort', go, { once: true })
    })
  }
}

/** In the order of the feed, as text: so that all keys up to a position can be forgotten at once. */
function keyAt(position: string, entry: Entry): string {
  return `${position} ${entry.timeline}@${entry.seq}`
}
