// Windows of a fixed number of records per key, at any times. An incomplete window stays in the state; it is emitted
// when more records fill it, when its first record is older than `withinMs` by the clock, or when the source ends.

import { assert } from '../../../core/assert.ts'
import type { PipelineKey } from '../../../core/key-groups.ts'
import { TimeQueue } from '../../../core/time-queue.ts'
import type { Aggregation } from '../aggregate.ts'
import { type MakeOperator, recordOf, tablesOf } from '../operator.ts'
import { StateTable } from '../rules/state-table.ts'
import { lastWatermark, noWatermark } from '../rules/watermarks.ts'
import type { KeyedResult } from './running-aggregate.ts'

interface Counted<A> {
  readonly count: number
  /** The clock time at which the first record arrived; only where a window also ends by time. */
  readonly since?: number
  readonly accumulator: A
}

export function counted<T, A, R>(
  size: number,
  withinMs: number | null,
  aggregation: Aggregation<T, A, R>,
  hasTimes: boolean,
): MakeOperator {
  return ([next], context) => {
    const state = new StateTable<Counted<A>>()
    const { initial, add, result, copy } = aggregation
    const ending = new TimeQueue<PipelineKey>()
    /** A window that ends by the clock gets the watermark as its time, so that it is not late for later operators. */
    let watermark: number = noWatermark
    const schedule = (key: PipelineKey, since: number) => ending.add(since + withinMs!, key)
    /** Emits incomplete windows. */
    const giveRest = (over: readonly PipelineKey[], now: number) => {
      if (over.length === 0) return
      const time = Number.isFinite(watermark) ? watermark : now
      const values = over.map((key) => ({ key, value: result(state.get(state.space(0), key)!.accumulator) }))
      for (const key of over) state.delete(state.space(0), key)
      next!.batch({ values, times: hasTimes ? over.map(() => time) : null, keys: over })
    }
    return {
      tables: tablesOf({ keys: state }),
      inputs: [
        {
          batch(batch) {
            const { values, times, keys } = batch
            assert(keys !== null, 'a window has keys')
            const space = state.space(0)
            const results: KeyedResult<R>[] = []
            const given: PipelineKey[] = []
            const at: number[] | null = times ? [] : null
            for (let i = 0; i < values.length; i++) {
              const key = keys[i]!
              try {
                const before = state.get(space, key)
                const base = before === undefined ? initial() : before.accumulator
                const accumulator = add(copy && before ? copy(base) : base, values[i] as T)
                const count = (before?.count ?? 0) + 1
                if (count < size) {
                  const since = withinMs === null ? undefined : (before?.since ?? context.clock.now())
                  if (since !== undefined && before === undefined) schedule(key, since)
                  state.set(space, key, { count, accumulator, ...(since !== undefined && { since }) })
                } else {
                  results.push({ key, value: result(accumulator) })
                  given.push(key)
                  at?.push(times![i]!)
                  state.delete(space, key)
                }
              } catch (error) {
                context.poison(recordOf(batch, i), error)
              }
            }
            if (results.length > 0) next!.batch({ values: results, times: at, keys: given })
          },
          watermark(time) {
            if (time === lastWatermark) giveRest([...state.space(0).slots.keys()], context.clock.now())
            watermark = time
            next!.watermark(time)
          },
          idle: () => next!.idle(),
        },
      ],
      restored() {
        for (const [key, { since }] of state.space(0).entries()) if (since !== undefined) schedule(key, since)
      },
      tick(now) {
        if (withinMs === null) return
        const over: PipelineKey[] = []
        for (let due = ending.take(now); due; due = ending.take(now)) {
          for (const key of due.items) {
            const held = state.get(state.space(0), key)
            // Otherwise the window was filled meanwhile, and the next one has a deadline of its own.
            if (held?.since !== undefined && held.since + withinMs === due.time) over.push(key)
          }
        }
        giveRest(over, now)
      },
    }
  }
}
