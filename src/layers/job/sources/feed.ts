// The kernel's feed as a source: entries of many timelines in one gap-free order. Its position is the feed's own, kept as
// a named cursor in the store, so that history is never trimmed before it was consumed.

import { isWithin } from '../../../core/history/scope.ts'
import { feedStart } from '../../../core/store/ports.ts'
import { FeedStream } from '../../../engine/feed/feed-stream.ts'
import type { Entry } from '../../../engine/history/history.ts'
import { hostOf } from '../../../engine/host/host.ts'
import { type Readable, reads, systemPrefix } from '../../../engine/model/definition.ts'
import type { Chunk, ReadContext, Reader, Source } from '../source.ts'

const pageRuns = 200

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
  readonly #stream: FeedStream

  constructor(options: FeedSourceOptions, after: string, { engine, signal }: ReadContext) {
    this.#options = options
    const { prefixes: scopes, forks, follow } = options
    // Its cursor keeps history: what is gone was gone before it came.
    this.#stream = new FeedStream(hostOf(engine).kernel, {
      scopes,
      forks,
      follow,
      after,
      signal,
      mayBeTrimmed: true,
      pageRuns,
    })
  }

  async next(): Promise<Chunk<Entry> | null> {
    const page = await this.#stream.next()
    return page && this.#chunk(page.runs)
  }

  close(): void {
    this.#stream.close()
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
    return { items, keys, after: { position: this.#stream.position } }
  }

  #read(entry: Entry): Entry | null {
    const reader = this.#options.readers?.find(({ prefix }) => isWithin(prefix, entry.timeline))
    return reader ? reader[reads](entry) : entry
  }
}

/** In the order of the feed, as text: so that all keys up to a position can be forgotten at once. */
function keyAt(position: string, entry: Entry): string {
  return `${position} ${entry.timeline}@${entry.seq}`
}
