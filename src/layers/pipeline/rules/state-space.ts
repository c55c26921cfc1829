// One space of a table of state: keys in slots, with columns beside the map. A slot that was given back is used again.

import type { PipelineKey } from '../../../core/key-groups.ts'

/** Of a slot that holds nothing: above the number of every capture. */
export const freeStamp = 0x7fffffff
/** Written by the capture that would contain it, and not changed since. */
export const writtenStamp = 0

/** What changed in a space between two barriers. */
export interface SpaceChanges {
  readonly changed: readonly number[]
  readonly deleted: ReadonlySet<PipelineKey>
  /** Slots of `changed` that hold something at the barrier, each counted once. */
  readonly live: number
}

const noSlots: readonly number[] = []
const noKeys: ReadonlySet<PipelineKey> = new Set()

export class Space<V> {
  readonly id: number
  readonly slots = new Map<PipelineKey, number>()
  readonly keys: PipelineKey[] = []
  readonly values: (V | undefined)[] = []
  /** By slot: the capture that will contain its newest value. */
  readonly stamps: number[] = []
  /** Slots that the next capture writes. One may be named twice: its stamp says whether it still has to be. */
  changed: number[] = []
  /** Keys that were there at some time since the last capture and were deleted. They may be there again. */
  deleted = new Set<PipelineKey>()
  /** Slots in `changed` that hold something, each counted once. */
  live = 0
  isTouched = false
  isDropped = false
  /** Slots below it were written by the full capture under way. */
  writtenTo = Number.POSITIVE_INFINITY
  readonly #free: number[] = []

  constructor(id: number) {
    this.id = id
  }

  get size(): number {
    return this.slots.size
  }

  *entries(): Generator<[PipelineKey, V]> {
    for (const [key, slot] of this.slots) yield [key, this.values[slot] as V]
  }

  /** A slot for a key that has none. */
  take(key: PipelineKey, value: V, stamp: number): number {
    const free = this.#free.pop()
    const slot = free ?? this.keys.length
    this.slots.set(key, slot)
    if (free === undefined) {
      this.keys.push(key)
      this.values.push(value)
      this.stamps.push(stamp)
    } else {
      this.keys[slot] = key
      this.values[slot] = value
      this.stamps[slot] = stamp
    }
    return slot
  }

  /** Slots for keys that have none, as they were stored. How many keys there are more. */
  fill(keys: readonly PipelineKey[], values: readonly V[]): number {
    const before = this.slots.size
    for (let i = 0; i < keys.length; i++) {
      this.slots.set(keys[i]!, this.keys.length)
      this.keys.push(keys[i]!)
      this.values.push(values[i])
      this.stamps.push(writtenStamp)
    }
    return this.slots.size - before
  }

  release(key: PipelineKey, slot: number): void {
    this.slots.delete(key)
    this.values[slot] = undefined
    this.stamps[slot] = freeStamp
    this.#free.push(slot)
  }

  /** At the barrier. What is given is never added to: what changes from now on belongs to the next capture. */
  takeChanges(): SpaceChanges {
    const { changed, deleted, live } = this
    this.isTouched = false
    this.live = 0
    // An empty list stays here, so it must not be given away as well.
    if (changed.length > 0) this.changed = []
    if (deleted.size > 0) this.deleted = new Set()
    return {
      changed: changed.length > 0 ? changed : noSlots,
      deleted: deleted.size > 0 ? deleted : noKeys,
      live,
    }
  }
}
