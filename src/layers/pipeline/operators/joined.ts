// The results of a join of pairs, and the pairs whose join function threw. In an outer join, a record without a partner forms a
// pair with undefined.

import type { PipelineKey } from '../../../core/key-groups.ts'
import type { Output } from '../batch.ts'
import { batchOf, type OperatorContext, type RecordOrigin } from '../operator.ts'

/** 'left': also records of the left side without a partner; 'full': those of both sides. */
export type Outer = 'left' | 'full'

/** The left side as the function of a join gets it. */
export type LeftOf<V, O extends Outer> = [O] extends [never] ? V : O extends 'full' ? V | undefined : V
/** The right side as the function of a join gets it. */
export type RightOf<V, O extends Outer> = [O] extends [never] ? V : V | undefined

/** Whether records of these sides are emitted without a partner. */
export function sidesOf(outer: Outer | undefined): { readonly left: boolean; readonly right: boolean } {
  return { left: outer !== undefined, right: outer === 'full' }
}

/** The index of the input, after those of the two streams, for pairs that were set aside. */
const pairInput = 2

/** Joins a pair that is sent back, with both sides as they were. */
export function pairsAgain(
  next: Output,
  context: OperatorContext,
  join: (pair: readonly unknown[], time: number) => unknown,
): Output {
  return {
    batch({ values, times, keys }) {
      const given = new Joined(next, context)
      values.forEach((pair, i) => {
        const time = times![i]!
        given.add(() => join(pair as readonly unknown[], time), pair as readonly unknown[], keys![i]!, time)
      })
      given.flush()
    },
    watermark() {},
    idle() {},
  }
}

/** Collects results of a join. A pair whose join function throws is set aside as a pair. */
export class Joined {
  readonly #next: Output
  readonly #context: OperatorContext
  readonly #values: unknown[] = []
  readonly #keys: PipelineKey[] = []
  readonly #times: (number | null)[] = []
  readonly #order: number[] = []
  /** The origin of each result, where it is not the current record. */
  readonly #origins: RecordOrigin[] = []

  constructor(next: Output, context: OperatorContext) {
    this.#next = next
    this.#context = context
  }

  add(
    make: () => unknown,
    pair: readonly unknown[],
    key: PipelineKey,
    time: number,
    order?: number,
    origin?: RecordOrigin,
  ): void {
    try {
      this.push(make(), key, time, order)
      if (origin) this.#origins.push(origin)
    } catch (error) {
      this.#context.poison({ value: pair, time, key, input: pairInput, ...(origin && { origin }) }, error)
    }
  }

  push(value: unknown, key: PipelineKey, time: number | null, order?: number): void {
    this.#values.push(value)
    this.#keys.push(key)
    this.#times.push(time)
    if (order !== undefined) this.#order.push(order)
  }

  flush(): void {
    if (this.#values.length === 0) return
    const times = this.#times[0] === null ? null : (this.#times as number[])
    const [values, keys, order] = [this.#values, this.#keys, this.#order]
    if (this.#origins.length > 0) {
      this.#origins.forEach(({ cause }, i) => {
        const one = batchOf({ value: values[i], time: times && times[i]!, key: keys[i]! })
        this.#context.origins!.from(cause, () => this.#next.batch(one))
      })
      return
    }
    this.#next.batch(order.length > 0 ? { values, times, keys, order } : { values, times, keys })
  }
}
