// When each entry was last used. Recorded to the hour for retention, and with a delay, so that a hit costs no write.
// The latest uses are recorded exactly and in order when the cache is closed or explains a miss, which is compared with
// the last of them.

import type { TimelineId } from '../../../core/coordinate.ts'
import { Mutex } from '../../../lib/waiting.ts'
import type { Host } from '../../host/host.ts'

/** A record younger than this is not updated. */
const coarseMs = 3_600_000
const waitingMax = 256
/** How many of the latest uses are recorded exactly. */
const exactMax = 64

export const usedAttribute = 'used'
export const pinnedAttribute = 'pinned'

export class Uses {
  readonly #host: Host
  #waiting = new Set<TimelineId>()
  /** The times that this process has written or read. */
  readonly #noted = new Map<TimelineId, number>()
  /** The latest uses, in order, that are not recorded yet. */
  #exact = new Map<TimelineId, number>()
  readonly #writing = new Mutex()

  constructor(host: Host) {
    this.#host = host
  }

  note(id: TimelineId): void {
    const now = this.#host.clock.now()
    this.#exact.delete(id)
    this.#exact.set(id, now)
    if (this.#exact.size > exactMax) this.#exact.delete(this.#exact.keys().next().value!)
    if (now - (this.#noted.get(id) ?? Number.NEGATIVE_INFINITY) < coarseMs) return
    if (this.#noted.size > 100_000) this.#noted.clear()
    this.#noted.set(id, now)
    this.#waiting.add(id)
    if (this.#waiting.size >= waitingMax) void this.#flush(new Map())
  }

  /** Never fails: an entry with an unrecorded use is only removed earlier. */
  flush(): Promise<void> {
    const exact = this.#exact
    this.#exact = new Map()
    return this.#flush(exact)
  }

  #flush(exact: ReadonlyMap<TimelineId, number>): Promise<void> {
    const ids = [...new Set([...this.#waiting, ...exact.keys()])]
    this.#waiting = new Set()
    return this.#writing.run(() => this.#write(ids, inOrder(exact))).catch(() => undefined)
  }

  async #write(ids: readonly TimelineId[], exact: ReadonlyMap<TimelineId, number>): Promise<void> {
    if (ids.length === 0) return
    const { kernel } = this.#host
    const now = kernel.clock.now()
    const heads = await kernel.store.head(ids)
    const stale = heads.flatMap((head) => {
      if (!head) return []
      const before = Number(head.attributes[usedAttribute] ?? 0)
      const used = exact.get(head.timeline) ?? now
      const isDue = exact.has(head.timeline) ? used > before : now - before >= coarseMs
      return isDue ? [{ head, used }] : []
    })
    await Promise.allSettled(
      stale.map(({ head, used }) => this.#host.change(head, { attributes: { [usedAttribute]: used } })),
    )
  }
}

/** Two uses within one millisecond keep their order. */
function inOrder(exact: ReadonlyMap<TimelineId, number>): Map<TimelineId, number> {
  let last = 0
  const ordered = [...exact].map(([id, at]) => {
    last = Math.max(at, last + 1)
    return [id, last] as const
  })
  return new Map(ordered)
}
