// The feed for many clients at once: clients at the same position with the same timelines share one reader, and receive the
// same bytes, encoded once. A client that is behind reads its own pages until it has caught up.

import { RepriseError } from '../core/errors.ts'
import type { FeedPosition } from '../core/store/ports.ts'
import { FeedStream } from '../engine/feed/feed-stream.ts'
import type { OutsidePositions, SeenRun } from '../engine/feed/outside-position.ts'
import type { FeedEntries, FeedRun } from '../engine/feed/reader.ts'
import type { Kernel } from '../engine/storage/kernel.ts'
import { Alarm, realTime } from '../lib/waiting.ts'
import { shownEntry } from '../operations/history.ts'
import { plain } from '../operations/json.ts'
import type { ByteSource } from './reply.ts'

/** Pages that are kept for clients slightly slower than the others. */
const pagesKept = 4

export interface FollowOptions {
  /** Undefined: every timeline. Empty: no entries, only the end. */
  readonly scopes: readonly string[] | undefined
  readonly positions: OutsidePositions
  readonly after: FeedPosition
  /** Only the last entry of each timeline in a page, without its data. */
  readonly isBrief: boolean
  /** A client that receives nothing for longer can treat the connection as dead. */
  readonly heartbeatMs: number
  readonly signal: AbortSignal
}

/** The page after a position. */
interface Place {
  readonly key: string
  readonly stream: FeedStream
  readonly page: Promise<Page | null>
  waiting: number
  isRead: boolean
}

export class SharedFeed {
  readonly #kernel: Kernel
  /** By scopes and position, in the order in which they were read. */
  readonly #places = new Map<string, Place>()

  constructor(kernel: Kernel) {
    this.#kernel = kernel
  }

  follow(options: FollowOptions): ByteSource {
    return new Follower(this, options)
  }

  join({ scopes, positions }: FollowOptions, after: FeedPosition): Place {
    const key = `${positions.bound} ${JSON.stringify(scopes ?? null)} ${after}`
    const place = this.#places.get(key) ?? this.#read(key, scopes, after, positions)
    place.waiting += 1
    return place
  }

