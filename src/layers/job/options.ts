// The options of a job, checked when it is defined, so that a mistake shows at the definition and not during a run.

import { type CheckpointPolicy, checkPolicy } from '../../core/checkpoint/checkpoint-policy.ts'
import { type RetentionPolicy, resolveRetention } from '../../core/checkpoint/retention.ts'
import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import {
  type Allowed,
  aFunction,
  aNumber,
  checkCount,
  checkGivenOptions,
  checkOptions,
  checkValues,
  namesOf,
} from '../../core/options.ts'
import { type BreakerSettings, resolveBreaker } from '../../core/retry/breaker.ts'
import type { CallPolicy } from '../../core/retry/call-policy.ts'
import { type RatePolicy, type RateSettings, resolveRate } from '../../core/retry/rate.ts'
import { type ResolvedRetry, resolveRetry } from '../../core/retry/retry.ts'
import { refuseThenable } from '../../core/synchronous.ts'
import type { Reads } from '../../engine/branch/consumers.ts'
import type { BatchContext, ItemContext } from './context.ts'
import { type JobSource, type SourceLike, toSource } from './source.ts'

export interface JobSettings<T> extends CallPolicy {
  /**
   * Identifies an item: it is processed once and then skipped. Optional if items are text or numbers, or the source has
   * keys.
   */
  readonly key?: (item: T) => string | number
  /**
   * The version of an item (a function) or of the job's code (a value). An item finished in another version is
   * processed again.
   */
  readonly version?: string | number | ((item: T) => string | number)
  /** The number of items in flight in this process, and thus the maximum that a crash repeats. Default: 1. */
  readonly concurrency?: number
  /**
   * 'kept': one item after another in the source's order; a failing item blocks the rest until it is settled. Default:
   * 'any'.
   */
  readonly order?: 'kept' | 'any'
  /** Shared by all processes on the job. */
  readonly rate?: RatePolicy
  /** How often an item may be in flight when the process dies before it becomes a dead letter. Default: 5. */
  readonly crashesMax?: number
  /**
   * Keep the result of `each` in history: exportProgress and `reprise export JOB - --progress` return it with the key.
   * Default: false.
   */
  readonly results?: boolean
  /**
   * The number of parts that the keys are divided into; as many processes can share the work. Fixed once the job has
   * run. Default: 1.
   */
  readonly shards?: number
  /** How long stop() waits for items in flight. Default: 30 seconds. */
  readonly grace?: Duration
  readonly checkpoint?: CheckpointPolicy
  readonly retain?: RetentionPolicy
}

export interface JobEach<T, Result = unknown> {
  /** Processes one item. Once it resolves and its record is durable, the item is never processed again. */
  readonly each: (item: T, context: ItemContext) => Promise<Result> | Result
  readonly eachBatch?: undefined
  readonly batch?: undefined
}

export interface JobEachBatch<T> {
  readonly each?: undefined
  /** Processes several items at once, in place of `each`. */
  readonly eachBatch: (items: readonly T[], context: BatchContext<T>) => Promise<unknown> | unknown
  readonly batch?: { readonly size?: number; readonly wait?: Duration }
}

/** Items are processed one at a time (`each`) or in batches (`eachBatch`). */
export type JobOptions<T, Result = unknown> = JobSettings<T> & { readonly source: SourceLike<T> } & (
    | JobEach<T, Result>
    | JobEachBatch<T>
  )

export interface ResolvedJob<T> {
  readonly name: string
  readonly source: JobSource<T>
  readonly key: ((item: T) => string | number) | null
  readonly version: ((item: T) => string) | null
  readonly each: ((item: T, context: ItemContext) => unknown) | null
  readonly eachBatch: ((items: readonly T[], context: BatchContext<T>) => unknown) | null
  readonly batchSize: number
  readonly batchWaitMs: number
  readonly concurrency: number
  readonly isOrderKept: boolean
  readonly rate: RateSettings | null
  readonly retry: ResolvedRetry
  readonly crashesMax: number
  readonly timeoutMs: number | null
  readonly breaker: BreakerSettings | null
  readonly keepsResults: boolean
  readonly shards: number
  readonly graceMs: number
  /** The name of the stored cursor. Keys behind the cursor are dropped. */
  readonly cursorName: string | null
  /** For a consumer: the scopes that it reads from the feed, stored with its timeline for rollbacks. */
  readonly reads: Reads | null
}

