// The keyed state of one operator in one task: a hash map from keys to slots, with columns beside it, so that a key needs no
// object of its own. Keys are grouped in spaces (one per window, by its start; plain state uses one space): a window is
// dropped whole.
//
// A capture costs one swap of lists at the barrier. The changed slots are then written in blocks, one slice at a time, while
// records continue: the barrier's value of an unwritten slot is kept aside before the slot changes. A slot carries the number
// of the capture that will contain its newest value, so a second change costs one comparison. Values must be replaced, not
// changed in place, unless `own` returned them.

import { assert } from '../../../core/assert.ts'
import type { PipelineKey } from '../../../core/key-groups.ts'
import { type StateBlock, type StateCapture, TableCapture, type TakenSpace } from './state-capture.ts'
import { freeStamp, Space } from './state-space.ts'

export class StateTable<V> {
  readonly #spaces = new Map<number, Space<V>>()
  #epoch = 1
  /** Spaces with changes for the next capture. */
  #touched: Space<V>[] = []
  #dropped: number[] = []
  #changed = 0
  #capture: TableCapture<V> | null = null
  #size = 0
  /** The number of keys in the newest published capture, or loaded: the base of an incremental capture. */
  #storedSize = 0

  /** The number of keys over all spaces. */
  get size(): number {
    return this.#size
  }

  /** The size of the next capture if it is incremental. */
  get changed(): number {
    return this.#changed
  }

  spaces(): IterableIterator<Space<V>> {
    return this.#spaces.values()
  }

  /** The space of a window, created if missing. Keep the reference for one batch at most. */
  space(id: number): Space<V> {
    let space = this.#spaces.get(id)
    if (!space) {
      space = new Space<V>(id)
      this.#spaces.set(id, space)
    }
    return space
  }

  peekSpace(id: number): Space<V> | undefined {
    return this.#spaces.get(id)
  }

  get(space: Space<V>, key: PipelineKey): V | undefined {
    const slot = space.slots.get(key)
    return slot === undefined ? undefined : (space.values[slot] as V)
  }

  set(space: Space<V>, key: PipelineKey, value: V): void {
    const slot = space.slots.get(key)
    if (slot === undefined) this.add(space, key, value)
    else this.update(space, slot, value)
  }

