// The context of `each` and `eachBatch`. Cheap to create: the signal is created on first access.

import { checkObject, checkText } from '../../core/options.ts'
import type { Sql } from '../../core/store/ports.ts'
import { checkFunction } from '../../core/synchronous.ts'
import { type Logged, type LogPlace, logPlace } from '../../engine/base/log.ts'
import type { EffectCall, EffectOptions } from '../../engine/history/effects.ts'
import { behind, type LayerHost } from '../../engine/model/definition.ts'
import { type Recallable, recallingOf } from '../../engine/model/memo-protocol.ts'
import type { Shard } from './shard.ts'
import type { Task } from './task.ts'

export interface ItemContext extends Logged {
  /** The name of the job. */
  readonly job: string
  readonly key: string
  /** Counts from 1. */
  readonly attempt: number
  /**
   * Aborted when the attempt exceeds its timeout, when the job is stopped permanently, or when another owner takes the job
   * over.
   */
  readonly signal: AbortSignal
  /** The same for every attempt at this item in this version, also after a restore. Pass it to the outside system. */
  readonly idempotencyKey: string
  /** The attempt's traceparent (W3C Trace Context) if the job is traced (reprise/otel). Pass it to other programs. */
  readonly traceparent?: string | undefined
  /** A call to the outside with markers in history: never repeated once its outcome is recorded. */
  effect<R>(
    name: string,
    call: (effect: EffectCall) => Promise<R> | R,
    options?: Omit<EffectOptions<R>, 'id'>,
  ): Promise<R>
  /**
   * The result of a memo for these arguments, shared with other items, jobs and workflows, keyed by its inputs.
   * @example await store.save(await ctx.memo(summary, paper.text))
   */
  memo<Args extends readonly unknown[], Result>(definition: Recallable<Args, Result>, ...args: Args): Promise<Result>
  /**
   * Runs your SQL in the same transaction as the record that this item is done: both commit, or neither. It runs after
   * `each` has returned.
   */
  commit(userSql: (sql: Sql) => Promise<unknown> | unknown): void
}

export interface BatchContext<T> extends Logged {
  /** The name of the job. */
  readonly job: string
  readonly keys: readonly string[]
  readonly attempt: number
  readonly signal: AbortSignal
  /** The call's traceparent (W3C Trace Context) if the job is traced (reprise/otel). */
  readonly traceparent?: string | undefined
  /**
   * The result of a memo for these arguments, as in `each`. The memo records the batch as the caller: its first key,
   * and the number of further keys.
   * @example for (const paper of papers) await store.save(await ctx.memo(summary, paper.text))
   */
  memo<Args extends readonly unknown[], Result>(definition: Recallable<Args, Result>, ...args: Args): Promise<Result>
  /** Fails this item of the batch; the others are done if the function returns. */
  fail(item: T, error: unknown): void
  commit(userSql: (sql: Sql) => Promise<unknown> | unknown): void
}

const itemPlace: LogPlace = {
  fields: ({ job, key, attempt }: Pick<ItemContext, 'job' | 'key' | 'attempt'>) => ({ job, item: key, attempt }),
}

export const batchPlace: LogPlace = {
  fields: ({ job, keys, attempt }: Pick<BatchContext<unknown>, 'job' | 'keys' | 'attempt'>) => ({
    job,
    items: keys,
    attempt,
  }),
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

  get [logPlace](): LogPlace {
    return itemPlace
  }

  /** For adapters: the engine that executes the item. */
  get [behind](): LayerHost {
    return this.#engine
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
    checkText('the name of an effect', name)
    checkObject('the options of an effect', options)
    const id = `${name}/${this.#task.version}/${this.#task.key}`
    const key = this.#shard.effectKey(this.#task, name, options.input)
    const by = key === undefined ? { intent: [id], otherwise: ['id'] } : { key }
    return this.#shard.open.effects.run(name, call, { signal: this.signal, ...options, id }, by)
  }

  async memo<Args extends readonly unknown[], Result>(
    definition: Recallable<Args, Result>,
    ...args: Args
  ): Promise<Result> {
    return await recallFor(this.#engine, [this.#task], this.signal, definition, args)
  }

  commit(userSql: (sql: Sql) => Promise<unknown> | unknown): void {
    checkFunction(userSql, 'commit()')
    this.#task.userSqls ??= []
    this.#task.userSqls.push(userSql)
  }
}

/** Reads a memo on behalf of these tasks, which are one call. */
export async function recallFor<T, Args extends readonly unknown[], Result>(
  engine: LayerHost,
  tasks: readonly Task<T>[],
  signal: AbortSignal,
  definition: Recallable<Args, Result>,
  args: Args,
): Promise<Result> {
  const { key, shard } = tasks[0]!
  const step = tasks.length === 1 ? key : `${key} and ${tasks.length - 1} more`
  const request = { signal, asker: { ...shard.open.coordinate, step } }
  return (await recallingOf(definition).recall(engine, args, request)).result
}

/** Used only for traced runs. */
export class TracedContext<T> extends TaskContext<T> {
  readonly traceparent: string | undefined

  constructor(job: string, task: Task<T>, shard: Shard<Task<T>>, engine: LayerHost, traceparent: string | undefined) {
    super(job, task, shard, engine)
    this.traceparent = traceparent
  }
}
