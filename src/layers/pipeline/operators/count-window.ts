// Windows of so many records of a key, whatever their times. What is not full stays state, and comes out only if more comes.

import { assert } from '../../../core/assert.ts'
import type { PipelineKey } from '../../../core/pipeline/key-groups.ts'
import { StateTable } from '../../../core/pipeline/state-table.ts'
import type { Aggregation } from '../aggregate.ts'
import { type MakeOperator, recordOf, tablesOf } from '../operator.ts'
import type { KeyedResult } from './running.ts'

interface Counted<A> {
  readonly count: number
  readonly accumulator: A
}

export function counted<T, A, R>(size: number, aggregation: Aggregation<T, A, R>): MakeOperator {
  return ([next], context) => {
    const state = new StateTable<Counted<A>>()
    const { initial, add, result, copy } = aggregation
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
                if (count < size) state.set(space, key, { count, accumulator })
                else {
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
          watermark: (time) => next!.watermark(time),
          idle: () => next!.idle(),
        },
      ],
    }
  }
}
