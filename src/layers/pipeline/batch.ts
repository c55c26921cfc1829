// A batch of records in a pipeline, stored as columns: there is no promise and no object per record.

import type { PipelineKey } from '../../core/key-groups.ts'

export interface Batch {
  readonly values: readonly unknown[]
  /** The event time of each record, in milliseconds; null where the source has none. */
  readonly times: readonly number[] | null
  /** Null before the first `keyBy`. */
  readonly keys: readonly PipelineKey[] | null
  /** The rising position of each record, from a stream with several readers to the operator where they merge. */
  readonly order?: readonly number[]
  /** The name of each record (SourceBatch), from a source that names its records up to the first operator. */
  readonly names?: readonly string[] | undefined
}

/**
 * The next operator or sink in the chain. Its methods do not wait: an operator that must wait keeps the records and informs
 * the flow.
 */
export interface Output {
  batch(batch: Batch): void
  /** No record with a time below this follows. */
  watermark(time: number): void
  /**
   * No records are expected for a while, so no operator waits for this input. The next record or watermark ends the idle time.
   */
  idle(): void
}

/** Discards everything. */
const nowhere: Output = { batch() {}, watermark() {}, idle() {} }

/** Sends the same batches and watermarks to several outputs. */
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

/** Sends each record as a batch of its own: the output must not depend on the size of a batch. */
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

/** The records of a batch from one index to another, like `Array.slice`. */
export function slice(batch: Batch, from: number, to: number): Batch {
  const { values, times, keys, order, names } = batch
  if (from === 0 && to === values.length) return batch
  const cut = <T>(column: readonly T[]) => column.slice(from, to)
  const columns = { values: cut(values), times: times && cut(times), keys: keys && cut(keys) }
  if (names) return { ...columns, names: cut(names) }
  return order ? { ...columns, order: cut(order) } : columns
}

/** The records of a batch at these indexes. */
export function pick({ values, times, keys, order }: Batch, indexes: readonly number[]): Batch {
  return {
    values: indexes.map((i) => values[i]),
    times: times && indexes.map((i) => times[i]!),
    keys: keys && indexes.map((i) => keys[i]!),
    ...(order && { order: indexes.map((i) => order[i]!) }),
  }
}

/** All records of a batch except those at these indexes. */
export function without(batch: Batch, indexes: readonly number[]): Batch {
  const left = new Set(indexes)
  return pick(
    batch,
    batch.values.flatMap((_, i) => (left.has(i) ? [] : [i])),
  )
}
