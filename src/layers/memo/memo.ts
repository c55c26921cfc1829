// Results of functions, remembered by a digest of what they were computed from: name, version, arguments, declared files and
// environment. Equal keys are computed once, by one process at a time, and every entry says who computed it, when and from what.

import type { TimelineId } from '../../core/coordinate.ts'
import { type Duration, toMs } from '../../core/duration.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import type { ByteSource } from '../../engine/checkpoint/chunk-writer.ts'
import type { StateTimeline } from '../../engine/checkpoint/state-timeline.ts'
import { readStream } from '../../engine/checkpoint/stored-value.ts'
import { checkName, type Entity, type OpenOptions, opens } from '../../engine/definition.ts'
import type { Host } from '../../engine/host.ts'
import { type Described, describes } from '../../engine/model.ts'
import {
  type Envelope,
  entryId,
  mainScope,
  type Outcome,
  type Provenance,
  type Remembered,
  readEntry,
} from './entry.ts'
import { type Explanation, explain } from './explain.ts'
import { FileDigests } from './files.ts'
import { Flights } from './flight.ts'
import { type Key, keyOf } from './key.ts'
import { memoModel } from './model.ts'
import { publishEntry } from './publish.ts'
import { Recent } from './recent.ts'
import { forgetEntry, type MemoKeep, Pruner } from './retention.ts'
import { Uses } from './uses.ts'

/** Streams of bytes are kept in chunks, and come back as a stream. */
export type MemoResult<Result> = Result extends ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>
  ? AsyncIterable<Uint8Array>
  : Result

export interface MemoOptions<Args extends readonly unknown[], Result> {
  readonly run: (...args: Args) => Result | Promise<Result>
  /** Raise it when `run` changes what it gives: earlier results are no hits any more. */
  readonly version: string | number
  /** What identifies the arguments, where they themselves cannot: { id, updatedAt } of a large object. */
  readonly key?: (...args: Args) => unknown
  /** Files that it reads, as patterns below `directory`: ['src/**', 'package.json']. */
  readonly inputs?: readonly string[] | ((...args: Args) => readonly string[])
  /** Where the inputs lie; the working directory if left out. */
  readonly directory?: string
  /** Environment variables that it reads. */
  readonly env?: readonly string[]
  /** How long a result counts; for ever if left out. */
  readonly ttl?: Duration
  /** For so long after `ttl` the old result is given at once, while it is computed again. */
  readonly stale?: Duration
  /** Errors are kept for so long, and thrown again; not at all if left out. */
  readonly errors?: Duration
  /** Entries are written to this scope, and read from it and from `main`: what a pull request computes, main never reads. */
  readonly scope?: string
  /** What is forgotten by itself: unused for so long, or beyond so many bytes. */
  readonly keep?: MemoKeep
  /** What this process holds in memory; 16 MiB if left out. */
  readonly memoryBytes?: number
}

const known = namesOf<MemoOptions<never, unknown>>({
  run: true,
  version: true,
  key: true,
  inputs: true,
  directory: true,
  env: true,
  ttl: true,
  stale: true,
  errors: true,
  scope: true,
  keep: true,
  memoryBytes: true,
})

export interface MemoDefinition<Args extends readonly unknown[], Result>
  extends Entity<MemoHandle<Args, Result>, undefined>,
    Described {
  readonly kind: 'memo'
  readonly name: string
  readonly prefix: string
}

const scopeForm = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/
const defaultMemoryBytes = 16 * 1024 * 1024
const freshInMemoryMs = 1000
/** Clocks of two machines may differ by so much; a result from further ahead was made before the clock was set back. */
const clockSkewMs = 60_000

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
  checkOptions(`memo ${name}`, options, known)
  checkMemo(name, options)
  const model = memoModel(name)
  return {
    [describes]: model,
    kind: 'memo',
    name,
    prefix: model.scope,
    async [opens](engine: Host, _id: undefined, _options: OpenOptions) {
      engine.declare(model)
      return engine.once(this, () => new MemoHandle(engine, name, options))
    },
  }
}

function checkMemo(name: string, options: MemoOptions<never, unknown>): void {
  const refuse = (what: string) => {
    throw new RepriseError('INVALID_ARGUMENT', `memo ${name}: ${what}`, { name })
  }
  if (typeof options.run !== 'function') refuse('run must be a function')
  const { version, scope } = options
  if (!(typeof version === 'string' && version !== '') && !Number.isFinite(version)) {
    refuse('version must be a text or a number; change it when run gives something else than before')
  }
  if (scope !== undefined && !scopeForm.test(scope)) refuse('scope has letters, digits, dots, dashes and underscores')
  for (const field of ['ttl', 'stale', 'errors'] as const) {
    if (options[field] !== undefined) toMs(options[field], `memo ${name}: ${field}`)
  }
  if (options.stale !== undefined && options.ttl === undefined)
    refuse('stale needs a ttl: without one nothing grows old')
}

