// The contract of a sink with two phases. `cut` is called in the turn of the barrier: what was written before it belongs to
// the checkpoint, what comes after does not. The function it gives makes that part ready, so that `commit` cannot fail for
// reasons of ours; what it resolves to is kept in the checkpoint, and is all that is needed to commit after a crash.
// `commit` may be asked twice for the same.

import { assert } from '../../core/assert.ts'
import type { Sql } from '../../core/store/ports.ts'
import type { Engine } from '../../engine/model/definition.ts'
import type { Batch } from './batch.ts'

/** Plain data. */
export type Prepared = unknown

/** Which checkpoint a cut is for. */
export interface CutId {
  readonly checkpoint: number
  /** Of the pipeline's owner: with the number, it names one attempt for good. */
  readonly epoch: number
}

export interface SinkWriter {
  /** Takes what it is given, or says when it can take more. */
  write(batch: Batch): void | Promise<void>
  /** Records that wait for a checkpoint. Many of them make one due. */
  readonly pending: number
  cut(id: CutId): () => Promise<Prepared>
  /** Rows that become visible in the very commit of the checkpoint. Asked after the cut was prepared. */
  apply?(sql: Sql): Promise<void>
  /** The checkpoint is published: make it visible. */
  commit(prepared: Prepared): Promise<void>
  /**
   * The checkpoint will not be published: what was cut for it belongs to the next one. Where it took too long, what makes that
   * part ready may still be under way.
   */
  rejoin(): void
  close(): Promise<void>
}

export interface SinkContext {
  readonly engine: Engine
  readonly pipeline: string
  readonly name: string
  /** Of sinks with keys (`isKeyed`): derives the keys of records (run/origins.ts). */
  readonly origins?: {
    /** By source and partition: how many records came. What a checkpoint keeps, for `restore`. */
    readonly counts: Readonly<Record<string, number>>
    restore(counts: Readonly<Record<string, number>>): void
    /** Of a record that arrives now. */
    keyOf(
      name: string,
      record: { readonly value: unknown; readonly time: number | null; readonly key: string | number | null },
    ): string
    /** All that flows during the call comes from this record. */
    from(record: string | null, call: () => void): void
    published(checkpoint: number): void
  } | null
}

export interface Sink<T> {
  /** For the compiler only. */
  readonly takes?: (value: T) => void
  /** Each result has an idempotency key: records are followed from their source on. */
  readonly isKeyed?: boolean
  /** Run in a commit of its own when a run begins: makes the tables that `apply` writes to. */
  setup?(sql: Sql): Promise<unknown> | unknown
  /** `listed` is what the newest checkpoint has of this sink: commit it. Whatever else is open outside is given up. */
  open(context: SinkContext, listed: Prepared | null): Promise<SinkWriter>
}

/** Records that wait for their checkpoint, and those that are cut for one: what most sinks keep. */
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

  /** One checkpoint is under way at a time. */
  cut(): readonly T[] {
    assert(this.#cut.length === 0, 'what was cut for a checkpoint is settled or rejoined before the next cut')
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
