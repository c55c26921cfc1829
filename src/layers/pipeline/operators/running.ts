// Running aggregation: one accumulator per key for good, and a result for every record. So the output does not depend on how
// records happen to be batched.

import { assert } from '../../../core/assert.ts'
import type { PipelineKey } from '../../../core/pipeline/key-groups.ts'
import { StateTable } from '../../../core/pipeline/state-table.ts'
import type { Aggregation } from '../aggregate.ts'
import { type MakeOperator, recordOf, tablesOf } from '../operator.ts'

export interface KeyedResult<Value> {
  readonly key: PipelineKey
  readonly value: Value
}

export function running<T, A, R>(aggregation: Aggregation<T, A, R>): MakeOperator {
  return ([next], context) => {
    const state = new StateTable<A>()
    const { initial, add, result, copy } = aggregation
    return {
      tables: tablesOf({ keys: state }),
      inputs: [
        {
          batch(batch) {
            const { values, times, keys } = batch
            assert(keys !== null, 'a running aggregation has keys')
            const space = state.space(0)
            const results: KeyedResult<R>[] = []
            const given: PipelineKey[] = []
            const at: number[] | null = times ? [] : null
            for (let i = 0; i < values.length; i++) {
              const key = keys[i]!
              try {
                const cell = space.cells.get(key)
                const before = cell === undefined ? initial() : copy ? state.own(cell, copy) : (cell.value as A)
                const after = add(before, values[i] as T)
                results.push({ key, value: result(after) })
                if (cell === undefined) state.add(space, key, after)
                else state.update(cell, after)
                given.push(key)
                at?.push(times![i]!)
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
