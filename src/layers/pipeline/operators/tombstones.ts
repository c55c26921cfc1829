// A null in a keyed stream is a tombstone: the key was deleted. An operator that keeps the newest value of a key (`joinLatest`)
// deletes the key; operators that gather values of a key (aggregates, windows, joins of pairs) skip tombstones, like Kafka
// Streams; all other operators pass them on like any record.

import type { Batch, Output } from '../batch.ts'
import { pick } from '../batch.ts'
import { keepsOrder, type MakeOperator } from '../operator.ts'

/** The type of a stream's values without tombstones. */
export type Present<T> = Exclude<T, null>

/** Wraps an operator so that it gets only records with a value. */
export function skipsTombstones(make: MakeOperator): MakeOperator {
  const made: MakeOperator = (outputs, context) => {
    const operator = make(outputs, context)
    return Object.assign(operator, { inputs: operator.inputs.map(ofValues) })
  }
  return make.keepsOrder ? keepsOrder(made) : made
}

function ofValues(input: Output): Output {
  return {
    batch(batch) {
      const present = valuesOf(batch)
      if (present.values.length > 0) input.batch(present)
    },
    watermark: (time) => input.watermark(time),
    idle: () => input.idle(),
  }
}

function valuesOf(batch: Batch): Batch {
  if (!batch.values.includes(null)) return batch
  return pick(
    batch,
    batch.values.flatMap((value, i) => (value === null ? [] : [i])),
  )
}
