// One space of a state table: keys in slots, with columns beside the map. A freed slot is reused.

import type { PipelineKey } from '../../../core/key-groups.ts'

/** The stamp of a free slot: above the number of every capture. */
export const freeStamp = 0x7fffffff
/** The stamp of a slot that its capture has written and that has not changed since. */
export const writtenStamp = 0

/** The changes in a space between two barriers. */
export interface SpaceChanges {
  readonly changed: readonly number[]
  readonly deleted: ReadonlySet<PipelineKey>
  /** The number of distinct slots in `changed` that hold a value at the barrier. */
  readonly live: number
}

const noSlots: readonly number[] = []
const noKeys: ReadonlySet<PipelineKey> = new Set()

export class Space<V> {
  readonly id: number
  readonly slots = new Map<PipelineKey, number>()
  readonly keys: PipelineKey[] = []
  readonly values: (V | undefined)[] = []
  /** For each slot, the number of the capture that will contain its newest value. */
  readonly stamps: number[] = []
  /** Slots that the next capture writes. A slot may be listed twice: its stamp shows whether it is still to be written. */
  changed: number[] = []
  /** Keys that existed at some time since the last capture and were deleted. They may exist again. */
  deleted = new Set<PipelineKey>()
  /** The number of distinct slots in `changed` that hold a value. */
  live = 0
  isTouched = false
  isDropped = false
  /** The full capture in progress has written all slots below this one. */
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

  /** Takes a slot for a key that has none. */
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

  /** Takes slots for keys that have none, as stored. Returns the number of keys added. */
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

  /** Call it at the barrier. The returned lists never change: later changes belong to the next capture. */
  takeChanges(): SpaceChanges {
    const { changed, deleted, live } = this
    this.isTouched = false
    this.live = 0
    // An empty list stays in use here, so it must not be shared with the capture.
    if (changed.length > 0) this.changed = []
    if (deleted.size > 0) this.deleted = new Set()
    return {
      changed: changed.length > 0 ? changed : noSlots,
      deleted: deleted.size > 0 ? deleted : noKeys,
      live,
    }
  }
}
