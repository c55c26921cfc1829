// Joins each record of any key with one value folded from another stream: rules, settings, exchange rates. An
// aggregation folds that value, and the value is state; a record is joined with the current value, which reflects the part of
// the other stream read so far.

import type { Aggregation } from '../aggregate.ts'
import { type Batch, without } from '../batch.ts'
import { keepsOrder, type MakeOperator, recordOf, tablesOf } from '../operator.ts'
import { StateTable } from '../rules/state-table.ts'

const only = 'told'

export function broadcast<T, B, A, V, R>(
  aggregation: Aggregation<B, A, V>,
  join: (value: T, known: V | undefined) => R,
): MakeOperator {
  return keepsOrder(([next], context) => {
    const state = new StateTable<A>()
    const { initial, add, result, copy } = aggregation
    const fold = (batch: Batch) => {
      const space = state.space(0)
      for (let i = 0; i < batch.values.length; i++) {
        try {
          const slot = space.slots.get(only)
          const before =
            slot === undefined ? initial() : copy ? state.own(space, slot, copy) : (space.values[slot] as A)
          state.set(space, only, add(before, batch.values[i] as B))
        } catch (error) {
          context.poison(recordOf(batch, i, 1), error)
        }
      }
    }
    const meet = (batch: Batch) => {
      const poisoned: number[] = []
      const values: R[] = []
      const space = state.space(0)
      const current = space.slots.has(only) ? result(state.get(space, only)!) : undefined
      for (let i = 0; i < batch.values.length; i++) {
        try {
          values.push(join(batch.values[i] as T, current))
        } catch (error) {
          context.poison(recordOf(batch, i), error)
          poisoned.push(i)
        }
      }
      if (values.length > 0) next!.batch({ ...(poisoned.length > 0 ? without(batch, poisoned) : batch), values })
    }
    return {
      tables: tablesOf({ told: state }),
      // Event time is that of the records: the broadcast stream does not hold windows back.
      inputs: [
        { batch: meet, watermark: (time) => next!.watermark(time), idle: () => next!.idle() },
        { batch: fold, watermark() {}, idle() {} },
      ],
    }
  })
}
