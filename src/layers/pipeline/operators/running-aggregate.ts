// Running aggregation: one permanent accumulator per key, and one result per record, so the output does not depend on how
// records are batched.

import { assert } from '../../../core/assert.ts'
import type { PipelineKey } from '../../../core/key-groups.ts'
import type { Aggregation } from '../aggregate.ts'
import { without } from '../batch.ts'
import { keepsOrder, type MakeOperator, recordOf, tablesOf } from '../operator.ts'
import { StateTable } from '../rules/state-table.ts'

export interface KeyedResult<Value> {
  readonly key: PipelineKey
  readonly value: Value
}

export function running<T, A, R>(aggregation: Aggregation<T, A, R>): MakeOperator {
  return keepsOrder(([next], context) => {
    const state = new StateTable<A>()
    const { initial, add, result, copy } = aggregation
    return {
      tables: tablesOf({ keys: state }),
      inputs: [
        {
          batch(batch) {
            const { values, keys } = batch
            assert(keys !== null, 'a running aggregation has keys')
            const space = state.space(0)
            const results: KeyedResult<R>[] = []
            const poisoned: number[] = []
            for (let i = 0; i < values.length; ) {
              try {
                // One attempt covers many records: a try block per record would cost more than the work.
                for (; i < values.length; i++) {
                  const key = keys[i]!
                  const slot = space.slots.get(key)
                  const before =
                    slot === undefined ? initial() : copy ? state.own(space, slot, copy) : (space.values[slot] as A)
                  const after = add(before, values[i] as T)
                  const value = result(after)
                  if (slot === undefined) state.add(space, key, after)
                  else state.update(space, slot, after)
                  results.push({ key, value })
                }
              } catch (error) {
                context.poison(recordOf(batch, i), error)
                poisoned.push(i)
                i += 1
              }
            }
            if (results.length === 0) return
            if (poisoned.length === 0) next!.batch({ ...batch, values: results })
            else next!.batch({ ...without(batch, poisoned), values: results })
          },
          watermark: (time) => next!.watermark(time),
          idle: () => next!.idle(),
        },
      ],
    }
  })
}
