// Results sent to the outside as they come, at least once: a checkpoint waits until all that came before it was taken, and
// what came after the last checkpoint is sent again after a crash. Each send has a key that is the same both times, so a
// receiver that knows keys has each result once.

import type { CallPolicy } from '../../../core/call-policy.ts'
import { checkCallPolicy } from '../../../core/call-policy.ts'
import { RepriseError } from '../../../core/errors.ts'
import { checkOptions } from '../../../core/options.ts'
import { hostOf } from '../../../engine/host.ts'
import type { Batch } from '../batch.ts'
import { Caller } from '../operators/caller.ts'
import type { Prepared, Sink, SinkContext, SinkWriter } from '../sink.ts'

export interface SendContext {
  /** The same if this result is sent again: pass it on as the idempotency key. */
  readonly key: string
  readonly attempt: number
  readonly signal: AbortSignal
}

export interface SendOptions extends CallPolicy {
  /** How many at a time; 8 if left out. */
  readonly concurrency?: number
}

/** @example send<Total>((total, { key }) => post('/totals', total, { 'Idempotency-Key': key })) */
export function send<T>(
  call: (value: T, context: SendContext) => Promise<unknown>,
  options: SendOptions = {},
): Sink<T> {
  const { concurrency = 8, ...policy } = options
  checkOptions('send', options, new Set(['concurrency', 'retry', 'timeout', 'rate', 'breaker']))
  checkCallPolicy(policy)
  if (!Number.isSafeInteger(concurrency) || concurrency < 1) {
    throw new RepriseError('INVALID_ARGUMENT', `concurrency must be at least 1 (got ${String(concurrency)})`)
  }
  return {
    open: async (context, listed) => new Sender<T>(call, concurrency, policy, context, (listed as number | null) ?? 0),
  }
}

class Sender<T> implements SinkWriter {
  readonly #call: (value: T, context: SendContext) => Promise<unknown>
  readonly #concurrency: number
  readonly #caller: Caller
  readonly #prefix: string
  readonly #ending = new AbortController()
  readonly #waiting: { readonly value: T; readonly number: number }[] = []
  readonly #settled = new Set<() => void>()
  #underWay = 0
  #number: number
  #failure: { readonly error: unknown } | null = null

  constructor(
    call: (value: T, context: SendContext) => Promise<unknown>,
    concurrency: number,
    policy: CallPolicy,
    { engine, pipeline, name }: SinkContext,
    number: number,
  ) {
    const { clock, random } = hostOf(engine).kernel
    this.#call = call
    this.#concurrency = concurrency
    this.#caller = new Caller(policy, { clock, random, ending: this.#ending.signal })
    this.#prefix = `${pipeline}/${name}`
    this.#number = number
  }

  /** Nothing waits for a checkpoint: it is sent at once. */
  get pending(): number {
    return 0
  }

  write(batch: Batch): void | Promise<void> {
    for (const value of batch.values) this.#waiting.push({ value: value as T, number: ++this.#number })
    this.#start()
    if (this.#waiting.length > 0) return this.#until(() => this.#waiting.length === 0)
  }

  /** The number goes on after a restart, so that keys do. */
  cut() {
    const number = this.#number
    const done = this.#until(() => this.#underWay + this.#waiting.length === 0)
    done.catch(() => undefined)
    return async () => {
      await done
      return number as Prepared
    }
  }

  async commit(): Promise<void> {}

  rejoin(): void {}

  async close(): Promise<void> {
    this.#ending.abort(new RepriseError('ABORTED', 'the pipeline has ended'))
  }

  #start(): void {
    while (this.#underWay < this.#concurrency && this.#waiting.length > 0 && !this.#failure) {
      const next = this.#waiting.shift()!
      this.#underWay += 1
      void this.#send(next)
    }
  }

  async #send({ value, number }: { readonly value: T; readonly number: number }): Promise<void> {
    try {
      const key = `${this.#prefix}/${number}`
      await this.#caller.call((attempt, signal) => this.#call(value, { key, attempt, signal }))
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
