// Results sent to the outside as they come, at least once: a checkpoint waits until all that came before it was taken, and
// what came after the last checkpoint is sent again after a crash. Each send has a key that is the same both times, so a
// receiver that knows keys has each result once.
//
// A key is made of the last checkpoint, the result and how often that result came since: records may come in another order
// after a restart, and a key by number would then stand for another result, which a receiver would take for known. So that
// the last checkpoint is the same both times, what comes after a cut is sent when its checkpoint is published.

import { assert } from '../../../core/assert.ts'
import type { CallPolicy } from '../../../core/call-policy.ts'
import { checkCallPolicy } from '../../../core/call-policy.ts'
import { type Digest, toHex } from '../../../core/coordinate.ts'
import { RepriseError } from '../../../core/errors.ts'
import { checkOptions } from '../../../core/options.ts'
import { Caller } from '../../../engine/caller.ts'
import { hostOf } from '../../../engine/host.ts'
import type { Kernel } from '../../../engine/kernel.ts'
import type { Batch } from '../batch.ts'
import type { CutId, Prepared, Sink, SinkContext, SinkWriter } from '../sink.ts'

export interface SendContext {
  /** The same if this result is sent again: pass it on as the idempotency key. */
  readonly key: string
  readonly attempt: number
  readonly pipeline: string
  /** Its name in the pipeline. */
  readonly operator: string
  /** Of this attempt, as W3C Trace Context writes it, where it is traced (reprise/otel). */
  readonly traceparent?: string | undefined
  readonly signal: AbortSignal
}

export interface SendOptions extends CallPolicy {
  /** How many at a time; 16 if left out. */
  readonly concurrency?: number
}

/** @example send<Total>((total, { key }) => post('/totals', total, { 'Idempotency-Key': key })) */
export function send<T>(
  call: (value: T, context: SendContext) => Promise<unknown>,
  options: SendOptions = {},
): Sink<T> {
  const { concurrency = 16, ...policy } = options
  checkOptions('send', options, new Set(['concurrency', 'retry', 'timeout', 'rate', 'breaker']))
  checkCallPolicy(policy)
  if (!Number.isSafeInteger(concurrency) || concurrency < 1) {
    throw new RepriseError('INVALID_ARGUMENT', `concurrency must be at least 1 (got ${String(concurrency)})`)
  }
  return {
    open: async (context, listed) => new Sender<T>(call, concurrency, policy, context, (listed as number | null) ?? 0),
  }
}

interface Waiting<T> {
  readonly value: T
  readonly key: string
}

class Sender<T> implements SinkWriter {
  readonly #call: (value: T, context: SendContext) => Promise<unknown>
  readonly #concurrency: number
  readonly #caller: Caller
  readonly #kernel: Kernel
  readonly #prefix: string
  readonly #place: Pick<SendContext, 'pipeline' | 'operator'>
  readonly #ending = new AbortController()
  readonly #waiting: Waiting<T>[] = []
  /** What came after a cut whose checkpoint is not published yet. */
  #held: T[] = []
  #isCut = false
  #cutFor = 0
  readonly #settled = new Set<() => void>()
  #underWay = 0
  /** The last checkpoint that was published. */
  #base: number
  /** By digest: how often a result came since. */
  #seen = new Map<string, number>()
  #failure: { readonly error: unknown } | null = null

  constructor(
    call: (value: T, context: SendContext) => Promise<unknown>,
    concurrency: number,
    policy: CallPolicy,
    { engine, pipeline, name }: SinkContext,
    base: number,
  ) {
    this.#kernel = hostOf(engine).kernel
    const { clock, random } = this.#kernel
    this.#call = call
    this.#concurrency = concurrency
    const traced = { name, run: () => this.#kernel.tracing?.traceOf(pipeline) ?? null }
    this.#caller = new Caller(policy, { clock, random, ending: this.#ending.signal, traced })
    this.#prefix = `${pipeline}/${name}`
    this.#place = { pipeline, operator: name }
    this.#base = base
  }

  /** What is held back waits for a checkpoint; all else is sent at once. */
  get pending(): number {
    return this.#held.length
  }

  write(batch: Batch): void | Promise<void> {
    if (this.#isCut) {
      for (const value of batch.values) this.#held.push(value as T)
      return
    }
    this.#take(batch.values as readonly T[])
    if (this.#waiting.length > 0) return this.#until(() => this.#waiting.length === 0)
  }

  cut({ checkpoint }: CutId) {
    assert(!this.#isCut && checkpoint > this.#base, 'one checkpoint is under way at a time, each behind the last')
    this.#isCut = true
    this.#cutFor = checkpoint
    const done = this.#until(() => this.#underWay + this.#waiting.length === 0)
    done.catch(() => undefined)
    return async () => {
      await done
      return checkpoint as Prepared
    }
  }

  async commit(prepared: Prepared): Promise<void> {
    if (!this.#isCut || prepared !== this.#cutFor) return
    this.#base = this.#cutFor
    this.#seen = new Map()
    this.#release()
  }

  /** Nothing was published: keys go on from the checkpoint before. */
  rejoin(): void {
    this.#release()
  }

  async close(): Promise<void> {
    this.#ending.abort(new RepriseError('ABORTED', 'the pipeline has ended'))
  }

  #release(): void {
    this.#isCut = false
    const held = this.#held
    this.#held = []
    this.#take(held)
  }

  #take(values: readonly T[]): void {
    for (const value of values) this.#waiting.push({ value, key: this.#keyOf(value) })
    this.#start()
  }

  #keyOf(value: T): string {
    const { codec, hash } = this.#kernel
    const digest = toHex(hash(codec.encode(value)).subarray(0, 12) as Digest)
    const times = this.#seen.get(digest) ?? 0
    this.#seen.set(digest, times + 1)
    return `${this.#prefix}/${this.#base}-${digest}-${times}`
  }

  #start(): void {
    while (this.#underWay < this.#concurrency && this.#waiting.length > 0 && !this.#failure) {
      const next = this.#waiting.shift()!
      this.#underWay += 1
      void this.#send(next)
    }
  }

  async #send({ value, key }: Waiting<T>): Promise<void> {
    try {
      await this.#caller.call(
        (attempt, signal, traceparent) => this.#call(value, { key, attempt, ...this.#place, signal, traceparent }),
        key,
      )
    } catch (error) {
      this.#failure ??= { error }
    }
    this.#underWay -= 1
    this.#start()
    for (const look of [...this.#settled]) look()
  }

  #until(condition: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      const look = () => {
        if (!this.#failure && !condition()) return
        this.#settled.delete(look)
        // A result that nobody takes must not be passed over: the run ends, and goes on from its last checkpoint.
        if (this.#failure) reject(this.#failure.error)
        else resolve()
      }
      this.#settled.add(look)
      look()
    })
  }
}
