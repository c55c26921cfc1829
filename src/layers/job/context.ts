// What the user's function is given beside the item. Cheap to make: the signal exists once it is asked for.

import type { Sql } from '../../core/store/ports.ts'
import type { EffectCall, EffectOptions } from '../../engine/history/effects.ts'
import type { LayerHost } from '../../engine/model/definition.ts'
import { type Recallable, recallingOf } from '../../engine/model/memo-protocol.ts'
import type { Shard } from './shard.ts'
import type { Task } from './task.ts'

export interface ItemContext {
  /** The name of the job. */
  readonly job: string
  readonly key: string
  /** 1 for the first. */
  readonly attempt: number
  /**
   * Aborted when the attempt takes longer than its timeout, when the job is stopped for good, or when it is lost to
   * another owner.
   */
  readonly signal: AbortSignal
  /** The same for every attempt at this item in this version, also after a restore: hand it to the outside system. */
  readonly idempotencyKey: string
  /** Of this attempt, as W3C Trace Context writes it, where it is traced (reprise/otel): hand it to programs elsewhere. */
  readonly traceparent?: string | undefined
  /** A call to the outside with markers around it in history: never repeated once its outcome is recorded. */
  effect<R>(
    name: string,
    call: (effect: EffectCall) => Promise<R> | R,
    options?: Omit<EffectOptions<R>, 'id'>,
  ): Promise<R>
  /**
   * The result of a memo for these arguments, shared with other items, jobs and workflows by what it was computed from.
   * @example await store.save(await ctx.memo(summary, paper.text))
   */
  memo<Args extends readonly unknown[], Result>(definition: Recallable<Args, Result>, ...args: Args): Promise<Result>
  /** Your SQL in the same transaction as the record that this item is done: both or neither. Runs when `each` has returned. */
  commit(userSql: (sql: Sql) => Promise<unknown> | unknown): void
}

export interface BatchContext<T> {
  /** The name of the job. */
  readonly job: string
  readonly keys: readonly string[]
  readonly attempt: number
  readonly signal: AbortSignal
  /** Of this call, as W3C Trace Context writes it, where it is traced (reprise/otel). */
  readonly traceparent?: string | undefined
  /**
   * The result of a memo for these arguments, as in `each`. Who asked is the batch: its first key, and how many more.
   * @example for (const paper of papers) await store.save(await ctx.memo(summary, paper.text))
   */
  memo<Args extends readonly unknown[], Result>(definition: Recallable<Args, Result>, ...args: Args): Promise<Result>
  /** This one of the batch failed; the others are done if the function returns. */
  fail(item: T, error: unknown): void
  commit(userSql: (sql: Sql) => Promise<unknown> | unknown): void
}

export class TaskContext<T> implements ItemContext {
  readonly job: string
  readonly #task: Task<T>
  readonly #shard: Shard<Task<T>>
  readonly #engine: LayerHost

  constructor(job: string, task: Task<T>, shard: Shard<Task<T>>, engine: LayerHost) {
    this.job = job
    this.#task = task
    this.#shard = shard
    this.#engine = engine
  }

  get key(): string {
    return this.#task.key
  }

  get attempt(): number {
    return this.#task.attempts + 1
  }

  get signal(): AbortSignal {
    return this.#task.signal
  }

  get idempotencyKey(): string {
    return this.#shard.idempotencyKey(this.#task)
  }

  effect<R>(
    name: string,
    call: (effect: EffectCall) => Promise<R> | R,
    options: Omit<EffectOptions<R>, 'id'> = {},
  ): Promise<R> {
    const id = `${name}/${this.#task.version}/${this.#task.key}`
    const key = this.#shard.effectKey(this.#task, name, options.input)
    const by = key === undefined ? 'id' : { key }
    return this.#shard.open.effects.run(name, call, { signal: this.signal, ...options, id }, by)
  }

  async memo<Args extends readonly unknown[], Result>(
    definition: Recallable<Args, Result>,
    ...args: Args
  ): Promise<Result> {
    return await recallFor(this.#engine, [this.#task], this.signal, definition, args)
  }

  commit(userSql: (sql: Sql) => Promise<unknown> | unknown): void {
    this.#task.userSqls ??= []
    this.#task.userSqls.push(userSql)
  }
}

/** On behalf of these tasks, which are one call. */
export async function recallFor<T, Args extends readonly unknown[], Result>(
  engine: LayerHost,
  tasks: readonly Task<T>[],
  signal: AbortSignal,
  definition: Recallable<Args, Result>,
  args: Args,
): Promise<Result> {
  const { key, shard } = tasks[0]!
  const step = tasks.length === 1 ? key : `${key} and ${tasks.length - 1} more`
  const asked = { signal, asker: { ...shard.open.coordinate, step } }
  return (await recallingOf(definition).recall(engine, args, asked)).result
}

/** Made only while somebody traces. */
export class TracedContext<T> extends TaskContext<T> {
  readonly traceparent: string | undefined

  constructor(job: string, task: Task<T>, shard: Shard<Task<T>>, engine: LayerHost, traceparent: string | undefined) {
    super(job, task, shard, engine)
    this.traceparent = traceparent
  }
}
