// Records on their way through a pipeline: columns, not objects, and many at a time. No promise and no object per record.

import type { PipelineKey } from '../../core/key-groups.ts'

export interface Batch {
  readonly values: readonly unknown[]
  /** The event time of each, in milliseconds; null where the source has none. */
  readonly times: readonly number[] | null
  /** Null before the first `keyBy`. */
  readonly keys: readonly PipelineKey[] | null
  /** Between a stream with several readers and the place where they meet: the place of each record, rising. */
  readonly order?: readonly number[]
  /** From a source that names its records, up to its first operator: the name of each (SourceBatch). */
  readonly names?: readonly string[] | undefined
}

/** What follows in the chain. It does not wait: whoever must wait keeps what it has and says so to the flow. */
export interface Output {
  batch(batch: Batch): void
  /** No record with a time below this follows. */
  watermark(time: number): void
  /** Nothing is to be expected for a while: nobody must wait for this input. A record or watermark ends it. */
  idle(): void
}

/** Nobody wants it. */
const nowhere: Output = { batch() {}, watermark() {}, idle() {} }

/** Sends the same to several. */
export function toAll(outputs: readonly Output[]): Output {
  if (outputs.length === 0) return nowhere
  if (outputs.length === 1) return outputs[0]!
  return {
    batch(batch) {
      for (const output of outputs) output.batch(batch)
    },
    watermark(time) {
      for (const output of outputs) output.watermark(time)
    },
    idle() {
      for (const output of outputs) output.idle()
    },
  }
}

/** Each record as a batch of its own: what follows sees no difference between few records and many. */
export function oneByOne(output: Output): Output {
  return {
    batch(batch) {
      if (batch.values.length === 1) output.batch(batch)
      else for (let i = 0; i < batch.values.length; i++) output.batch(slice(batch, i, i + 1))
    },
    watermark: (time) => output.watermark(time),
    idle: () => output.idle(),
  }
}

/** The records of a batch from one place to another, as `Array.slice`. */
export function slice(batch: Batch, from: number, to: number): Batch {
  const { values, times, keys, order, names } = batch
  if (from === 0 && to === values.length) return batch
  const cut = <T>(column: readonly T[]) => column.slice(from, to)
  const columns = { values: cut(values), times: times && cut(times), keys: keys && cut(keys) }
  if (names) return { ...columns, names: cut(names) }
  return order ? { ...columns, order: cut(order) } : columns
}

/** Some records of a batch. */
export function pick({ values, times, keys, order }: Batch, indexes: readonly number[]): Batch {
  return {
    values: indexes.map((i) => values[i]),
    times: times && indexes.map((i) => times[i]!),
    keys: keys && indexes.map((i) => keys[i]!),
    ...(order && { order: indexes.map((i) => order[i]!) }),
  }
}

/** All but these records of a batch. */
export function without(batch: Batch, indexes: readonly number[]): Batch {
  const left = new Set(indexes)
  return pick(
    batch,
    batch.values.flatMap((_, i) => (left.has(i) ? [] : [i])),
  )
}
