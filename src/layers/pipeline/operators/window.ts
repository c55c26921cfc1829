// Aggregation in windows of fixed length. State lies window by window, so a window that is over is given out and dropped as
// a whole, without a timer per key. A result comes when the watermark reaches the end of its window, and once more for each
// batch with late records while lateness is allowed; what comes later still goes to the late output.

import { assert } from '../../../core/assert.ts'
import type { PipelineKey } from '../../../core/pipeline/key-groups.ts'
import type { Space } from '../../../core/pipeline/state-space.ts'
import { StateTable } from '../../../core/pipeline/state-table.ts'
import { noWatermark } from '../../../core/pipeline/watermarks.ts'
import { type FixedWindows, isForgotten, lastStart } from '../../../core/pipeline/windows.ts'
import type { Aggregation } from '../aggregate.ts'
import { type Batch, type Output, pick } from '../batch.ts'
import { type MakeOperator, type Operator, type OperatorContext, recordOf, tablesOf } from '../operator.ts'
import { EarlyKeys } from './early.ts'

export interface WindowResult<Value> {
  readonly key: PipelineKey
  readonly start: number
  readonly end: number
  readonly value: Value
  /** The window goes on: more may come, and its result again. */
  readonly isEarly?: true
}

export interface WindowSettings {
  readonly windows: FixedWindows
  readonly lateMs: number
  readonly earlyMs: number | null
}

/** Results first, what came too late second. */
export function windowed<T, A, R>(settings: WindowSettings, aggregation: Aggregation<T, A, R>): MakeOperator {
  return ([next, late], context) => {
    const operator = new WindowOperator<T, A, R>(settings, aggregation, next!, late!, context)
    return operator
  }
}

/** How far the watermark had come, as state: what was late before a restart must be late after it. */
export class Progress {
  readonly table = new StateTable<number>()
  #watermark: number = noWatermark

  get watermark(): number {
    return this.#watermark
  }

  restored(): void {
    this.#watermark = this.table.get(this.table.space(0), 'watermark') ?? noWatermark
  }

  /** False: it is not news. */
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

  tick(now: number): void {
    for (const [space, keys] of this.#early.take(now)) {
      const isOpen = !space.isDropped && space.id + this.#settings.windows.lengthMs > this.#progress.watermark
      if (isOpen) this.#give(space, keys, true)
    }
  }

  batch(batch: Batch): void {
    const { values, times, keys } = batch
    assert(times !== null && keys !== null, 'a window has keys and times')
    const { windows, lateMs } = this.#settings
    const { watermark } = this.#progress
    const touched = new Map<Space<A>, Set<PipelineKey>>()
    const tooLate: number[] = []
    const { lengthMs, stepMs } = windows
    /** Most records fall into the window of the one before. */
    const isTumbling = lengthMs === stepMs
    let last: Space<A> | null = null
    let from = Number.POSITIVE_INFINITY
    let to = Number.NEGATIVE_INFINITY
    for (let i = 0; i < values.length; i++) {
      const time = times[i]!
      if (time >= from && time < to) {
        this.#add(last!, batch, i)
        continue
      }
      let isTaken = false
      for (let start = lastStart(windows, time); start > time - lengthMs; start -= stepMs) {
        const end = start + lengthMs
        if (isForgotten(end, lateMs, watermark)) break
        isTaken = true
        const space = this.#state.space(start)
        if (!this.#add(space, batch, i)) break
        if (end <= watermark) noteLate(touched, space, keys[i]!)
        else if (isTumbling) [last, from, to] = [space, start, end]
      }
      if (!isTaken) tooLate.push(i)
    }
    for (const [updated, lateKeys] of touched) this.#give(updated, lateKeys)
    if (tooLate.length === 0) return
    this.#context.late(tooLate.length)
    this.#late.batch(pick(batch, tooLate))
  }

  watermark(time: number): void {
    const before = this.#progress.watermark
    if (this.#progress.advance(time)) {
      const { windows, lateMs } = this.#settings
      const over = [...this.#state.spaces()].filter(({ id }) => id + windows.lengthMs <= time)
      for (const space of over.sort((a, b) => a.id - b.id)) {
        if (space.id + windows.lengthMs > before) this.#give(space, space.slots.keys())
        if (isForgotten(space.id + windows.lengthMs, lateMs, time)) this.#state.drop(space)
      }
    }
    this.#next.watermark(time)
    this.#late.watermark(time)
  }

  idle(): void {
    this.#next.idle()
    this.#late.idle()
  }

  /** False: the record is poison. The other windows it belongs to have it, or do not, alike: it fails on the first. */
  #add(space: Space<A>, batch: Batch, i: number): boolean {
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
      return true
    } catch (error) {
      this.#context.poison(recordOf(batch, i), error)
      return false
    }
  }

  #give(space: Space<A>, keys: Iterable<PipelineKey>, isEarly = false): void {
    const { lengthMs } = this.#settings.windows
    const start = space.id
    const end = start + lengthMs
    const values: WindowResult<R>[] = []
    const given: PipelineKey[] = []
    const times: number[] = []
    for (const key of keys) {
      const value = this.#aggregation.result(this.#state.get(space, key)!)
      values.push(isEarly ? { key, start, end, value, isEarly } : { key, start, end, value })
      given.push(key)
      // The result belongs to the last moment of its window.
      times.push(end - 1)
    }
    if (values.length > 0) this.#next.batch({ values, times, keys: given })
  }
}

function noteLate<A>(touched: Map<Space<A>, Set<PipelineKey>>, space: Space<A>, key: PipelineKey): void {
  const keys = touched.get(space)
  if (keys) keys.add(key)
  else touched.set(space, new Set([key]))
}
