// Joins two streams of changes by key: two tables, whose rows are the newest values and whose tombstones delete. The result is
// a stream of changes too: a new row whenever one side of it changes, and a tombstone when it ends.

import { assert } from '../../../core/assert.ts'
import type { Batch } from '../batch.ts'
import { keepsOrder, type MakeOperator, recordOf, tablesOf } from '../operator.ts'
import { StateTable } from '../rules/state-table.ts'
import { Joined, type Outer, sidesOf } from './joined.ts'
import { mergedInputs } from './union.ts'

interface Row {
  readonly value: unknown
}

export function changesJoined<A, B, R>(
  join: (left: A | undefined, right: B | undefined) => R,
  hasTimes: boolean,
  outer?: Outer,
): MakeOperator {
  const isAlone = sidesOf(outer)
  /** Whether these two rows have a joined row. */
  const hasRow = (left: Row | undefined, right: Row | undefined) => {
    if (left !== undefined && right !== undefined) return true
    return (left !== undefined && isAlone.left) || (right !== undefined && isAlone.right)
  }
  return keepsOrder(([next], context) => {
    const rows = [new StateTable<Row>(), new StateTable<Row>()] as const
    const take = (batch: Batch, inputOf: (i: number) => number) => {
      const { values, times, keys, order } = batch
      assert(keys !== null, 'a join has keys')
      const given = new Joined(next!, context)
      for (let i = 0; i < values.length; i++) {
        const [key, input, value] = [keys[i]!, inputOf(i), values[i]]
        const before = rows.map((table) => table.get(table.space(0), key))
        const after = before.map((row, side) => (side !== input ? row : value === null ? undefined : { value }))
        const [left, right] = after
        const [had, has] = [hasRow(before[0], before[1]), hasRow(left, right)]
        try {
          // An unchanged row has no result: a tombstone for a key that has none, or one side without a partner.
          if (has || had) {
            const row = has ? join(left?.value as A | undefined, right?.value as B | undefined) : null
            given.push(row, key, times && hasTimes ? times[i]! : null, order?.[i])
          }
        } catch (error) {
          context.poison(recordOf(batch, i, input), error)
          continue
        }
        const table = rows[input as 0 | 1]
        if (after[input] !== undefined) table.set(table.space(0), key, after[input])
        else table.delete(table.space(0), key)
      }
      given.flush()
    }
    return {
      tables: tablesOf({ left: rows[0], right: rows[1] }),
      inputs: mergedInputs(
        [0, 1].map((input) => (batch: Batch) => take(batch, () => input)),
        next!,
      ),
      mixed: (batch, inputs) => take(batch, (i) => inputs[i]!),
    }
  })
}
