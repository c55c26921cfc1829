// The keyed state of one operator in one task: a hash map for speed, with what a checkpoint needs beside it. Keys lie in
// spaces (a window, by its start; plain state uses one space), because a window goes as a whole.
//
// A capture costs one swap of a list when the barrier comes. The changed cells are then written out in blocks, a slice at a
// time, while records go on: a cell that is about to change and was not written yet keeps its value of the barrier aside.
// Values must be replaced, not changed in place.

import { assert } from '../assert.ts'
import type { PipelineKey } from './key-groups.ts'

const notFrozen: unique symbol = Symbol('not frozen')
const gone: unique symbol = Symbol('gone')

export interface Space<V> {
  readonly id: number
  readonly cells: Map<PipelineKey, Cell<V>>
  /** The capture that no longer contains it; Infinity while it exists. */
  droppedAt: number
}

export interface Cell<V> {
  readonly key: PipelineKey
  readonly space: Space<V>
  value: V | typeof gone
  /** The capture that will contain the newest value. */
  stamp: number
  /** The newest capture that has written this cell. */
  writtenIn: number
  /** Its value at the barrier of the capture under way, if it has changed since. */
  frozen: V | typeof gone | typeof notFrozen
}

/** Blocks in the order in which they apply: later ones win. Plain data, for the codec. */
export interface StateBlock {
  /** Spaces that ended, before anything else of this block applies. */
  readonly dropped: readonly number[]
  readonly space: number
  readonly keys: readonly PipelineKey[]
  readonly values: readonly unknown[]
  readonly deleted: readonly PipelineKey[]
}

export interface StateCapture {
  readonly isFull: boolean
  /** The next block of about this many cells; undefined when nothing is left. */
  next(cellsMax: number): StateBlock | undefined
  /** It was published: the next capture builds on it. */
  publish(): void
  /** It was not published: what it contained belongs to the next capture. */
  abandon(): void
}

/** What a capture took from the table. */
interface Taken<V> {
  readonly changed: readonly Cell<V>[]
  readonly dropped: readonly number[]
}

export class StateTable<V> {
  readonly #spaces = new Map<number, Space<V>>()
  #epoch = 1
  #changed: Cell<V>[] = []
  #dropped: number[] = []
  #capture: Capture<V> | null = null
  #size = 0

  /** Cells that exist. */
  get size(): number {
    return this.#size
  }

  /** Cells that the next capture would contain if it is not full. */
  get changed(): number {
    return this.#changed.length
  }

  spaces(): IterableIterator<Space<V>> {
    return this.#spaces.values()
  }

  /** The space of a window, made if it is not there. Hold it for a batch, not for longer. */
  space(id: number): Space<V> {
    let space = this.#spaces.get(id)
    if (!space) {
      space = { id, cells: new Map(), droppedAt: Number.POSITIVE_INFINITY }
      this.#spaces.set(id, space)
    }
    return space
  }

  peekSpace(id: number): Space<V> | undefined {
    return this.#spaces.get(id)
  }

  get(space: Space<V>, key: PipelineKey): V | undefined {
    const cell = space.cells.get(key)
    return cell === undefined ? undefined : (cell.value as V)
  }

  set(space: Space<V>, key: PipelineKey, value: V): void {
    const cell = space.cells.get(key)
    if (cell === undefined) this.add(space, key, value)
    else this.update(cell, value)
  }

