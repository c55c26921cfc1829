// When each entry was last used, for retention: noted coarsely and later, so that a hit costs no write.

import type { TimelineId } from '../../core/coordinate.ts'
import type { Host } from '../host.ts'

/** A note that is younger than this is left as it is. */
const coarseMs = 3_600_000
const waitingMax = 256

export const usedAttribute = 'used'
export const pinnedAttribute = 'pinned'

export class Uses {
  readonly #host: Host
  #waiting = new Set<TimelineId>()
  /** What this process has noted, or found noted. */
  readonly #noted = new Map<TimelineId, number>()
  #writing: Promise<void> = Promise.resolve()

  constructor(host: Host) {
    this.#host = host
  }

  note(id: TimelineId): void {
    const now = this.#host.kernel.clock.now()
    if (now - (this.#noted.get(id) ?? Number.NEGATIVE_INFINITY) < coarseMs) return
    if (this.#noted.size > 100_000) this.#noted.clear()
    this.#noted.set(id, now)
    this.#waiting.add(id)
    if (this.#waiting.size >= waitingMax) void this.flush()
  }

  /** Never fails: what is not noted is only forgotten earlier. */
  flush(): Promise<void> {
    const ids = [...this.#waiting]
    this.#waiting = new Set()
    this.#writing = this.#writing.then(() => this.#write(ids)).catch(() => undefined)
    return this.#writing
  }

  async #write(ids: readonly TimelineId[]): Promise<void> {
    if (ids.length === 0) return
    const { kernel } = this.#host
    const now = kernel.clock.now()
    const heads = await kernel.store.head(ids)
    const stale = heads.flatMap((head) =>
      head && now - Number(head.attributes[usedAttribute] ?? 0) >= coarseMs ? [head] : [],
    )
    await Promise.allSettled(stale.map((head) => this.#host.change(head, { attributes: { [usedAttribute]: now } })))
  }
}
