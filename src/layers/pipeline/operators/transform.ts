// Operators that look at one record at a time: map, filter, flatMap, keyBy. A record whose function throws is poison: it goes
// aside with the error, and the others of its batch go on.

import type { PipelineKey } from '../../../core/pipeline/key-groups.ts'
import type { Batch, Output } from '../batch.ts'
import { type MakeOperator, type OperatorContext, recordOf, stateless } from '../operator.ts'

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
  return transform((batch, into) => {
    for (let i = into.from; i < batch.values.length; i++) {
      into.from = i
      // All of a record or nothing of it: what it gave before it threw does not go on.
      for (const value of [...change(batch.values[i] as T)]) into.push(value, batch, i)
    }
  })
}

/** Values and times stay the arrays they are. */
export function keyBy<T>(keyOf: (value: T) => PipelineKey): MakeOperator {
  return ([next], context) => {
    const slow = transform((batch, into) => {
      for (let i = into.from; i < batch.values.length; i++) {
        into.from = i
        into.push(batch.values[i], batch, i, checkKey(keyOf(batch.values[i] as T)))
      }
    })([next!], context).inputs[0]!
    return stateless({
      batch(batch) {
        const { values, times } = batch
        const keys = new Array<PipelineKey>(values.length)
        try {
          for (let i = 0; i < values.length; i++) keys[i] = checkKey(keyOf(values[i] as T))
        } catch {
          // Again, with an eye on which of them it is.
          slow.batch(batch)
          return
        }
        next!.batch({ values, times, keys })
      },
      watermark: (time) => next!.watermark(time),
      idle: () => next!.idle(),
    })
  }
}

export function checkKey(key: unknown): PipelineKey {
  if (typeof key === 'string' || (typeof key === 'number' && !Number.isNaN(key))) return key
  const got = key === null ? 'null' : Number.isNaN(key) ? 'NaN' : typeof key
  throw new TypeError(`a key must be a string or a number (got ${got})`)
}

/** What a transformation gives, column by column. */
class Columns {
  /** The record that is being looked at; after an error, work goes on behind it. */
  from = 0
  readonly values: unknown[] = []
  readonly times: number[] = []
  readonly keys: PipelineKey[] = []

  push(value: unknown, batch: Batch, i: number, key = batch.keys?.[i]): void {
    this.values.push(value)
    if (batch.times) this.times.push(batch.times[i]!)
    if (key !== undefined) this.keys.push(key)
  }
}

function transform(work: (batch: Batch, into: Columns) => void): MakeOperator {
  return ([next], context) => stateless(transformer(next!, context, work))
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
      const { values, times, keys } = into
      if (values.length === 0) return
      next.batch({ values, times: batch.times ? times : null, keys: keys.length > 0 ? keys : null })
    },
    watermark: (time) => next.watermark(time),
    idle: () => next.idle(),
  }
}
