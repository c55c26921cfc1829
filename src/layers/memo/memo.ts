// Caches results of functions, keyed by a digest of their inputs: name, version, arguments, declared files and environment. A
// key is computed by one process at a time, and every entry records the worker, the time and the inputs.

import type { TimelineId } from '../../core/coordinate.ts'
import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkGivenOptions, checkList, checkOptions, namesOf } from '../../core/options.ts'
import { callOnce, type RetryPolicy, resolveRetry } from '../../core/retry/retry.ts'
import { checkFunctions, refuseThenable } from '../../core/synchronous.ts'
import { Caller } from '../../engine/base/call-with-policy.ts'
import type { ByteSource } from '../../engine/checkpoint/chunk-writer.ts'
import type { Host } from '../../engine/host/host.ts'
import { checkName, type Entity, type OpenOptions, opens } from '../../engine/model/definition.ts'
import { type Asker, type Recallable, recalls } from '../../engine/model/memo-protocol.ts'
import { type Described, describes } from '../../engine/model/model.ts'
import type { StateTimeline } from '../../engine/writing/state-timeline.ts'
import { readStream } from '../../engine/writing/stored-value.ts'
import type { Envelope, MemoOutcome, Provenance, Remembered } from './entry.ts'
import type { Explanation } from './explain.ts'
import { FileDigests, type Look } from './files.ts'
import { argsPrint, isSteady, type Key, keyOf } from './key.ts'
import { checkRemembrance, type Judged, Remembering, type Remembrance } from './memo-entries.ts'
import { memoModel } from './model.ts'
import { Recent } from './recent-results.ts'

/** Byte streams are stored in chunks, and returned as a stream. */
export type MemoResult<Result> = Result extends ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>
  ? AsyncIterable<Uint8Array>
  : Result

export type MemoOptions<Args extends readonly unknown[], Result> = MemoSettings<Args, Result> &
  (
    | {
        readonly ttl: Duration
        /** For this long after `ttl`, the old result is returned at once while it is recomputed. */
        readonly stale?: Duration
      }
    | { readonly stale?: never }
  )

export interface MemoSettings<Args extends readonly unknown[], Result> extends Remembrance {
  readonly run: (...args: Args) => Result | Promise<Result>
  /** Change it when the results of `run` change: earlier results are then misses. */
  readonly version: string | number
  /** Identifies the arguments if they are unsuitable as a key: { id, updatedAt } of a large object. */
  readonly key?: (...args: Args) => unknown
  /** Input files, as patterns below `directory`: ['src/**', 'package.json']. */
  readonly inputs?: readonly string[] | ((...args: Args) => readonly string[])
  /** Root of the inputs. Default: the current working directory. */
  readonly directory?: string
  /** Environment variables that `run` reads. */
  readonly env?: readonly string[]
  /** Retries of `run` after a failure; `RetryLater` is always honoured. Default: none. */
  readonly retry?: RetryPolicy
  /** Memory for results in this process. Default: 16 MiB. */
  readonly cacheBytes?: number
}

const known = namesOf<MemoOptions<never, unknown>>()(
  'run version key inputs directory env ttl stale errors scope keep remote retry cacheBytes',
)

export interface MemoDefinition<Args extends readonly unknown[], Result>
  extends Entity<MemoHandle<Args, Result>, undefined>,
    Recallable<Args, MemoResult<Result>>,
    Described {
  readonly kind: 'memo'
  readonly name: string
  readonly prefix: string
}

const defaultCacheBytes = 16 * 1024 * 1024
const freshInMemoryMs = 1000
const reportedMax = 100
const noEnv = {}
/**
 * @example
 * const thumbnail = memo('thumbnail', { version: 1, inputs: (path: string) => [path], run: (path: string) => shrink(path) })
 * const thumbnails = await rp.open(thumbnail)
 * await thumbnails.call('cat.png')
 */