  /** For loops that have already found the key missing. */
  add(space: Space<V>, key: PipelineKey, value: V): void {
    const slot = space.take(key, value, this.#epoch)
    this.#size += 1
    this.#note(space, slot)
  }

  /** For loops that hold the slot. */
  update(space: Space<V>, slot: number, value: V): void {
    if (space.stamps[slot] !== this.#epoch) this.#touch(space, slot)
    space.values[slot] = value
  }

  /** The value of a slot for changes in place until the next barrier: copied if a checkpoint needs the old value. */
  own(space: Space<V>, slot: number, copy: (value: V) => V): V {
    if (space.stamps[slot] !== this.#epoch) {
      this.#touch(space, slot)
      space.values[slot] = copy(space.values[slot] as V)
    }
    return space.values[slot] as V
  }

  delete(space: Space<V>, key: PipelineKey): boolean {
    const slot = space.slots.get(key)
    if (slot === undefined) return false
    this.#capture?.keep(space, slot)
    if (space.stamps[slot] === this.#epoch) space.live -= 1
    space.release(key, slot)
    this.#noteDeleted(space, key)
    this.#size -= 1
    return true
  }

  /** Ends a window: removes all of its keys at the cost of one note. */
  drop(space: Space<V>): void {
    assert(this.#spaces.get(space.id) === space, 'a space is dropped once')
    this.#spaces.delete(space.id)
    space.isDropped = true
    this.#dropped.push(space.id)
    this.#changed -= space.isTouched ? space.changed.length + space.deleted.size : 0
    this.#size -= space.size
  }

  /** Call it at the barrier. A full capture contains every key; an incremental one contains changes since the last capture. */
  capture(isFull: boolean): StateCapture {
    assert(this.#capture === null, 'one capture at a time')
    const taken: TakenSpace<V>[] = []
    for (const space of this.#touched) {
      const changes = space.takeChanges()
      if (!space.isDropped) taken.push({ space, ...changes })
    }
    const capture: TableCapture<V> = new TableCapture<V>(this.#epoch, {
      isFull,
      size: this.#size,
      builtOn: this.#storedSize,
      taken,
      dropped: this.#dropped,
      spaces: isFull ? [...this.#spaces.values()] : [],
      settle: (isPublished) => this.#settle(capture, isPublished),
    })
    this.#capture = capture
    this.#touched = []
    this.#dropped = []
    this.#changed = 0
    this.#epoch += 1
    return capture
  }

  /**
   * Applies a stored block. Blocks must be loaded in the order of their capture. `areDistinct`: no key of the table is in two
   * blocks, so lookups are skipped. If that is wrong, the table ends up with fewer keys than were loaded.
   */
  load(block: StateBlock, areDistinct = false): void {
    assert(this.#epoch === 1 && this.#capture === null, 'state is loaded before the first record')
    for (const id of block.dropped) {
      this.#size -= this.#spaces.get(id)?.size ?? 0
      this.#spaces.delete(id)
    }
    const space = this.space(block.space)
    const { keys, values, deleted } = block
    for (const key of deleted) {
      const slot = space.slots.get(key)
      if (slot === undefined) continue
      space.release(key, slot)
      this.#size -= 1
    }
    if (areDistinct) this.#size += space.fill(keys, values as readonly V[])
    else for (let i = 0; i < keys.length; i++) this.#put(space, keys[i]!, values[i] as V)
    if (space.size === 0) this.#spaces.delete(space.id)
    this.#storedSize = this.#size
  }

  /** Takes over a key from another table, before the first record, as `load` does. */
  adopt(spaceId: number, key: PipelineKey, value: V): void {
    assert(this.#epoch === 1 && this.#capture === null, 'state is loaded before the first record')
    this.#put(this.space(spaceId), key, value)
  }

  #put(space: Space<V>, key: PipelineKey, value: V): void {
    const slot = space.slots.get(key)
    if (slot !== undefined) space.values[slot] = value
    else {
      space.take(key, value, 0)
      this.#size += 1
    }
  }

  /** The first change of a slot since the barrier. */
  #touch(space: Space<V>, slot: number): void {
    // A slot that the capture in progress has not written keeps its value from the barrier.
    this.#capture?.keep(space, slot)
    space.stamps[slot] = this.#epoch
    this.#note(space, slot)
  }

  #note(space: Space<V>, slot: number): void {
    if (!space.isTouched) this.#markTouched(space)
    space.changed.push(slot)
    space.live += 1
    this.#changed += 1
  }

  #noteDeleted(space: Space<V>, key: PipelineKey): void {
    this.#markTouched(space)
    this.#changed += space.deleted.has(key) ? 0 : 1
    space.deleted.add(key)
  }

  #markTouched(space: Space<V>): void {
    if (space.isTouched) return
    space.isTouched = true
    this.#touched.push(space)
  }

  /** The changes of an abandoned capture belong to the next one, where later changes are already noted. */
  #settle({ size, taken, dropped }: TableCapture<V>, isPublished: boolean): void {
    this.#capture = null
    if (isPublished) {
      this.#storedSize = size
      return
    }
    for (const { space, changed, deleted } of taken) {
      if (space.isDropped) continue
      for (const key of deleted) this.#noteDeleted(space, key)
      for (const slot of changed) {
        const stamp = space.stamps[slot]!
        if (stamp === freeStamp || stamp >= this.#epoch) continue
        space.stamps[slot] = this.#epoch
        this.#note(space, slot)
      }
    }
    this.#dropped = [...dropped, ...this.#dropped]
  }
}
