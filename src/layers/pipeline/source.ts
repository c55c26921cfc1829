// The contract of a source. A source gives batches, each from one partition, each with the position behind it. A position is
// plain data; opened at it again, the source gives exactly what follows. That is all that exactly-once needs of a source.

import type { Reads } from '../../engine/branch/consumers.ts'
import type { Engine } from '../../engine/model/definition.ts'

/** By partition. A source without partitions calls its only one ''. */
export type Positions = ReadonlyMap<string, unknown>

export interface SourceBatch<T> {
  readonly partition: string
  readonly values: readonly T[]
  /** Behind the last value. Plain data; it is stored with every checkpoint. */
  readonly position: unknown
  /**
   * The name of each value, in idempotency keys. Default: its number in its partition, which is the same whenever the source is
   * read again. A source whose order may differ in another copy of it (the feed of a restored store) names its values.
   */
  readonly names?: readonly string[]
  /**
   * The system outside keeps more and more until it hears of this position: a checkpoint is due, also without a record.
   * Seldom, please: a checkpoint of its own may be what the source reads next.
   */
  readonly isDue?: boolean
}

export interface SourceReader<T> {
  /**
   * What is ready now, a promise of what comes next, or null at the end. At most `max` values, more only where what became
   * durable together must not be cut; none is allowed, and still moves the position. Not called again before the promise has
   * settled.
   */
  read(max: number): SourceBatch<T> | null | Promise<SourceBatch<T> | null>
  /** Partitions that exist, also those that are silent: a watermark waits for each of them, until it is idle. */
  partitions(): readonly string[]
  /** A checkpoint with these positions was published: what lies before them is not asked for again. */
  published?(positions: Positions): Promise<void>
  /** For what reads the feed of its own store: history after this position is kept. It goes with the checkpoint's commit. */
  cursor?(positions: Positions): string
  close(): Promise<void>
}

/** Who asks for the partitions of a source: a task, before it is known which of them it reads. */
export interface PartitionsContext {
  readonly engine: Engine
  readonly pipeline: string
  readonly name: string
  /** Fires when the run ends: a read that waits must settle then. */
  readonly signal: AbortSignal
}

export interface SourceContext extends PartitionsContext {
  /**
   * The only partitions that this reader may read and name, where several tasks share the source. Null: all of them, and
   * those that appear while it runs.
   */
  readonly partitions: readonly string[] | null
}

/** Returned by the `decode` of a source for a record that is not meant for pipelines. */
export const passedOver: unique symbol = Symbol('reprise.pipeline.passedOver')

export interface Source<T> {
  /**
   * What its positions mean: another kind under the same name cannot resume from them, and is refused. Default: a source of the
   * user's own.
   */
  readonly kind?: string
  /** What a record that was read means. One on which it throws is a dead letter, and the others go on. */
  readonly decode?: (value: never) => T
  /** A second reader would take it away from the first: it is not opened to look at what it has. */
  readonly isExclusive?: boolean
  /** What it reads of the store's own feed: who rolls that back is told of the pipeline. */
  readonly reads?: Reads
  /**
   * The partitions that exist now; asked again while tasks run, so that those that appear are found. A source that has it
   * heeds `context.partitions`, and several processes share it. Left out: one task reads all of it.
   */
  partitions?(context: PartitionsContext): Promise<readonly string[]>
  /** Opens it behind these positions; null: where its options say that a first run begins. */
  open(from: Positions | null, context: SourceContext): Promise<SourceReader<T>>
}
