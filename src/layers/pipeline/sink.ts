// The contract of a sink with two phases. `cut` is called in the turn of the barrier: records written before it belong to the
// checkpoint, later ones do not. `cut` returns a function that prepares these records, so that `commit` cannot fail because of
// the pipeline; its result is stored in the checkpoint, and is all that is needed to commit after a crash. `commit` may be
// called twice with the same prepared data.

import { assert } from '../../core/assert.ts'
import type { Sql } from '../../core/store/ports.ts'
import type { Engine } from '../../engine/model/definition.ts'
import type { Batch } from './batch.ts'

/** Plain data. */
export type Prepared = unknown

/** The checkpoint of a cut. */
export interface CutId {
  readonly checkpoint: number
  /** The epoch of the pipeline's owner: with the checkpoint number, it identifies one attempt permanently. */
  readonly epoch: number
}

export interface SinkWriter {
  /** Takes the batch; a promise resolves when the sink can take more. */
  write(batch: Batch): void | Promise<void>
  /** The number of records that wait for a checkpoint. Many of them make one due. */
  readonly pending: number
  cut(id: CutId): () => Promise<Prepared>
  /** Writes rows that become visible in the very commit of the checkpoint. The call follows the preparation of the cut. */
  apply?(sql: Sql): Promise<void>
  /** The checkpoint is published: make the prepared records visible. */
  commit(prepared: Prepared): Promise<void>
  /**
   * The checkpoint will not be published: its records belong to the next one. If it took too long, preparation may still be
   * in progress.
   */
  rejoin(): void
  close(): Promise<void>
}

export interface SinkContext {
  readonly engine: Engine
  readonly pipeline: string
  readonly name: string
  /** For sinks with keys (`isKeyed`): derives the keys of records (run/record-origins.ts). */
  readonly origins?: {
    /** The number of records by source and partition. A checkpoint stores it, for `restore`. */
    readonly counts: Readonly<Record<string, number>>
    restore(counts: Readonly<Record<string, number>>): void
    /** The key of a record that arrives now. */
    keyOf(
      name: string,
      record: { readonly value: unknown; readonly time: number | null; readonly key: string | number | null },
    ): string
    /** Everything emitted during the call is caused by this record. */
    from(record: string | null, call: () => void): void
    published(checkpoint: number): void
  } | null
}

export interface Sink<T> {
  /** For type inference only. */
  readonly takes?: (value: T) => void
  /** Each result has an idempotency key: records are tracked from their source on. */
  readonly isKeyed?: boolean
  /** Runs in a commit of its own at the start of a run: creates the tables that `apply` writes to. */
  setup?(sql: Sql): Promise<unknown> | unknown
  /**
   * Opens the sink. `listed` is its prepared data in the newest checkpoint: commit it, and abort everything else that is open.
   */
  open(context: SinkContext, listed: Prepared | null): Promise<SinkWriter>
}

/** Records that wait for their checkpoint, and records that are cut for one: the state of most sinks. */
export class Waiting<T> {
  #written: T[] = []
  #cut: T[] = []

  get count(): number {
    return this.#written.length + this.#cut.length
  }

  get cutValues(): readonly T[] {
    return this.#cut
  }

  add(values: readonly unknown[]): void {
    for (const value of values) this.#written.push(value as T)
  }

  /** Only one checkpoint is in progress at a time. */
  cut(): readonly T[] {
    assert(this.#cut.length === 0, 'the cut of a checkpoint is settled or rejoined before the next cut')
    this.#cut = this.#written
    this.#written = []
    return this.#cut
  }

  settle(): void {
    this.#cut = []
  }

  rejoin(): void {
    if (this.#cut.length > 0) this.#written = [...this.#cut, ...this.#written]
    this.#cut = []
  }
}
