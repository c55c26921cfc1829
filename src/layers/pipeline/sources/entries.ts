// The store's own feed as a source: events of aggregates, or entries of any timelines, in one order without gaps. A cursor
// keeps history from being trimmed before the pipeline has passed it; it moves with the pipeline's checkpoints.

import { RepriseError } from '../../../core/errors.ts'
import { isWithin } from '../../../core/history/scope.ts'
import { checkOptions } from '../../../core/options.ts'
import { type FeedPosition, feedStart } from '../../../core/store/ports.ts'
import { FeedStream } from '../../../engine/feed/feed-stream.ts'
import type { FeedRun } from '../../../engine/feed/reader.ts'
import type { Entry } from '../../../engine/history/history.ts'
import { hostOf } from '../../../engine/host/host.ts'
import { type Readable, reads, systemPrefix } from '../../../engine/model/definition.ts'
import type { Positions, Source, SourceBatch, SourceReader } from '../source.ts'

export interface EntriesOptions {
  /** Wait for more at the end (the default), or end there. */
  readonly follow?: boolean
}

/** A definition whose timelines can be read: its entries as they are stored, or as it says (aggregates). */
export type EntriesOf<Item extends Entry> = Readable<Item> | { readonly prefix: string }

/** The entries of every timeline of these definitions. @example p.from('orders', entries([order]), { time: (e) => e.time }) */
export function entries<Item extends Entry = Entry>(
  definitions: readonly EntriesOf<Item>[],
  options: EntriesOptions = {},
): Source<Item> {
  checkOptions('entries', options, new Set(['follow']))
  if (!Array.isArray(definitions) || definitions.length === 0 || definitions.some((each) => !each?.prefix)) {
    throw new RepriseError('INVALID_ARGUMENT', 'entries() needs a list of definitions, such as [orders]')
  }
  return {
    reads: { scopes: definitions.map(({ prefix }) => prefix), forks: false },
    async open(from, { engine, signal }) {
      const stream = new FeedStream(hostOf(engine).kernel, {
        scopes: definitions.map(({ prefix }) => prefix),
        after: positionOf(from),
        follow: options.follow ?? true,
        forks: false,
        // Its cursor keeps history: what is gone was gone before it came.
        mayBeTrimmed: true,
        pageRuns: 64,
        signal,
      })
      return new EntriesReader<Item>(stream, definitions)
    },
  }
}

class EntriesReader<Item extends Entry> implements SourceReader<Item> {
  readonly #stream: FeedStream
  readonly #definitions: readonly EntriesOf<Item>[]
  #runs: FeedRun[] = []

  constructor(stream: FeedStream, definitions: readonly EntriesOf<Item>[]) {
    this.#stream = stream
    this.#definitions = definitions
  }

  partitions(): readonly string[] {
    return ['']
  }

  async read(max: number): Promise<SourceBatch<Item> | null> {
    if (this.#runs.length === 0) {
      const page = await this.#stream.next()
      if (!page) return null
      // A page without entries is a bookmark, and still moves the position.
      if (page.runs.length === 0) return { partition: '', values: [], position: page.next }
      this.#runs = [...page.runs]
    }
    const values: Item[] = []
    let position: FeedPosition = feedStart
    // A run became durable in one moment: it is handed on whole.
    while (this.#runs.length > 0 && values.length < max) {
      const run = this.#runs.shift()!
      position = run.position
      for (const entry of run.entries) {
        const item = this.#itemOf(entry)
        if (item) values.push(item)
      }
    }
    return { partition: '', values, position }
  }

  cursor(positions: Positions): string {
    return positionOf(positions)
  }

  async close(): Promise<void> {
    this.#stream.close()
  }

  #itemOf(entry: Entry): Item | null {
    if (entry.type.startsWith(systemPrefix)) return null
    const definition = this.#definitions.find(({ prefix }) => isWithin(prefix, entry.timeline))
    return definition && reads in definition ? definition[reads](entry) : (entry as Item)
  }
}

function positionOf(positions: Positions | null): FeedPosition {
  const position = positions?.get('')
  if (position === undefined) return feedStart
  if (typeof position === 'string') return position
  throw new RepriseError(
    'INVALID_ARGUMENT',
    'the position of this source must be a place in the feed: another source had its name before',
  )
}
