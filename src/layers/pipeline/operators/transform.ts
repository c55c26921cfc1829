// Operators that process one record at a time: map, filter, flatMap, keyBy. A record whose function throws is poison: it is set
// aside with the error, and the other records of its batch continue.

import type { PipelineKey } from '../../../core/key-groups.ts'
import { refuseThenables } from '../../../core/synchronous.ts'
import type { Batch, Output } from '../batch.ts'
import { keepsOrder, type MakeOperator, type OperatorContext, recordOf, stateless } from '../operator.ts'

export function map<T, R>(change: (value: T) => R): MakeOperator {
  return transform((batch, into) => {
    for (let i = into.from; i < batch.values.length; i++) {
      into.from = i
      into.push(change(batch.values[i] as T), batch, i)
    }
  })
}

export function filter<T>(isWanted: (value: T) => boolean): MakeOperator {
  return transform((batch, into) => {
    for (let i = into.from; i < batch.values.length; i++) {
      into.from = i
      if (isWanted(batch.values[i] as T)) into.push(batch.values[i], batch, i)
    }
  })
}

export function flatMap<T, R>(change: (value: T) => Iterable<R>): MakeOperator {
  return keepsOrder((outputs, context) => {
    const made = transform((batch, into) => {
      for (let i = into.from; i < batch.values.length; i++) {
        into.from = i
        // A record emits all of its results or none: results before a throw are dropped.
        const items = [...change(batch.values[i] as T)]
        refuseThenables(items, context.name, 'return plain items, and use call() after it to wait for outside systems')
        for (const value of items) into.push(value, batch, i)
      }
    })
    return made(outputs, context)
  })
}

export const withoutKeys: MakeOperator = ([next]) =>
  stateless({
    batch: (batch) => next!.batch({ ...batch, keys: null }),
    watermark: (time) => next!.watermark(time),
    idle: () => next!.idle(),
  })

/** Without `toValue`, the arrays of values and times are reused. */
export function keyBy<T>(keyOf: (value: T) => PipelineKey, toValue?: (value: T) => unknown): MakeOperator {
  return keepsOrder(([next], context) => {
    const slow = transform((batch, into) => {
      for (let i = into.from; i < batch.values.length; i++) {
        into.from = i
        const value = batch.values[i] as T
        const key = checkKey(keyOf(value))
        into.push(toValue ? toValue(value) : value, batch, i, key)
      }
    })([next!], context).inputs[0]!
    return stateless({
      batch(batch) {
        const { times, order } = batch
        let { values } = batch
        const keys = new Array<PipelineKey>(values.length)
        try {
          for (let i = 0; i < values.length; i++) keys[i] = checkKey(keyOf(values[i] as T))
          if (toValue) values = values.map((value) => toValue(value as T))
        } catch {
          // Repeat record by record to find the one that throws.
          slow.batch(batch)
          return
        }
        next!.batch(order ? { values, times, keys, order } : { values, times, keys })
      },
      watermark: (time) => next!.watermark(time),
      idle: () => next!.idle(),
    })
  })
}

export function checkKey(key: unknown): PipelineKey {
  if (typeof key === 'string' || (typeof key === 'number' && !Number.isNaN(key))) return key
  const got = key === null ? 'null' : Number.isNaN(key) ? 'NaN' : typeof key
  throw new TypeError(`a key must be a string or a number (got ${got})`)
}

/** The output of a transformation, column by column. */
class Columns {
  /** The index of the current record; after an error, processing continues with the next one. */
  from = 0
  readonly values: unknown[] = []
  readonly times: number[] = []
  readonly keys: PipelineKey[] = []
  readonly order: number[] = []

  push(value: unknown, batch: Batch, i: number, key = batch.keys?.[i]): void {
    this.values.push(value)
    if (batch.times) this.times.push(batch.times[i]!)
    if (key !== undefined) this.keys.push(key)
    if (batch.order) this.order.push(batch.order[i]!)
  }
}

function transform(work: (batch: Batch, into: Columns) => void): MakeOperator {
  return keepsOrder(([next], context) => stateless(transformer(next!, context, work)))
}

function transformer(next: Output, context: OperatorContext, work: (batch: Batch, into: Columns) => void): Output {
  return {
    batch(batch) {
      const into = new Columns()
      while (into.from < batch.values.length) {
        try {
          work(batch, into)
          break
        } catch (error) {
          context.poison(recordOf(batch, into.from), error)
          into.from += 1
        }
      }
      const { values, order } = into
      if (values.length === 0) return
      const times = batch.times ? into.times : null
      const keys = into.keys.length > 0 ? into.keys : null
      next.batch(batch.order ? { values, times, keys, order } : { values, times, keys })
    },
    watermark: (time) => next.watermark(time),
    idle: () => next.idle(),
  }
}