/** How a result was come by. */
export interface Recalled<Result> {
  readonly result: Result
  /** `stale`: it had grown old and is computed again meanwhile. */
  readonly from: 'memory' | 'store' | 'stale' | 'computed'
  readonly provenance: Provenance
}

export interface CallOptions {
  readonly signal?: AbortSignal
  /** Compute it again, whatever is there. */
  readonly refresh?: boolean
  /** Who asks, for the provenance: the coordinate of a run. */
  readonly for?: string
}

const knownCall = namesOf<CallOptions>({ signal: true, refresh: true, for: true })

export class MemoHandle<Args extends readonly unknown[], Result> {
  readonly name: string
  readonly #host: Host
  readonly #options: MemoOptions<Args, Result>
  readonly #files: FileDigests
  readonly #flights: Flights<Remembered>
  readonly #recent: Recent<Uint8Array>
  readonly #uses: Uses
  readonly #pruner: Pruner
  readonly #leave: () => void
  #isClosed = false

  constructor(host: Host, name: string, options: MemoOptions<Args, Result>) {
    this.name = name
    this.#host = host
    this.#options = options
    this.#files = new FileDigests(options.directory ?? '.', host.kernel.limits)
    this.#flights = new Flights(host.kernel)
    this.#recent = new Recent(options.memoryBytes ?? defaultMemoryBytes, freshInMemoryMs)
    this.#uses = new Uses(host)
    this.#pruner = new Pruner(host, `memo/${name}`, options.keep ?? {})
    this.#leave = host.onClose(() => this.close())
  }

  /** The result for these arguments: remembered, or computed now and remembered. */
  async call(...args: Args): Promise<MemoResult<Result>> {
    return (await this.recall(args)).result
  }

  /** The same, with where it came from. */
  async recall(args: Args, options: CallOptions = {}): Promise<Recalled<MemoResult<Result>>> {
    this.#check()
    checkOptions(`memo ${this.name}`, options, knownCall)
    const key = await this.#key(args)
    if (!options.refresh) {
      const kept = this.#recent.get(key.hex, this.#host.kernel.clock.elapsed())
      const envelope = kept && (this.#host.kernel.codec.decode(kept) as Envelope)
      if (envelope && this.#judge(envelope) === 'fresh') return this.#given(envelope, null, 'memory')
      const found = await this.#find(key)
      if (found) {
        this.#uses.note(found.remembered.timeline)
        if (found.judged === 'stale') {
          // Nobody waits for it; whoever closes does.
          this.#compute(key, args, options).catch((error) => this.#problem(error))
          return this.#given(found.remembered.envelope, found.remembered, 'stale')
        }
        this.#keep(key, found.remembered)
        return this.#given(found.remembered.envelope, found.remembered, 'store')
      }
    }
    const computed = await this.#compute(key, args, options)
    return this.#given(computed.envelope, computed, 'computed')
  }

  /** What is remembered for these arguments, without computing; null if nothing is. */
  async peek(...args: Args): Promise<Recalled<MemoResult<Result>> | null> {
    this.#check()
    const found = await this.#find(await this.#key(args))
    return (
      found && this.#given(found.remembered.envelope, found.remembered, found.judged === 'fresh' ? 'store' : 'stale')
    )
  }

  /** Hit or miss, and which part of the key is another than in the result that was last used. Computes nothing. */
  async explain(...args: Args): Promise<Explanation> {
    this.#check()
    const key = await this.#key(args)
    return await explain(this.#host, this.name, this.#scopes, key, (envelope) => this.#judge(envelope))
  }

  /** True: there was one. */
  async forget(...args: Args): Promise<boolean> {
    this.#check()
    const { hex } = await this.#key(args)
    this.#recent.forget(hex)
    return await forgetEntry(this.#host, entryId(this.name, this.#scope, hex))
  }

  /** Waits for what is being computed. */
  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#leave()
    await this.#flights.settled()
    await Promise.all([this.#uses.flush(), this.#pruner.settled()])
  }

  get #scope(): string {
    return this.#options.scope ?? mainScope
  }

  get #scopes(): readonly string[] {
    return this.#scope === mainScope ? [mainScope] : [this.#scope, mainScope]
  }

  #check(): void {
    this.#host.check()
    if (this.#isClosed) throw new RepriseError('CLOSED', `memo ${this.name} was closed`, { name: this.name })
  }

  async #key(args: Args): Promise<Key> {
    const { key, version, inputs, env = [] } = this.#options
    const patterns = typeof inputs === 'function' ? inputs(...args) : inputs
    return keyOf(this.#host.kernel, {
      name: this.name,
      version: String(version),
      args: key ? key(...args) : args,
      files: patterns ? await this.#files.of(patterns) : {},
      env: Object.fromEntries(env.map((name) => [name, process.env[name]])),
    })
  }

  async #find(key: Key): Promise<{ readonly remembered: Remembered; readonly judged: 'fresh' | 'stale' } | null> {
    for (const scope of this.#scopes) {
      const remembered = await readEntry(this.#host.kernel, entryId(this.name, scope, key.hex))
      const judged = remembered && this.#judge(remembered.envelope)
      if (remembered && (judged === 'fresh' || judged === 'stale')) return { remembered, judged }
    }
    return null
  }

  #judge({ computedAt, outcome }: Envelope): 'fresh' | 'stale' | 'over' {
    const { ttl, stale, errors } = this.#options
    const age = this.#host.kernel.clock.now() - computedAt
    const allowed = outcome.kind === 'error' ? (errors ?? 0) : ttl
    if (allowed === undefined) return 'fresh'
    if (age < -clockSkewMs) return 'over'
    const allowedMs = toMs(allowed, 'ttl')
    if (age <= allowedMs && allowed !== 0) return 'fresh'
    return outcome.kind !== 'error' && stale !== undefined && age <= allowedMs + toMs(stale, 'stale') ? 'stale' : 'over'
  }

