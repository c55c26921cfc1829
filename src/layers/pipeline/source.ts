// The contract of a source. A source returns batches, each from one partition and with the position after it. A position is
// plain data; a source opened at a position returns exactly the records after it. Exactly-once requires nothing more of a
// source.

import type { Reads } from '../../engine/branch/consumers.ts'
import type { Engine } from '../../engine/model/definition.ts'

/** Positions by partition. A source without partitions uses ''. */
export type Positions = ReadonlyMap<string, unknown>

export interface SourceBatch<T> {
  readonly partition: string
  readonly values: readonly T[]
  /** The position after the last value. Plain data; it is stored with every checkpoint. */
  readonly position: unknown
  /**
   * The name of each value, in idempotency keys. Default: its number in its partition, which is the same whenever the source is
   * read again. A source whose order may differ in another copy of it (the feed of a restored store) names its values.
   */
  readonly names?: readonly string[]
  /**
   * The outside system keeps accumulating data until this position is acknowledged: a checkpoint is due, even without a record.
   * Set it rarely: a checkpoint may itself produce the next data that the source reads.
   */
  readonly isDue?: boolean
}

export interface SourceReader<T> {
  /**
   * Returns values that are ready now, a promise of the next ones, or null at the end. A batch has at most `max` values, or
   * more where values that became durable together must not be split; an empty batch is allowed, and still moves the position.
   * `read` is not called again before the promise has settled.
   */
  read(max: number): SourceBatch<T> | null | Promise<SourceBatch<T> | null>
  /** Existing partitions, including silent ones: a watermark waits for each of them until it is idle. */
  partitions(): readonly string[]
  /** A checkpoint with these positions was published: records before them are not read again. */
  published?(positions: Positions): Promise<void>
  /**
   * For a source that reads its own store's feed: history after this cursor is kept. It is written in the checkpoint's commit.
   */
  cursor?(positions: Positions): string
  close(): Promise<void>
}

/** The context of a task that lists partitions, before it is known which of them it reads. */
export interface PartitionsContext {
  readonly engine: Engine
  readonly pipeline: string
  readonly name: string
  /** Aborts when the run ends: a waiting read must settle then. */
  readonly signal: AbortSignal
}

export interface SourceContext extends PartitionsContext {
  /**
   * The only partitions that this reader may read and name, where several tasks share the source. Null: all of them, including
   * those that appear during the run.
   */
  readonly partitions: readonly string[] | null
}

/** The `decode` of a source returns this to skip a record that is not meant for pipelines. */
export const passedOver: unique symbol = Symbol('reprise.pipeline.passedOver')

export interface Source<T> {
  /**
   * The meaning of the source's positions: a source of another kind under the same name cannot resume from them, and is
   * refused. Default: a user's own source.
   */
  readonly kind?: string
  /** Decodes a record. A record on which it throws is a dead letter, and the others continue. */
  readonly decode?: (value: never) => T
  /** A second reader would take the source away from the first, so tools do not open it for inspection. */
  readonly isExclusive?: boolean
  /** The part of the store's own feed that it reads: a rollback there reports this pipeline. */
  readonly reads?: Reads
  /**
   * The partitions that exist now; called again while tasks run, to find new ones. A source with this method must observe
   * `context.partitions`, and several processes share it. Default: one task reads the whole source.
   */
  partitions?(context: PartitionsContext): Promise<readonly string[]>
  /** Opens the source after these positions; null: at the starting point that its options define for a first run. */
  open(from: Positions | null, context: SourceContext): Promise<SourceReader<T>>
}
