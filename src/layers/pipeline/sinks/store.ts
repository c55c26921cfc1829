// Writes results to Reprise tables and timelines, exactly once. Results are stored in the checkpoint and written right after
// it is published, together with a note of that checkpoint: a repeated write after a crash finds the note and is skipped.

import { RepriseError } from '../../../core/errors.ts'
import { checkOptions, namesOf } from '../../../core/options.ts'
import { checkFunctions, type Nothing, refuseThenable } from '../../../core/synchronous.ts'
import { type Host, hostOf } from '../../../engine/host/host.ts'
import type { Entity } from '../../../engine/model/definition.ts'
import type { Batch } from '../batch.ts'
import { type CutId, type Prepared, type Sink, type SinkContext, type SinkWriter, Waiting } from '../sink.ts'

/** The part of a table that the sink uses: `table`, `pagedTable`. */
export interface TableTarget<Tx> {
  transaction(run: (tx: Tx) => void): Promise<unknown>
  offset(source: string): string | number | undefined
  close(): Promise<void>
}

export interface TableSinkTx {
  offset(source: string): string | number | undefined
  advance(source: string, offset: number): void
}

export interface TableSinkOptions<T, Tx extends TableSinkTx> {
  /** A table, or a partition of a state store. This process owns it while the pipeline runs. */
  readonly table: Entity<TableTarget<Tx>>
  /** The id, for a definition with several tables. */
  readonly id?: string
  /** Changes rows for one result, synchronously. */
  write(tx: Tx, value: T): Nothing
}

/** The part of a timeline that the sink uses. */
export interface TimelineTarget<E> {
  append(entries: readonly E[], options: { readonly key: string }): Promise<unknown>
  close(): Promise<void>
}

export interface TimelineSinkOptions<T, E extends { readonly type: string }> {
  /** The sink opens it as shared: other processes may write to the same timelines. */
  readonly timeline: Entity<TimelineTarget<E>, string>
  /** The id of the timeline for a result. */
  id(value: T): string
  entry(value: T): E
}

const waitBefore = 'use call() before the sink'

/** The number of entries per append: each append has a key and is atomic. */
const entriesPerAppend = 1000
/** The maximum number of open timelines. */
const openMax = 100

/** @example tableSink({ table: totals, write: (tx, t: Total) => tx.set(t.key, t.value) }) */
export function tableSink<T, Tx extends TableSinkTx>(options: TableSinkOptions<T, Tx>): Sink<T> {
  checkOptions('tableSink', options, namesOf<TableSinkOptions<never, never>>()('table id write'))
  checkFunctions('tableSink', options, ['write'])
  return {
    async open(context, listed) {
      const table = await hostOf(context.engine).open(options.table, options.id)
      const source = `${context.pipeline}/${context.name}`
      const apply = async ({ checkpoint, values }: Kept<T>) => {
        await table.transaction((tx) => {
          const done = tx.offset(source)
          if (typeof done === 'number' && done >= checkpoint) return
          for (const value of values) refuseThenable(options.write(tx, value), 'write of tableSink()', waitBefore)
          tx.advance(source, checkpoint)
        })
      }
      return await KeptWriter.open<T>(apply, () => table.close(), listed)
    },
  }
}

/** @example timelineSink({ timeline: journal, id: (t: Total) => t.key, entry: (t) => ({ type: 'totalled', cents: t.value }) }) */
export function timelineSink<T, E extends { readonly type: string }>(options: TimelineSinkOptions<T, E>): Sink<T> {
  checkOptions('timelineSink', options, namesOf<TimelineSinkOptions<never, never>>()('timeline id entry'))
  checkFunctions('timelineSink', options, ['id', 'entry'])
  return {
    async open(context, listed) {
      const open = new OpenTargets<E>(hostOf(context.engine), options.timeline)
      const apply = (kept: Kept<T>) => appendAll(kept, open, options, context)
      return await KeptWriter.open<T>(apply, () => open.close(), listed)
    },
  }
}