  #compute(key: Key, args: Args, options: CallOptions): Promise<Remembered> {
    const id = entryId(this.name, this.#scope, key.hex)
    let isAsked = options.refresh ?? false
    const look = async () => {
      const found = isAsked ? null : await this.#find(key)
      isAsked = false
      return found?.judged === 'fresh' ? found.remembered : null
    }
    return this.#flights.join(id, look, (taken) => this.#run(id, taken, key, args, options), options.signal)
  }

  async #run(id: TimelineId, taken: StateTimeline, key: Key, args: Args, options: CallOptions): Promise<Remembered> {
    const { kernel } = this.#host
    const started = kernel.clock.elapsed()
    let outcome: Outcome
    let source: ByteSource | null = null
    try {
      const result = await this.#options.run(...args)
      source = isStream(result) ? result : null
      outcome = source ? { kind: 'bytes' } : { kind: 'value', value: result }
    } catch (error) {
      if (this.#options.errors === undefined) throw error
      const { name, message } = error instanceof Error ? error : new Error(String(error))
      outcome = { kind: 'error', name, message }
    }
    const by = await kernel.worker.register()
    const envelope = (): Envelope => ({
      parts: key.parts,
      computedAt: kernel.clock.now(),
      tookMs: Math.round(kernel.clock.elapsed() - started),
      by,
      for: options.for ?? null,
      outcome,
    })
    const isSteady = async () => (await this.#key(args)).hex === key.hex
    const stored = await publishEntry(kernel, taken, {
      id,
      envelope,
      source,
      isSteady,
      problem: (error) => this.#problem(error),
    })
    if (stored.isStored) {
      this.#keep(key, stored)
      this.#pruner.stored()
    }
    return stored
  }

  #keep(key: Key, { envelope, stream, record }: Remembered): void {
    if (stream || record === null) return
    const { codec, clock } = this.#host.kernel
    const bytes = codec.encode(envelope)
    this.#recent.put(key.hex, bytes, bytes.length, clock.elapsed())
  }

  #given(
    envelope: Envelope,
    remembered: Remembered | null,
    from: Recalled<unknown>['from'],
  ): Recalled<MemoResult<Result>> {
    const { outcome, ...provenance } = envelope
    if (outcome.kind === 'error') throw Object.assign(new Error(outcome.message), { name: outcome.name })
    const result = outcome.kind === 'bytes' ? readStream(this.#host.kernel, remembered!.stream) : outcome.value
    return { result: result as MemoResult<Result>, from, provenance }
  }

  #problem(error: unknown): void {
    this.#host.kernel.events.emit('problem', { where: `memo/${this.name}`, error: isReprise(error) ? error : error })
  }
}

function isStream(value: unknown): value is Exclude<ByteSource, Uint8Array> {
  if (typeof value !== 'object' || value === null) return false
  return Symbol.asyncIterator in value || value instanceof ReadableStream
}
