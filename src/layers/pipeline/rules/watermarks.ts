// Watermarks: the progress of event time. A watermark W promises that no record with a time below W follows; a record that
// breaks the promise is late. Watermarks only rise. One slow or silent input must not stop all windows: an idle input does not
// count until it sends a record or watermark again.

import { assert } from '../../../core/assert.ts'

/** Before the first record, nothing is promised. */
export const noWatermark = Number.NEGATIVE_INFINITY
/** After the last record of a bounded input: every window is final. */
export const lastWatermark = Number.POSITIVE_INFINITY

interface Input {
  watermark: number
  isIdle: boolean
}

/**
 * The lowest watermark of the inputs that are not idle; the highest of all inputs once every one is idle. Inputs may be added
 * and removed while it runs.
 */
export class WatermarkMerge<Id> {
  readonly #inputs = new Map<Id, Input>()
  #current: number = noWatermark

  get current(): number {
    return this.#current
  }

  /** True if there are inputs and none of them is active: downstream must then not wait for this one either. */
  get isIdle(): boolean {
    if (this.#inputs.size === 0) return false
    for (const input of this.#inputs.values()) if (!input.isIdle) return false
    return true
  }

  add(id: Id): void {
    assert(!this.#inputs.has(id), 'an input of a watermark is added once')
    this.#inputs.set(id, { watermark: noWatermark, isIdle: false })
  }

  /** A removed input holds nothing back. Returns the merged watermark. */
  remove(id: Id): number {
    assert(this.#inputs.delete(id), 'only an input that was added can be removed')
    return this.#merge()
  }

  /** Makes the input active again. Returns the merged watermark. */
  advance(id: Id, watermark: number): number {
    const input = this.#input(id)
    input.isIdle = false
    // A source that restarts may repeat a watermark; event time never moves backwards.
    if (watermark > input.watermark) input.watermark = watermark
    return this.#merge()
  }

  idle(id: Id): number {
    this.#input(id).isIdle = true
    return this.#merge()
  }

  /** The lowest watermark of the other active inputs: the highest value to which this one can raise the merged watermark. */
  lowestBeside(id: Id): number {
    let lowest: number = lastWatermark
    for (const [other, { watermark, isIdle }] of this.#inputs) {
      if (other !== id && !isIdle && watermark < lowest) lowest = watermark
    }
    return lowest
  }

  watermarkOf(id: Id): number {
    return this.#input(id).watermark
  }

  /** The inputs that hold the merged watermark back, to explain why windows do not close. */
  slowest(): Id[] {
    const active = [...this.#inputs].filter(([, input]) => !input.isIdle)
    const lowest = Math.min(...active.map(([, input]) => input.watermark))
    return active.filter(([, input]) => input.watermark === lowest).map(([id]) => id)
  }

  #input(id: Id): Input {
    const input = this.#inputs.get(id)
    assert(input !== undefined, 'a watermark comes from an input that was added')
    return input
  }

  #merge(): number {
    let lowest: number = lastWatermark
    let highest: number = noWatermark
    let isAnyActive = false
    for (const { watermark, isIdle } of this.#inputs.values()) {
      if (watermark > highest) highest = watermark
      if (isIdle) continue
      isAnyActive = true
      if (watermark < lowest) lowest = watermark
    }
    const merged = isAnyActive ? lowest : highest
    if (merged > this.#current) this.#current = merged
    return this.#current
  }
}

/**
 * The watermark of one partition of a source: `outOfOrderMs` below the highest time observed. The partition is idle after
 * `idleMs` without a record, by the caller's clock.
 */
export class PartitionWatermark {
  readonly #outOfOrderMs: number
  readonly #idleMs: number | null
  #highest: number = noWatermark
  #spokeAt: number

  constructor(options: { readonly outOfOrderMs: number; readonly idleMs: number | null }, now: number) {
    this.#outOfOrderMs = options.outOfOrderMs
    this.#idleMs = options.idleMs
    this.#spokeAt = now
  }

  get current(): number {
    return this.#highest - this.#outOfOrderMs
  }

  /** The result that `observe` would return, without a change. */
  after(time: number): number {
    return Math.max(time, this.#highest) - this.#outOfOrderMs
  }

  observe(highestTime: number, now: number): number {
    if (highestTime > this.#highest) this.#highest = highestTime
    this.#spokeAt = now
    return this.current
  }

  isIdleAt(now: number): boolean {
    return this.#idleMs !== null && now - this.#spokeAt >= this.#idleMs
  }
}
