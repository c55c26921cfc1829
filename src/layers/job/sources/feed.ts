// The kernel's feed as a source: entries of many timelines in one gap-free order. Its position is the feed's own,
// stored as a named cursor, so that history is never trimmed before it was consumed.

import { isPathError } from '../../../core/history/fold.ts'
import { isWithin } from '../../../core/history/scope.ts'
import { feedStart } from '../../../core/store/ports.ts'
import { fingerprintOf } from '../../../engine/feed/entry-fingerprint.ts'
import { FeedStream } from '../../../engine/feed/feed-stream.ts'
import type { Entry } from '../../../engine/history/history.ts'
import { hostOf } from '../../../engine/host/host.ts'
import { type Readable, reads, systemPrefix } from '../../../engine/model/definition.ts'
import type { Kernel } from '../../../engine/storage/kernel.ts'
import type { Chunk, JobSource, ReadContext, Reader } from '../source.ts'

const pageRuns = 200

export interface FeedSourceOptions {
  readonly prefixes: readonly string[]
  /** Wait for more entries at the end. */
  readonly follow: boolean
  readonly types?: ReadonlySet<string> | undefined
  readonly forks: boolean
  /** Sources with their own item type. */
  readonly readers?: readonly Readable[]
}

export function feedSource(options: FeedSourceOptions): JobSource<Entry> {
  return {
    kind: 'feed',
    takesInput: false,
    goesOn: true,
    open: (position, context) => new FeedItems(options, (position as string | undefined) ?? feedStart, context),
    readAgain: (stored) => read(options, stored as Entry),
  }
}

/** The entry as its definition reads it; null if it does not belong to this job. */
function read({ readers, types }: FeedSourceOptions, stored: Entry): Entry | null {
  if (stored.type.startsWith(systemPrefix)) return null
  const reader = readers?.find(({ prefix }) => isWithin(prefix, stored.timeline))
  const entry = reader ? reader[reads](stored) : stored
  return entry && types && !types.has(entry.type) ? null : entry
}

class FeedItems implements Reader<Entry> {
  readonly #options: FeedSourceOptions
  readonly #stream: FeedStream
  readonly #kernel: Kernel
  readonly #entryKeys: boolean

  constructor(options: FeedSourceOptions, after: string, { engine, signal, entryKeys = false }: ReadContext) {
    this.#options = options
    this.#kernel = hostOf(engine).kernel
    this.#entryKeys = entryKeys
    const { prefixes: scopes, forks, follow } = options
    // The cursor keeps history: entries that are gone were removed before the consumer existed.
    this.#stream = new FeedStream(this.#kernel, {
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
    const unread = new Map<number, unknown>()
    for (const { position, entries } of runs) {
      for (const stored of entries) {
        let entry: Entry | null = stored
        try {
          entry = read(this.#options, stored)
        } catch (error) {
          if (isPathError(error)) throw error
          unread.set(items.length, error)
        }
        if (!entry) continue
        items.push(entry)
        const print = this.#entryKeys ? `#${fingerprintOf(this.#kernel, stored)}` : ''
        keys.push(`${position} ${stored.timeline}@${stored.seq}${print}`)
      }
    }
    return { items, keys, after: { position: this.#stream.position }, ...(unread.size > 0 && { unread }) }
  }
}

/**
 * The entry that a key names, without its feed position, which differs in another copy of the store. Keys begin with
 * the position, in the order of the feed, so that all keys up to a position can be dropped at once.
 */
export function entryOfKey(key: string): string {
  return key.slice(key.indexOf(' ') + 1)
}
