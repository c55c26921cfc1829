// The digest of the last run read of each timeline, for a bounded number of timelines: packed in one buffer, since an object
// each would take several times the memory. The least recently read one is removed first.

import { assert } from '../../core/assert.ts'
import type { Digest, TimelineId } from '../../core/coordinate.ts'
import type { Point } from '../history/history.ts'

const digestBytes = 32

export class LastDigests {
  readonly #max: number
  /** In the order in which they were read. */
  readonly #slots = new Map<TimelineId, number>()
  #seqs = new Float64Array(64)
  #digests = new Uint8Array(64 * digestBytes)

  constructor(max: number) {
    this.#max = max
  }

  get(timeline: TimelineId): Point | undefined {
    const slot = this.#slots.get(timeline)
    if (slot === undefined) return undefined
    const digest = this.#digests.slice(slot * digestBytes, (slot + 1) * digestBytes) as Digest
    return { seq: this.#seqs[slot]!, digest }
  }

  /** Returns the timeline that was removed, if any. */
  set(timeline: TimelineId, { seq, digest }: Point): TimelineId | undefined {
    assert(digest.length === digestBytes, 'a digest has 32 bytes')
    const known = this.#slots.get(timeline)
    const oldest = known === undefined && this.#slots.size === this.#max ? this.#oldest() : undefined
    const slot = known ?? oldest?.slot ?? this.#slots.size
    if (slot * digestBytes === this.#digests.length) this.#grow()
    if (known !== undefined) this.#slots.delete(timeline)
    this.#slots.set(timeline, slot)
    this.#seqs[slot] = seq
    this.#digests.set(digest, slot * digestBytes)
    return oldest?.timeline
  }

  clear(): void {
    this.#slots.clear()
  }

  #oldest(): { readonly timeline: TimelineId; readonly slot: number } | undefined {
    for (const [timeline, slot] of this.#slots) {
      this.#slots.delete(timeline)
      return { timeline, slot }
    }
    return undefined
  }

  #grow(): void {
    const seqs = new Float64Array(this.#seqs.length * 2)
    seqs.set(this.#seqs)
    this.#seqs = seqs
    const digests = new Uint8Array(this.#digests.length * 2)
    digests.set(this.#digests)
    this.#digests = digests
  }
}
