// Aggregation in windows of fixed length. State is stored per window, so a closed window is emitted and dropped as a whole,
// without a timer per key. A result is emitted when the watermark reaches the end of its window, and again for each late record
// within the allowed lateness; later records are sent to the late output.

import { assert } from '../../../core/assert.ts'
import type { PipelineKey } from '../../../core/key-groups.ts'
import { type Aggregation, neverThrows } from '../aggregate.ts'
import { type Batch, type Output, pick } from '../batch.ts'
import { type MakeOperator, type Operator, type OperatorContext, recordOf, tablesOf } from '../operator.ts'
import type { Space } from '../rules/state-space.ts'
import { StateTable } from '../rules/state-table.ts'
import { noWatermark } from '../rules/watermarks.ts'
import { endOf, type FixedWindows, isForgotten, lastStart, nextEnd } from '../rules/windows.ts'
import { EarlyKeys } from './early-results.ts'

export interface WindowResult<Value> {
  readonly key: PipelineKey
  readonly start: number
  readonly end: number
  readonly value: Value
  /** The window is still open: more records may arrive, and its result is emitted again. */
  readonly isEarly?: true
}

export interface WindowSettings {
  readonly windows: FixedWindows
  readonly lateMs: number
  readonly earlyMs: number | null
}

/** The first output has the results, the second the records that were too late. */
export function windowed<T, A, R>(settings: WindowSettings, aggregation: Aggregation<T, A, R>): MakeOperator {
  return ([next, late], context) => {
    const operator = new WindowOperator<T, A, R>(settings, aggregation, next!, late!, context)
    return operator
  }
}

/** The current watermark, as state: a record that was late before a restart must be late after it. */
export class Progress {
  readonly table = new StateTable<number>()
  #watermark: number = noWatermark

  get watermark(): number {
    return this.#watermark
  }

  restored(): void {
    this.#watermark = this.table.get(this.table.space(0), 'watermark') ?? noWatermark
  }