  /** For loops that have looked for the cell already, and found none. */
  add(space: Space<V>, key: PipelineKey, value: V): void {
    const cell: Cell<V> = { key, space, value, stamp: this.#epoch, writtenIn: 0, frozen: notFrozen }
    space.cells.set(key, cell)
    this.#changed.push(cell)
    this.#size += 1
  }

  /** For loops that hold the cell. */
  update(cell: Cell<V>, value: V): void {
    if (cell.stamp !== this.#epoch) this.#touch(cell)
    cell.value = value
  }

  /** The value of a cell that may be changed in place until the next barrier: copied if a checkpoint needs the old one. */
  own(cell: Cell<V>, copy: (value: V) => V): V {
    if (cell.stamp !== this.#epoch) {
      this.#touch(cell)
      cell.value = copy(cell.value as V)
    }
    return cell.value as V
  }

  delete(space: Space<V>, key: PipelineKey): boolean {
    const cell = space.cells.get(key)
    if (cell === undefined) return false
    if (cell.stamp !== this.#epoch) this.#touch(cell)
    cell.value = gone
    space.cells.delete(key)
    this.#size -= 1
    return true
  }

  /** Ends a window: all of its cells go, at the cost of one note. */
  drop(space: Space<V>): void {
    assert(this.#spaces.get(space.id) === space, 'a space is dropped once')
    space.droppedAt = this.#epoch
    this.#spaces.delete(space.id)
    this.#dropped.push(space.id)
    this.#size -= space.cells.size
  }

  /** At the barrier. A full capture contains every cell, the others what changed since the last one. */
  capture(isFull: boolean): StateCapture {
    assert(this.#capture === null, 'one capture at a time')
    const capture = new Capture<V>(this.#epoch, {
      isFull,
      changed: this.#changed,
      dropped: this.#dropped,
      spaces: isFull ? [...this.#spaces.values()] : [],
      settle: (abandoned) => this.#settle(abandoned),
    })
    this.#capture = capture
    this.#changed = []
    this.#dropped = []
    this.#epoch += 1
    return capture
  }

  /** Applies a stored block. Blocks come in the order in which they were captured. */
  load(block: StateBlock, isMine: (key: PipelineKey) => boolean): void {
    assert(this.#epoch === 1 && this.#capture === null, 'state is loaded before the first record')
    for (const id of block.dropped) {
      this.#size -= this.#spaces.get(id)?.cells.size ?? 0
      this.#spaces.delete(id)
    }
    const space = this.space(block.space)
    for (const key of block.deleted) if (space.cells.delete(key)) this.#size -= 1
    block.keys.forEach((key, i) => {
      if (!isMine(key)) return
      const value = block.values[i] as V
      const cell = space.cells.get(key)
      if (cell) cell.value = value
      else {
        space.cells.set(key, { key, space, value, stamp: 0, writtenIn: 0, frozen: notFrozen })
        this.#size += 1
      }
    })
    if (space.cells.size === 0) this.#spaces.delete(space.id)
  }

  /** The first change of a cell since the barrier. */
  #touch(cell: Cell<V>): void {
    const capture = this.#capture
    // What the capture under way has yet to write stays as it was at the barrier.
    if (capture?.wants(cell)) {
      cell.frozen = cell.value
      capture.keepCell(cell)
    }
    cell.stamp = this.#epoch
    this.#changed.push(cell)
  }

  #settle(abandoned: Taken<V> | null): void {
    this.#capture = null
    if (!abandoned) return
    // Its changes come first again. A cell that changed since is in the list already.
    const again = abandoned.changed.filter((cell) => cell.stamp < this.#epoch)
    for (const cell of again) cell.stamp = this.#epoch
    this.#changed = [...again, ...this.#changed]
    this.#dropped = [...abandoned.dropped, ...this.#dropped]
  }
}

class Capture<V> implements StateCapture {
  readonly isFull: boolean
  readonly #epoch: number
  readonly #taken: Taken<V>
  readonly #settle: (abandoned: Taken<V> | null) => void
  readonly #walk: Iterator<Cell<V>>
  /** Cells that changed, and may have left their map, before a full capture came to them. */
  readonly #kept: Cell<V>[] = []
  #held: Cell<V> | null = null
  #phase: 'first' | 'writing' | 'written' | 'settled' = 'first'

  constructor(
    epoch: number,
    what: Taken<V> & {
      readonly isFull: boolean
      readonly spaces: readonly Space<V>[]
      readonly settle: (abandoned: Taken<V> | null) => void
    },
  ) {
    this.isFull = what.isFull
    this.#epoch = epoch
    this.#taken = { changed: what.changed, dropped: what.dropped }
    this.#settle = what.settle
    this.#walk = what.isFull ? walkSpaces(what.spaces, this.#kept) : what.changed[Symbol.iterator]()
  }

  wants(cell: Cell<V>): boolean {
    if (this.#phase === 'written' || cell.writtenIn >= this.#epoch || cell.stamp > this.#epoch) return false
    return this.isFull || cell.stamp === this.#epoch
  }

  /** A full capture walks the maps; a cell that may leave its map is remembered here. */
  keepCell(cell: Cell<V>): void {
    if (this.isFull) this.#kept.push(cell)
  }

  next(cellsMax: number): StateBlock | undefined {
    assert(this.#phase === 'first' || this.#phase === 'writing', 'a capture is read to its end once')
    const keys: PipelineKey[] = []
    const values: unknown[] = []
    const deleted: PipelineKey[] = []
    let space: number | null = null
    while (keys.length + deleted.length < cellsMax) {
      const cell = this.#nextCell()
      if (!cell) break
      if (space !== null && cell.space.id !== space) {
        this.#held = cell
        break
      }
      space = cell.space.id
      const value = cell.frozen === notFrozen ? cell.value : cell.frozen
      cell.frozen = notFrozen
      cell.writtenIn = this.#epoch
      if (value !== gone) {
        keys.push(cell.key)
        values.push(value)
      } else if (!this.isFull) deleted.push(cell.key)
    }
    // A full capture stands alone: what ended before it is simply not in it.
    const dropped = this.#phase === 'first' && !this.isFull ? this.#taken.dropped : []
    this.#phase = 'writing'
    if (space === null && dropped.length === 0) {
      this.#phase = 'written'
      return undefined
    }
    return { dropped, space: space ?? 0, keys, values, deleted }
  }

  publish(): void {
    assert(this.#phase === 'written', 'only what was written whole is published')
    this.#phase = 'settled'
    this.#settle(null)
  }

  abandon(): void {
    if (this.#phase === 'settled') return
    this.#phase = 'settled'
    for (const cell of this.#taken.changed) cell.frozen = notFrozen
    for (const cell of this.#kept) cell.frozen = notFrozen
    this.#settle(this.#taken)
  }

  #nextCell(): Cell<V> | null {
    if (this.#held) {
      const held = this.#held
      this.#held = null
      return held
    }
    for (;;) {
      const step = this.#walk.next()
      if (step.done) return null
      const cell = step.value
      if (cell.writtenIn >= this.#epoch) continue
      // Made after the barrier, or its window had ended by then.
      if (this.isFull && cell.frozen === notFrozen && cell.stamp > this.#epoch) continue
      if (cell.space.droppedAt <= this.#epoch) continue
      return cell
    }
  }
}

function* walkSpaces<V>(spaces: readonly Space<V>[], kept: readonly Cell<V>[]): Generator<Cell<V>> {
  for (const space of spaces) yield* space.cells.values()
  // It may grow while it is walked.
  for (let i = 0; i < kept.length; i++) yield kept[i]!
}