const known = namesOf<JobSettings<unknown> & JobEachBatch<unknown> & { source: unknown }>()(
  'source key version each eachBatch batch concurrency order crashesMax results shards grace checkpoint retain retry timeout rate breaker',
)
const concurrencyMax = 100_000
const shardsMax = 256

const isVersion = (value: unknown) => typeof value === 'string' || Number.isFinite(value)
const values: Readonly<Record<string, readonly Allowed[]>> = {
  order: ['kept', 'any'],
  key: [aFunction],
  version: [['a string', (value) => typeof value === 'string'], aNumber, aFunction],
  each: [aFunction],
  eachBatch: [aFunction],
  results: [['true or false', (value) => typeof value === 'boolean']],
}

export function resolveJob<T>(name: string, options: JobOptions<T>): ResolvedJob<T> {
  checkGivenOptions(`job ${name}`, options, known, { rateLimit: 'rate' })
  checkValues(`job ${name}`, options, values)
  const { concurrency = 1, shards = 1, crashesMax = 5, version, order = 'any', batch = {} } = options
  const check = (isRight: boolean, what: string) => {
    if (!isRight) throw new RepriseError('INVALID_ARGUMENT', `job ${name}: ${what}`, { job: name })
  }
  check((options.each === undefined) !== (options.eachBatch === undefined), 'it must have either each or eachBatch')
  check(options.batch === undefined || options.eachBatch !== undefined, 'batch must come with eachBatch')
  checkCount(`job ${name}: concurrency`, concurrency, 1, concurrencyMax)
  checkCount(`job ${name}: shards`, shards, 1, shardsMax)
  check(!(order === 'kept' && concurrency > 1), "order: 'kept' must have a concurrency of 1: omit it")
  check(!(order === 'kept' && shards > 1), "order: 'kept' must have one shard")
  const source = toSource(options.source)
  check(!(source.acknowledges && shards > 1), 'the source acknowledges messages: omit shards, and raise concurrency')
  checkOptions(`job ${name}: batch`, batch, new Set(['size', 'wait']))
  checkCount(`job ${name}: batch.size`, batch.size ?? 100, 1, concurrencyMax)
  checkCount(`job ${name}: crashesMax`, crashesMax)
  if (options.checkpoint) checkPolicy(options.checkpoint)
  if (options.retain) resolveRetention(options.retain)
  return {
    name,
    source,
    key: options.key ?? null,
    version:
      version === undefined
        ? null
        : typeof version === 'function'
          ? (item) => versionOf(version, item)
          : () => String(version),
    each: options.each ?? null,
    eachBatch: options.eachBatch ?? null,
    batchSize: options.eachBatch ? (batch.size ?? 100) : 1,
    batchWaitMs: toMs(batch.wait ?? '1s', 'batch.wait'),
    concurrency,
    isOrderKept: order === 'kept',
    rate: options.rate ? resolveRate(options.rate) : null,
    retry: resolveRetry(options.retry),
    crashesMax,
    timeoutMs: options.timeout === undefined ? null : toMs(options.timeout, 'timeout'),
    breaker: resolveBreaker(options.breaker ?? false),
    keepsResults: options.results ?? false,
    shards,
    graceMs: toMs(options.grace ?? '30s', 'grace'),
    cursorName: null,
    reads: null,
  }
}

/** Versions are compared as text, and every promise has the same text, so promises are refused. */
function versionOf<T>(version: (item: T) => string | number, item: T): string {
  const given = version(item)
  refuseThenable(given, 'version of a job', 'compute it from the item alone')
  if (isVersion(given)) return String(given)
  const got = given === null ? 'null' : typeof given
  const what = `the version of an item must be a string or a finite number (got ${got}): for a date, use its time`
  throw new RepriseError('INVALID_ARGUMENT', what, { got })
}
