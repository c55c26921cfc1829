// The store's own feed as a source: events of aggregates, or entries of any timelines, in one order without gaps. A cursor
// protects history from being trimmed before the pipeline has read it; the cursor moves with the pipeline's checkpoints.

import { RepriseError } from '../../../core/errors.ts'
import { isWithin } from '../../../core/history/scope.ts'
import { checkOptions, namesOf } from '../../../core/options.ts'
import { type FeedPosition, feedStart } from '../../../core/store/ports.ts'
import { FeedStream } from '../../../engine/feed/feed-stream.ts'
import type { FeedRun } from '../../../engine/feed/reader.ts'
import type { Entry } from '../../../engine/history/history.ts'
import { hostOf } from '../../../engine/host/host.ts'
import { type Readable, reads, systemPrefix } from '../../../engine/model/definition.ts'
import { type Positions, passedOver, type Source, type SourceBatch, type SourceReader } from '../source.ts'

export interface EntriesOptions {
  /** Whether to wait for more entries at the end. Default: true. */
  readonly follow?: boolean
}

/** A definition whose timelines can be read: stored entries, or the definition's own form of them (aggregates). */
export type EntriesOf<Item extends Entry> = Readable<Item> | { readonly prefix: string }

/**
 * The entries of every timeline of these definitions.
 * @example p.from('orders', entrySource([order]), { time: (e) => e.time })
 */
export function entrySource<Item extends Entry = Entry>(
  definitions: readonly EntriesOf<Item>[],
  options: EntriesOptions = {},
): Source<Item> {
  checkOptions('entrySource', options, namesOf<EntriesOptions>()('follow'))
  if (!Array.isArray(definitions) || definitions.length === 0 || definitions.some((each) => !each?.prefix)) {
    throw new RepriseError('INVALID_ARGUMENT', 'entrySource() needs a list of definitions, such as [orders]')
  }
  const readers = definitions.filter((each): each is Readable<Item> => reads in each)
  return {
    kind: 'entries',
    // Decode each entry separately: an entry that its definition cannot read becomes a dead letter with the stored entry.
    ...(readers.length > 0 && {
      decode: (entry: Entry) => {
        const reader = readers.find(({ prefix }) => isWithin(prefix, entry.timeline))
        return reader ? (reader[reads](entry) ?? (passedOver as never)) : (entry as Item)
      },
    }),
    reads: { scopes: definitions.map(({ prefix }) => prefix), forks: false },
    async open(from, { engine, signal }) {
      const stream = new FeedStream(hostOf(engine).kernel, {
        scopes: definitions.map(({ prefix }) => prefix),
        after: positionOf(from),
        follow: options.follow ?? true,
        forks: false,
        // The cursor keeps history, so missing entries were trimmed before the pipeline began.
        mayBeTrimmed: true,
        pageRuns: 64,
        signal,
      })
      return new EntriesReader(stream) as SourceReader<Entry> as SourceReader<Item>
    },
  }
}

/** Reads stored entries. */
class EntriesReader implements SourceReader<Entry> {
  readonly #stream: FeedStream
  #runs: FeedRun[] = []

  constructor(stream: FeedStream) {
    this.#stream = stream
  }

  partitions(): readonly string[] {
    return ['']
  }

  async read(max: number): Promise<SourceBatch<Entry> | null> {
    if (this.#runs.length === 0) {
      const page = await this.#stream.next()
      if (!page) return null
      // A page without entries is a bookmark, and still moves the position.
      if (page.runs.length === 0) return { partition: '', values: [], position: page.next }
      this.#runs = [...page.runs]
    }
    const values: Entry[] = []
    const names: string[] = []
    let position: FeedPosition = feedStart
    // An entry run became durable in one moment: it is returned whole.
    while (this.#runs.length > 0 && values.length < max) {
      const run = this.#runs.shift()!
      position = run.position
      for (const entry of run.entries) {
        if (entry.type.startsWith(systemPrefix)) continue
        values.push(entry)
        names.push(nameOf(entry))
      }
    }
    return { partition: '', values, position, names }
  }

  cursor(positions: Positions): string {
    return positionOf(positions)
  }

  async close(): Promise<void> {
    this.#stream.close()
  }
}

/** Epoch and time distinguish an entry from one that takes its sequence after a rollback, a delete or a restore. */
function nameOf({ timeline, seq, epoch, time }: Entry): string {
  return `${timeline}@${seq} ${epoch} ${time}`
}

function positionOf(positions: Positions | null): FeedPosition {
  const position = positions?.get('')
  if (position === undefined) return feedStart
  if (typeof position === 'string') return position
  throw new RepriseError(
    'INVALID_ARGUMENT',
    'the position of this source must be a position in the feed: another source used its name before',
  )
}
