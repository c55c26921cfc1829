// A capture of a state table at a barrier, written out in blocks while records continue. It walks the changed slots, or all
// slots; before a slot that is not written yet changes, its old value is kept here.

import { assert } from '../../../core/assert.ts'
import type { PipelineKey } from '../../../core/key-groups.ts'
import { type Space, type SpaceChanges, writtenStamp } from './state-space.ts'

/** Blocks apply in order: later ones override earlier ones. Plain data, for the codec. */
export interface StateBlock {
  /** Spaces that ended; they are dropped before the rest of this block applies. */
  readonly dropped: readonly number[]
  readonly space: number
  readonly keys: readonly PipelineKey[]
  readonly values: readonly unknown[]
  /** Keys to delete before the keys of this block are set. */
  readonly deleted: readonly PipelineKey[]
}

export interface StateCapture {
  readonly isFull: boolean
  /** Keys that existed at the barrier. */
  readonly size: number
  /** The number of keys in the capture published before. An incremental capture builds only on that capture. */
  readonly builtOn: number
  /** The total cells of all blocks, counted at the barrier. */
  readonly promised: CellCount
  /** The next block of about this many cells; undefined at the end. */
  next(cellsMax: number): StateBlock | undefined
  /** The capture was published: the next capture builds on it. */
  publish(): void
  /** The capture was not published: its changes belong to the next capture. */
  abandon(): void
}

export interface CellCount {
  readonly keys: number
  readonly deleted: number
}

/** The part of a space that a capture took. */
export interface TakenSpace<V> extends SpaceChanges {
  readonly space: Space<V>
}

interface CaptureOf<V> {
  readonly isFull: boolean
  readonly size: number
  readonly builtOn: number
  readonly taken: readonly TakenSpace<V>[]
  readonly dropped: readonly number[]
  /** All spaces at the barrier, for a full capture. */
  readonly spaces: readonly Space<V>[]
  readonly settle: (isPublished: boolean) => void
}

interface Filling {
  readonly keys: PipelineKey[]
  readonly values: unknown[]
  readonly deleted: PipelineKey[]
}

export class TableCapture<V> implements StateCapture {
  readonly isFull: boolean
  readonly size: number
  readonly builtOn: number
  readonly promised: CellCount
  readonly taken: readonly TakenSpace<V>[]
  readonly dropped: readonly number[]
  readonly #epoch: number
  readonly #spaces: readonly Space<V>[]
  readonly #settle: (isPublished: boolean) => void
  /** The index of the current space, and the position in it. */
  #at = 0
  #cursor = 0
  #deleting: Iterator<PipelineKey> | null = null
  /** The values at the barrier of slots that changed before they were written. */
  readonly #kept: { readonly space: Space<V>; readonly key: PipelineKey; readonly value: V }[] = []
  #keptAt = 0
  #phase: 'first' | 'writing' | 'written' | 'settled' = 'first'

  constructor(epoch: number, of: CaptureOf<V>) {
    this.isFull = of.isFull
    this.size = of.size
    this.builtOn = of.builtOn
    this.promised = of.isFull ? { keys: of.size, deleted: 0 } : countOf(of.taken)
    this.taken = of.taken
    this.dropped = of.dropped
    this.#epoch = epoch
    this.#spaces = of.spaces
    this.#settle = of.settle
    for (const space of of.spaces) space.writtenTo = 0
  }

  /** Runs before a slot changes: keeps its value if it belongs to this capture and is not written yet. */
  keep(space: Space<V>, slot: number): void {
    const stamp = space.stamps[slot]!
    const isWanted = this.isFull ? stamp <= this.#epoch && slot >= space.writtenTo : stamp === this.#epoch
    if (isWanted) this.#kept.push({ space, key: space.keys[slot]!, value: space.values[slot] as V })
  }

  next(cellsMax: number): StateBlock | undefined {
    assert(this.#phase === 'first' || this.#phase === 'writing', 'a capture is read to its end once')
    // A full capture builds on nothing: spaces that ended before it are simply absent.
    const dropped = this.#phase === 'first' && !this.isFull ? this.dropped : []
    this.#phase = 'writing'
    const into: Filling = { keys: [], values: [], deleted: [] }
    const space = this.isFull ? this.#nextOfAll(into, cellsMax) : this.#nextOfChanged(into, cellsMax)
    const from = space ?? this.#nextOfKept(into, cellsMax)
    if (from === null && dropped.length === 0) {
      this.#phase = 'written'
      return undefined
    }
    return { dropped, space: from?.id ?? 0, ...into }
  }

  publish(): void {
    assert(this.#phase === 'written', 'only a complete capture is published')
    this.#end(true)
  }

  abandon(): void {
    if (this.#phase !== 'settled') this.#end(false)
  }

  #end(isPublished: boolean): void {
    this.#phase = 'settled'
    for (const space of this.#spaces) space.writtenTo = Number.POSITIVE_INFINITY
    this.#settle(isPublished)
  }

  /** The space of the block; null: all spaces are written. */
  #nextOfAll({ keys, values }: Filling, cellsMax: number): Space<V> | null {
    for (; this.#at < this.#spaces.length; this.#at++) {
      const space = this.#spaces[this.#at]!
      let slot = space.writtenTo
      for (; slot < space.keys.length && keys.length < cellsMax; slot++) {
        // The slot is free, or was made or changed after the barrier.
        if (space.stamps[slot]! > this.#epoch) continue
        keys.push(space.keys[slot]!)
        values.push(space.values[slot])
      }
      const isDone = slot >= space.keys.length
      space.writtenTo = isDone ? Number.POSITIVE_INFINITY : slot
      if (keys.length === 0) continue
      if (isDone) this.#at += 1
      return space
    }
    return null
  }

  #nextOfChanged({ keys, values, deleted }: Filling, cellsMax: number): Space<V> | null {
    for (; this.#at < this.taken.length; this.#at++) {
      const { space, changed, deleted: gone } = this.taken[this.#at]!
      this.#deleting ??= gone.values()
      while (deleted.length < cellsMax) {
        const step = this.#deleting.next()
        if (step.done) break
        deleted.push(step.value)
      }
      const { stamps } = space
      let at = this.#cursor
      for (; at < changed.length && keys.length + deleted.length < cellsMax; at++) {
        const slot = changed[at]!
        // The slot was changed after the barrier, is free, or is already written.
        if (stamps[slot] !== this.#epoch) continue
        stamps[slot] = writtenStamp
        keys.push(space.keys[slot]!)
        values.push(space.values[slot])
      }
      this.#cursor = at
      const isDone = at >= changed.length && deleted.length < cellsMax
      if (!isDone) return space
      this.#deleting = null
      this.#cursor = 0
      if (keys.length + deleted.length === 0) continue
      this.#at += 1
      return space
    }
    return null
  }

  #nextOfKept({ keys, values }: Filling, cellsMax: number): Space<V> | null {
    const first = this.#kept[this.#keptAt]
    if (!first) return null
    for (; this.#keptAt < this.#kept.length && keys.length < cellsMax; this.#keptAt++) {
      const { space, key, value } = this.#kept[this.#keptAt]!
      if (space !== first.space) break
      keys.push(key)
      values.push(value)
    }
    return first.space
  }
}

function countOf(taken: readonly SpaceChanges[]): CellCount {
  let keys = 0
  let gone = 0
  for (const { live, deleted } of taken) {
    keys += live
    gone += deleted.size
  }
  return { keys, deleted: gone }
}
