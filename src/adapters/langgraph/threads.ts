// The threads of one saver: the timeline of each, and the few that this process keeps open at a time.

import { type TimelineId, timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Head } from '../../core/store/ports.ts'
import type { Host } from '../../engine/host/host.ts'
import { OpenHandles } from './open-handles.ts'
import type { Portable } from './portable.ts'
import { Thread } from './thread.ts'

const escapedLengthMax = 400

export class Threads {
  readonly #engine: Host
  readonly #prefix: string
  readonly #portable: Portable
  readonly #open: OpenHandles<Thread>

  constructor(engine: Host, prefix: string, portable: Portable, openMax: number) {
    this.#engine = engine
    this.#prefix = prefix
    this.#portable = portable
    this.#open = new OpenHandles(openMax)
  }

  /** Keeps the thread open at least until the work is done. */
  async use<T>(threadId: string, work: (thread: Thread) => Promise<T>): Promise<T> {
    const open = () => new Thread(this.#engine, this.#timelineOf(threadId), this.#portable)
    return await this.#open.use(threadId, open, work)
  }

  async head(threadId: string): Promise<Head | null> {
    return await this.#engine.head(this.#timelineOf(threadId))
  }

  /** All thread ids in the store, or those that were last written before a time. */
  async *all(writtenBefore = Number.POSITIVE_INFINITY): AsyncGenerator<string> {
    for await (const head of this.#engine.each({ prefix: this.#prefix })) {
      // Thread ids contain no "~": an id with one is the archive of a rollback.
      const name = head.timeline.slice(this.#prefix.length)
      if (!name.includes('~') && head.updatedAt < writtenBefore) yield decodeURIComponent(name)
    }
  }

  async close(): Promise<void> {
    await this.#open.close()
  }

  #timelineOf(threadId: string): TimelineId {
    const name = encode(threadId)
    if (name === null || name.length > escapedLengthMax) {
      throw new RepriseError(
        'INVALID_ARGUMENT',
        `a thread_id must be well-formed text of up to ${escapedLengthMax} characters`,
        {
          length: threadId.length,
        },
      )
    }
    return timelineId(this.#prefix + name)
  }
}

/** Null for text with a lone surrogate. */
function encode(threadId: string): string | null {
  try {
    return encodeURIComponent(threadId).replaceAll('~', '%7E').replaceAll('.', '%2E')
  } catch {
    return null
  }
}