  /** Stops reading when the last waiting client has disconnected. */
  leave(place: Place): void {
    place.waiting -= 1
    if (place.waiting > 0 || place.isRead) return
    if (this.#places.get(place.key) === place) this.#places.delete(place.key)
    place.stream.close()
  }

  #read(key: string, scopes: readonly string[] | undefined, after: FeedPosition, positions: OutsidePositions): Place {
    const stream = new FeedStream(this.#kernel, { scopes, after, mayBeTrimmed: true, pageRuns: 500, pollMs: 250 })
    const read = async () => {
      try {
        const page = await stream.next()
        if (page) await positions.confirm(this.#kernel.identity)
        return page && new Page(page, positions)
      } catch (error) {
        // Not kept: the next client reads again.
        this.#places.delete(key)
        throw error
      } finally {
        stream.close()
        place.isRead = true
        this.#trim(key)
      }
    }
    const place: Place = { key, stream, page: Promise.resolve().then(read), waiting: 0, isRead: false }
    place.page.catch(() => undefined)
    this.#places.set(key, place)
    return place
  }

  /** Moves this page to the newest position, and drops the oldest pages beyond `pagesKept`. */
  #trim(key: string): void {
    const place = this.#places.get(key)
    if (!place?.isRead) return
    this.#places.delete(key)
    this.#places.set(key, place)
    const read = [...this.#places.values()].filter(({ isRead }) => isRead)
    for (const { key: old } of read.slice(0, Math.max(0, read.length - pagesKept))) this.#places.delete(old)
  }
}

class Follower implements ByteSource {
  readonly #feed: SharedFeed
  readonly #options: FollowOptions
  readonly #onAbort = () => this.close()
  #position: FeedPosition
  #place: Place | null = null
  #page: Page | null = null
  #error: unknown
  #hasBegun = false
  #isOver = false
  readonly #alarm = new Alarm(realTime, { isAwaited: true })

  constructor(feed: SharedFeed, options: FollowOptions) {
    this.#feed = feed
    this.#options = options
    this.#position = options.after
    if (options.signal.aborted) this.#isOver = true
    else options.signal.addEventListener('abort', this.#onAbort, { once: true })
  }

  async next(): Promise<Uint8Array | null> {
    if (!this.#hasBegun) {
      this.#hasBegun = true
      // The start position: a client that loses the connection before the first event can resume from it.
      const at = this.#position
      return Buffer.from(
        `retry: 1000\n${at === '' ? ': start\n\n' : eventOf('position', this.#options.positions.seal(at), {})}`,
      )
    }
    if (this.#isOver) return null
    this.#join()
    if (!this.#page && this.#error === undefined) await this.#news()
    if (this.#page) return this.#take(this.#page)
    if (this.#error === undefined) return this.#isOver ? null : Buffer.from(': still here\n\n')
    // Reported in the stream: the response has begun, and a client must not reconnect with a lost position.
    const code = this.#error instanceof RepriseError ? this.#error.code : 'BUG'
    this.close()
    return Buffer.from(`event: problem\ndata: ${JSON.stringify({ code })}\n\n`)
  }

  close(): void {
    this.#isOver = true
    this.#options.signal.removeEventListener('abort', this.#onAbort)
    if (this.#place) this.#feed.leave(this.#place)
    this.#place = null
    this.#alarm.ring()
  }

  #take(page: Page): Uint8Array {
    this.#page = null
    this.#position = page.next
    if (this.#place) this.#feed.leave(this.#place)
    this.#place = null
    return this.#options.isBrief ? page.brief() : page.whole()
  }

  #join(): void {
    if (this.#place || this.#options.scopes?.length === 0) return
    const place = this.#feed.join(this.#options, this.#position)
    this.#place = place
    const guarded = (notify: () => void) => {
      if (this.#place !== place) return
      notify()
      this.#alarm.ring()
    }
    place.page.then(
      (page) =>
        guarded(() => {
          this.#page = page
          if (!page) this.close()
        }),
      (error) =>
        guarded(() => {
          this.#error = error ?? 'unknown'
        }),
    )
  }

  /** Waits for a page, for the end, or for the next heartbeat. */
  async #news(): Promise<void> {
    await this.#alarm.sleep(this.#options.heartbeatMs)
  }
}

/** One page of the feed as events, encoded on first use. */
class Page {
  readonly next: FeedPosition
  readonly #entries: FeedEntries
  readonly #positions: OutsidePositions
  #whole: Uint8Array | null = null
  #brief: Uint8Array | null = null

  constructor(entries: FeedEntries, positions: OutsidePositions) {
    this.#entries = entries
    this.#positions = positions
    this.next = entries.next
  }

  whole(): Uint8Array {
    this.#whole ??= Buffer.from(wholeOf(this.#entries, this.#positions))
    return this.#whole
  }

  brief(): Uint8Array {
    this.#brief ??= Buffer.from(briefOf(this.#entries, this.#positions))
    return this.#brief
  }
}

function wholeOf(page: FeedEntries, positions: OutsidePositions): string {
  const runs = together(page).filter(({ entries }) => entries.length > 0)
  const guarded = runs.map(({ position, entries, seen }) => {
    return eventOf('entries', positions.seal(position, seen), entries.map(shownEntry))
  })
  const end = positions.seal(page.next, lastSeen(page))
  if (runs.at(-1)?.position !== page.next) guarded.push(eventOf('position', end, {}))
  return guarded.join('')
}

/** One event for the whole page. */
function briefOf(page: FeedEntries, positions: OutsidePositions): string {
  const last = new Map(page.runs.flatMap(({ entries }) => entries.map((entry) => [entry.timeline, entry])))
  const end = positions.seal(page.next, lastSeen(page))
  if (last.size === 0) return eventOf('position', end, {})
  const guarded = [...last.values()].map(({ timeline, seq, type, time }) => ({ timeline, seq, type, time }))
  return eventOf('entries', end, guarded)
}

/** The last entry run of a page that the reader received. */
export function lastSeen({ runs }: FeedEntries): SeenRun | undefined {
  return runs.findLast(({ seen }) => seen !== undefined)?.seen
}

/**
 * Entry runs of one commit may share a position: they form one event, because a client that stops between them would miss the
 * second.
 */
export function together({ runs }: FeedEntries): FeedRun[] {
  const merged: FeedRun[] = []
  for (const run of runs) {
    const last = merged.at(-1)
    if (last?.position === run.position) {
      const seen = run.seen ?? last.seen
      const entries = [...last.entries, ...run.entries]
      merged[merged.length - 1] = { position: run.position, entries, ...(seen && { seen }) }
    } else merged.push(run)
  }
  return merged
}

function eventOf(name: string, id: string, data: unknown): string {
  return `id: ${id}\nevent: ${name}\ndata: ${JSON.stringify(data, plain)}\n\n`
}