async function appendAll<T, E extends { readonly type: string }>(
  { checkpoint, values }: Kept<T>,
  open: OpenTargets<E>,
  options: TimelineSinkOptions<T, E>,
  { pipeline, name }: SinkContext,
): Promise<void> {
  const byTimeline = new Map<string, E[]>()
  for (const value of values) {
    const id = options.id(value)
    const entry = options.entry(value)
    refuseThenable(id, 'id of timelineSink()', waitBefore)
    refuseThenable(entry, 'entry of timelineSink()', waitBefore)
    const entries = byTimeline.get(id)
    if (entries) entries.push(entry)
    else byTimeline.set(id, [entry])
  }
  for (const [id, entries] of byTimeline) {
    const timeline = await open.get(id)
    for (let at = 0; at < entries.length; at += entriesPerAppend) {
      const key = `${pipeline}/${name}/${checkpoint}/${at}`
      await timeline.append(entries.slice(at, at + entriesPerAppend), { key })
    }
  }
}

/** The results of one checkpoint, as stored in it. */
interface Kept<T> {
  readonly checkpoint: number
  readonly values: readonly T[]
}

class KeptWriter<T> implements SinkWriter {
  readonly #apply: (kept: Kept<T>) => Promise<void>
  readonly #leave: () => Promise<void>
  readonly #waiting = new Waiting<T>()

  private constructor(apply: (kept: Kept<T>) => Promise<void>, leave: () => Promise<void>) {
    this.#apply = apply
    this.#leave = leave
  }

  static async open<T>(
    apply: (kept: Kept<T>) => Promise<void>,
    leave: () => Promise<void>,
    listed: Prepared | null,
  ): Promise<KeptWriter<T>> {
    const writer = new KeptWriter<T>(apply, leave)
    try {
      await writer.commit(listed)
    } catch (error) {
      await leave().catch(() => undefined)
      throw error
    }
    return writer
  }

  get pending(): number {
    return this.#waiting.count
  }

  write(batch: Batch): void {
    this.#waiting.add(batch.values)
  }

  cut({ checkpoint }: CutId): () => Promise<Prepared> {
    const values = this.#waiting.cut()
    return async () => (values.length === 0 ? null : ({ checkpoint, values } satisfies Kept<T>))
  }

  async commit(prepared: Prepared): Promise<void> {
    this.#waiting.settle()
    if (prepared === null || prepared === undefined) return
    const kept = prepared as Kept<T>
    if (!Number.isSafeInteger(kept.checkpoint) || !Array.isArray(kept.values)) {
      throw new RepriseError('INVALID_ARGUMENT', 'the writes of the checkpoint were prepared by another kind of sink')
    }
    await this.#apply(kept)
  }

  rejoin(): void {
    this.#waiting.rejoin()
  }

  close(): Promise<void> {
    return this.#leave()
  }
}

/** Keeps the most recently used timelines open. */
class OpenTargets<E> {
  readonly #host: Host
  readonly #definition: Entity<TimelineTarget<E>, string>
  readonly #open = new Map<string, TimelineTarget<E>>()

  constructor(host: Host, definition: Entity<TimelineTarget<E>, string>) {
    this.#host = host
    this.#definition = definition
  }

  async get(id: string): Promise<TimelineTarget<E>> {
    const known = this.#open.get(id)
    const target = known ?? (await this.#host.open(this.#definition as Entity<TimelineTarget<E>>, id, { shared: true }))
    this.#open.delete(id)
    this.#open.set(id, target)
    const [oldest] = this.#open.keys()
    if (this.#open.size > openMax) {
      await this.#open.get(oldest!)!.close()
      this.#open.delete(oldest!)
    }
    return target
  }

  async close(): Promise<void> {
    for (const target of this.#open.values()) await target.close()
    this.#open.clear()
  }
}