export function memo<Args extends readonly unknown[], Result>(
  name: string,
  options: MemoOptions<Args, Result>,
): MemoDefinition<Args, Result> {
  checkName('memo', name)
  checkGivenOptions(`memo ${name}`, options, known, { memoryBytes: 'cacheBytes' })
  checkMemo(name, options)
  const model = memoModel(name)
  const definition: MemoDefinition<Args, Result> = {
    [describes]: model,
    kind: 'memo',
    name,
    prefix: model.scope,
    [recalls]: {
      print: (host, args) => argsPrint((host as Host).kernel, name, keyedBy(options, args)),
      async recall(host, args, { signal, asker }) {
        const handle = await definition[opens](host as Host, undefined, {})
        const { result, from, entry, provenance } = await handle.recall(args, { signal, asker })
        return { result, shared: { entry, from, by: provenance.by, for: provenance.for } }
      },
    },
    async [opens](engine: Host, _id: undefined, _options: OpenOptions) {
      engine.declare(model)
      const kept = engine.once(this, (): { handle?: MemoHandle<Args, Result> } => ({}))
      if (!kept.handle || kept.handle.isClosed) kept.handle = new MemoHandle(engine, name, options)
      return kept.handle
    },
  }
  return definition
}

/** The part of the key that represents the arguments. */
function keyedBy<Args extends readonly unknown[]>(
  options: Pick<MemoOptions<Args, unknown>, 'key'>,
  args: Args,
): unknown {
  const key = options.key ? options.key(...args) : args
  refuseThenable(key, 'key of a memo', 'wait before the call, and pass the result as an argument')
  return key
}

function checkMemo(name: string, options: MemoOptions<never, unknown>): void {
  const refuse = (what: string) => {
    throw new RepriseError('INVALID_ARGUMENT', `memo ${name}: ${what}`, { name })
  }
  checkFunctions(`memo ${name}`, options, ['run'], Array.isArray(options.inputs) ? ['key'] : ['key', 'inputs'])
  const { version } = options
  if (!(typeof version === 'string' && version !== '') && !Number.isFinite(version)) {
    refuse('version must be text or a number; change it when the results of run change')
  }
  checkRemembrance(`memo ${name}`, options)
  resolveRetry(options.retry, callOnce)
  if (options.stale !== undefined) toMs(options.stale, `memo ${name}: stale`)
  if (options.stale !== undefined && options.ttl === undefined)
    refuse('stale needs a ttl: without one, results do not become stale')
}

/** A result and its source. */
export interface Recalled<Result> {
  readonly result: Result
  /** `stale`: expired, and being recomputed. `remote`: found in another level of the cache. */
  readonly from: 'memory' | 'store' | 'stale' | 'remote' | 'computed'
  /** The timeline that stores the result, or would store it. */
  readonly entry: TimelineId
  readonly provenance: Provenance
}

export interface RecallOptions {
  readonly signal?: AbortSignal
  /** Recomputes the result even if one is stored. */
  readonly refresh?: boolean
  /** The caller, for the provenance: the coordinate of a run. */
  readonly for?: string
  /** The same as passed by ctx.memo: the position of the run, and the step. */
  readonly asker?: Asker
}

const knownCall = namesOf<RecallOptions>()('signal refresh for asker')

/** A result in memory. Outcome and provenance are encoded separately, so a caller of `call` decodes only the outcome. */
interface Held {
  readonly timeline: TimelineId
  readonly outcome: Uint8Array
  readonly provenance: Uint8Array
  readonly computedAt: number
  readonly isFailure: boolean
}

export class MemoHandle<Args extends readonly unknown[], Result> {
  readonly name: string
  readonly #options: MemoOptions<Args, Result>
  readonly #files: FileDigests
  readonly #remembering: Remembering
  readonly #recent: Recent<Held>
  readonly #reported = new Set<string>()
  readonly #caller: Caller