  /** False: the watermark did not rise. */
  advance(time: number): boolean {
    if (time <= this.#watermark) return false
    this.#watermark = time
    this.table.set(this.table.space(0), 'watermark', time)
    return true
  }
}

class WindowOperator<T, A, R> implements Operator, Output {
  readonly #settings: WindowSettings
  readonly #aggregation: Aggregation<T, A, R>
  readonly #next: Output
  readonly #late: Output
  readonly #context: OperatorContext
  readonly #state = new StateTable<A>()
  readonly #progress = new Progress()
  readonly #early: EarlyKeys<Space<A>>
  readonly tables = tablesOf({ windows: this.#state, progress: this.#progress.table })
  readonly inputs = [this]

  constructor(
    settings: WindowSettings,
    aggregation: Aggregation<T, A, R>,
    next: Output,
    late: Output,
    context: OperatorContext,
  ) {
    this.#settings = settings
    this.#early = new EarlyKeys(settings.earlyMs)
    this.#aggregation = aggregation
    this.#next = next
    this.#late = late
    this.#context = context
  }

  restored(): void {
    this.#progress.restored()
    for (const space of this.#state.spaces()) for (const key of space.slots.keys()) this.#early.note(space, key)
  }

  dueAbove(watermark: number): number {
    return nextEnd(this.#settings.windows, this.#settings.lateMs, watermark)
  }

  tick(now: number): void {
    for (const [space, keys] of this.#early.take(now)) {
      const isOpen = !space.isDropped && this.#endOf(space) > this.#progress.watermark
      if (isOpen) this.#give(space, keys, true)
    }
  }

  batch(batch: Batch): void {
    const { values, times, keys } = batch
    assert(times !== null && keys !== null, 'a window has keys and times')
    const { windows, lateMs } = this.#settings
    const { watermark } = this.#progress
    const tooLate: number[] = []
    /** Most records fall into the same window as the record before. */
    const isTumbling = windows.lengthMs === windows.stepMs
    let last: Space<A> | null = null
    let from = Number.POSITIVE_INFINITY
    let to = Number.NEGATIVE_INFINITY
    for (let i = 0; i < values.length; i++) {
      const time = times[i]!
      if (time >= from && time < to) {
        this.#add(last!, batch, i)
        continue
      }
      const spaces: Space<A>[] = []
      for (let start = lastStart(windows, time); endOf(windows, start) > time; start -= windows.stepMs) {
        if (isForgotten(endOf(windows, start), lateMs, watermark)) break
        spaces.push(this.#state.space(start))
        if (isTumbling) break
      }
      if (spaces.length === 0) tooLate.push(i)
      else if (isTumbling && this.#endOf(spaces[0]!) > watermark) {
        last = spaces[0]!
        ;[from, to] = [last.id, this.#endOf(last)]
        this.#add(last, batch, i)
      } else this.#addToAll(spaces, batch, i)
    }
    if (tooLate.length === 0) return
    this.#context.late(tooLate.length)
    this.#late.batch(pick(batch, tooLate))
  }

  watermark(time: number): void {
    const before = this.#progress.watermark
    if (this.#progress.advance(time)) {
      const over = [...this.#state.spaces()].filter((space) => this.#endOf(space) <= time)
      for (const space of over.sort((a, b) => a.id - b.id)) {
        if (this.#endOf(space) > before) this.#give(space, space.slots.keys())
        if (isForgotten(this.#endOf(space), this.#settings.lateMs, time)) this.#state.drop(space)
      }
    }
    this.#next.watermark(time)
    this.#late.watermark(time)
  }

  idle(): void {
    this.#next.idle()
    this.#late.idle()
  }

  #endOf({ id }: Space<A>): number {
    return endOf(this.#settings.windows, id)
  }

  /** Adds a record to one open window: the usual case. */
  #add(space: Space<A>, batch: Batch, i: number): void {
    const { initial, add, copy } = this.#aggregation
    const key = batch.keys![i]!
    const value = batch.values[i] as T
    const slot = space.slots.get(key)
    try {
      if (slot === undefined) this.#state.add(space, key, add(initial(), value))
      else {
        const before = copy ? this.#state.own(space, slot, copy) : (space.values[slot] as A)
        this.#state.update(space, slot, add(before, value))
      }
      this.#early.note(space, key)
    } catch (error) {
      this.#context.poison(recordOf(batch, i), error)
    }
  }

  /** Adds a record to all of its windows or, if the aggregation throws for one, to none. Closed windows emit again. */
  #addToAll(spaces: readonly Space<A>[], batch: Batch, i: number): void {
    const { initial, add, result, copy } = this.#aggregation
    const mayThrow = !neverThrows(this.#aggregation)
    const key = batch.keys![i]!
    const again: [Space<A>, R][] = []
    try {
      const added = spaces.map((space) => {
        const slot = space.slots.get(key)
        let before = slot === undefined ? initial() : (space.values[slot] as A)
        if (slot !== undefined && copy) before = mayThrow ? copy(before) : this.#state.own(space, slot, copy)
        const after = add(before, batch.values[i] as T)
        if (this.#endOf(space) <= this.#progress.watermark) again.push([space, result(after)])
        return after
      })
      spaces.forEach((space, w) => {
        this.#state.set(space, key, added[w]!)
        this.#early.note(space, key)
      })
    } catch (error) {
      this.#context.poison(recordOf(batch, i), error)
      return
    }
    for (const [space, value] of again) this.#giveOut(space, [key], [value], false)
  }

  #give(space: Space<A>, keys: Iterable<PipelineKey>, isEarly = false): void {
    const given = [...keys]
    const values = given.map((key) => this.#aggregation.result(this.#state.get(space, key)!))
    this.#giveOut(space, given, values, isEarly)
  }

  #giveOut(space: Space<A>, keys: readonly PipelineKey[], results: readonly R[], isEarly: boolean): void {
    if (keys.length === 0) return
    const start = space.id
    const end = this.#endOf(space)
    const values = keys.map((key, i): WindowResult<R> => {
      const value = results[i]!
      return isEarly ? { key, start, end, value, isEarly } : { key, start, end, value }
    })
    // The time of the result is the end of its window.
    this.#next.batch({ values, times: keys.map(() => end - 1), keys })
  }
}