  /** @internal */
  constructor(host: Host, name: string, options: MemoOptions<Args, Result>) {
    this.name = name
    this.#options = options
    this.#files = new FileDigests(options.directory ?? '.', host.limits)
    this.#remembering = new Remembering(host, `memo ${name}`, name, options, isFailure)
    const { clock, random } = host
    const ports = { clock, random, ending: this.#remembering.ending }
    this.#caller = new Caller(options.retry === undefined ? {} : { retry: options.retry }, ports, callOnce)
    this.#recent = new Recent(options.cacheBytes ?? defaultCacheBytes, freshInMemoryMs)
  }

  /** The result for these arguments: stored, or computed now and stored. */
  async call(...args: Args): Promise<MemoResult<Result>> {
    this.#remembering.check()
    const made = this.#key(args)
    const key = made instanceof Promise ? await made : made
    const held = this.#held(key, {})
    if (held) return this.#result(this.#kernel.codec.decode(held.outcome) as MemoOutcome, null)
    return (await this.#beyondMemory(key, args, {})).result
  }

  /** The same, with the source of the result. */
  async recall(args: Args, options: RecallOptions = {}): Promise<Recalled<MemoResult<Result>>> {
    this.#remembering.check()
    checkOptions(`memo ${this.name}`, options, knownCall)
    checkList('the arguments of recall()', args)
    const key = await this.#key(args)
    if (!options.refresh) {
      const held = this.#held(key, options)
      if (held) {
        const { codec } = this.#kernel
        const result = this.#result(codec.decode(held.outcome) as MemoOutcome, null)
        return {
          result,
          from: 'memory',
          entry: held.timeline,
          provenance: codec.decode(held.provenance) as Provenance,
        }
      }
    }
    return this.#beyondMemory(key, args, options)
  }

  /** The result in memory, recorded as used; null if there is no valid one. */
  #held(key: Key, options: RecallOptions): Held | null {
    const held = this.#recent.get(key.hex, this.#kernel.clock.elapsed())
    if (!held || this.#remembering.judgeAge(held.computedAt, held.isFailure) !== 'fresh') return null
    this.#remembering.used(held)
    this.#remembering.recalled('memory', options)
    return held
  }

  async #beyondMemory(key: Key, args: Args, options: RecallOptions): Promise<Recalled<MemoResult<Result>>> {
    if (!options.refresh) {
      const found = await this.#remembering.find(key)
      if (found) return this.#found(found, key, args, options)
    }
    const why = this.#remembering.whyMissed(key)
    const computed = await this.#compute(key, args, options).catch((error) => {
      this.#remembering.recalled('failed', options, why)
      throw error
    })
    this.#remembering.used(computed)
    const from = computed.envelope.origin ? 'remote' : 'computed'
    this.#remembering.recalled(from, options, from === 'computed' ? why : null)
    return this.#given(computed, from)
  }

  /** The stored result for these arguments, without computing; null if there is none. */
  async peek(...args: Args): Promise<Recalled<MemoResult<Result>> | null> {
    this.#remembering.check()
    const found = await this.#remembering.find(await this.#key(args))
    const from = found?.judged === 'stale' ? 'stale' : 'store'
    return found && this.#given(found.remembered, from)
  }

  /** Reports hit or miss, and the part of the key that differs from the most recently used result. Computes nothing. */
  async explain(...args: Args): Promise<Explanation> {
    this.#remembering.check()
    return await this.#remembering.explain(await this.#key(args))
  }

  /** Removes the stored result. True: there was one. */
  async forget(...args: Args): Promise<boolean> {
    this.#remembering.check()
    const key = await this.#key(args)
    this.#recent.forget(key.hex)
    return await this.#remembering.forget(key)
  }

  /** Waits for computations in progress. */
  close(): Promise<void> {
    return this.#remembering.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  get isClosed(): boolean {
    return this.#remembering.isClosed
  }

  /** The name of the definition. */
  get id(): string {
    return this.name
  }

  get #kernel() {
    return this.#remembering.host.kernel
  }

  #found({ remembered, judged }: Judged, key: Key, args: Args, options: RecallOptions) {
    this.#remembering.used(remembered)
    this.#remembering.recalled(judged === 'fresh' ? 'store' : 'stale', options)
    if (judged === 'fresh') {
      this.#keep(key, remembered)
      return this.#given(remembered, 'store')
    }
    // No caller waits for it; `close` does.
    this.#compute(key, args, options).catch((error) => this.#remembering.problem(error))
    return this.#given(remembered, 'stale')
  }

  /** Synchronous if there are no files to scan. */
  #key(args: Args): Key | Promise<Key> {
    const { inputs } = this.#options
    const patterns = typeof inputs === 'function' ? inputs(...args) : inputs
    refuseThenable(patterns, `inputs of memo ${this.name}`, 'name the files from the arguments alone')
    if (patterns !== undefined && !Array.isArray(patterns)) {
      throw new RepriseError('INVALID_ARGUMENT', `memo ${this.name}: inputs must be a list of patterns`, {
        name: this.name,
      })
    }
    return patterns ? this.#keyWithFiles(args, patterns) : this.#keyOf(args, null)
  }

  async #keyWithFiles(args: Args, patterns: readonly string[]): Promise<Key> {
    const look = await this.#files.look(patterns)
    this.#reportUnmatched(this.#files.unmatched)
    return this.#keyOf(args, look)
  }

  #keyOf(args: Args, look: Look | null): Key {
    const { version, env } = this.#options
    return keyOf(this.#kernel, {
      name: this.name,
      version: String(version),
      args: keyedBy(this.#options, args),
      files: look,
      look: look?.signature ?? '',
      env: env ? Object.fromEntries(env.map((name) => [name, process.env[name]])) : noEnv,
    })
  }

  /** Reports each pattern once: a pattern that matches nothing is most likely a typo. */
  #reportUnmatched(patterns: readonly string[]): void {
    for (const pattern of patterns) {
      if (this.#reported.has(pattern) || this.#reported.size >= reportedMax) continue
      this.#reported.add(pattern)
      const what = `memo ${this.name}: no file matches the input ${pattern}`
      this.#remembering.problem(new RepriseError('INVALID_ARGUMENT', what, { pattern }))
    }
  }

  #compute(key: Key, args: Args, options: RecallOptions): Promise<Remembered> {
    return this.#remembering.compute(key, options, (id, taken) => this.#run(id, taken, key, args, options))
  }

  async #run(id: TimelineId, taken: StateTimeline, key: Key, args: Args, options: RecallOptions): Promise<Remembered> {
    const kernel = this.#kernel
    const parts = await key.parts()
    const started = kernel.clock.elapsed()
    let outcome: MemoOutcome
    let source: ByteSource | null = null
    try {
      const result = await this.#caller.call(async () => await this.#options.run(...args))
      source = isStream(result) ? result : null
      outcome = source ? { kind: 'bytes' } : { kind: 'value', value: result }
    } catch (error) {
      // A call that `close` ended between two attempts is not a failure of these arguments.
      if (this.#options.errors === undefined || this.#remembering.ending.aborted) throw error
      const { name, message } = error instanceof Error ? error : new Error(String(error))
      outcome = { kind: 'error', name, message }
    }
    const by = await kernel.worker.register()
    const envelope = (): Envelope => ({
      parts,
      computedAt: kernel.clock.now(),
      tookMs: Math.round(kernel.clock.elapsed() - started),
      by,
      for: options.for ?? (options.asker ? askerWords(options.asker) : null),
      ...(options.asker && { asker: options.asker }),
      outcome,
    })
    const isSame = async () => isSteady(key, await this.#key(args))
    const problem = (error: unknown) => this.#remembering.problem(error)
    const computed = { id, envelope, source, isReadOnce: source !== null, isSteady: isSame, problem }
    const published = await this.#remembering.publish(key, taken, computed)
    if (published.isStored) this.#keep(key, published)
    return published
  }

  #keep(key: Key, { envelope, stream, timeline }: Remembered): void {
    if (stream) return
    const { codec, clock } = this.#kernel
    const { outcome: plain, ...about } = envelope
    const [outcome, provenance] = [codec.encode(plain), codec.encode(about)]
    const held = { timeline, outcome, provenance, computedAt: about.computedAt, isFailure: isFailure(envelope) }
    this.#recent.put(key.hex, held, outcome.length + provenance.length, clock.elapsed())
  }

  #given(
    { envelope, stream, timeline }: Pick<Remembered, 'envelope' | 'stream' | 'timeline'>,
    from: Recalled<unknown>['from'],
  ): Recalled<MemoResult<Result>> {
    const { outcome, ...provenance } = envelope
    return { result: this.#result(outcome, stream), from, entry: timeline, provenance }
  }

  #result(outcome: MemoOutcome, stream: Remembered['stream']): MemoResult<Result> {
    if (outcome.kind === 'error') throw Object.assign(new Error(outcome.message), { name: outcome.name })
    return (outcome.kind === 'bytes' ? readStream(this.#kernel, stream) : outcome.value) as MemoResult<Result>
  }
}

function isFailure({ outcome }: Envelope): boolean {
  return outcome.kind === 'error'
}

/** @example 'workflow/checkout/order-42@17 thumbnail' */
function askerWords({ timeline, seq, step }: Asker): string {
  return `${timeline}@${seq} ${step}`
}

function isStream(value: unknown): value is Exclude<ByteSource, Uint8Array> {
  if (typeof value !== 'object' || value === null) return false
  return Symbol.asyncIterator in value || value instanceof ReadableStream
}
