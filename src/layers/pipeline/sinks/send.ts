// Sends results to the outside as they arrive, at least once: a checkpoint waits until all earlier results were accepted, and
// results after the last checkpoint are sent again after a crash. Each send has a key that is the same both times, so a
// receiver that checks keys has each result once.
//
// A key derives from the origin of the result (run/record-origins.ts): it survives kills, other orders of arrival and other
// checkpoints. A checkpoint stores the number of records of each partition, since these numbers are part of keys.

import { assert } from '../../../core/assert.ts'
import { timelineId } from '../../../core/coordinate.ts'
import { RepriseError } from '../../../core/errors.ts'
import { checkCount, checkOptions, namesOf } from '../../../core/options.ts'
import type { CallPolicy } from '../../../core/retry/call-policy.ts'
import { checkCallPolicy } from '../../../core/retry/call-policy.ts'
import { checkFunction } from '../../../core/synchronous.ts'
import { Caller } from '../../../engine/base/call-with-policy.ts'
import { logPlace } from '../../../engine/base/log.ts'
import { hostOf } from '../../../engine/host/host.ts'
import type { Kernel } from '../../../engine/storage/kernel.ts'
import type { Batch } from '../batch.ts'
import { recordOf, recordPlace } from '../operator.ts'
import type { CallContext } from '../operators/calls.ts'
import { Origins } from '../run/record-origins.ts'
import type { CutId, Prepared, Sink, SinkContext, SinkWriter } from '../sink.ts'

/** The context of a delivery: `key` is the same if this result is sent again, and `operator` names the sink. */
export interface SendContext extends CallContext {}

export interface SendOptions extends CallPolicy {
  /** The maximum number of concurrent sends. Default: 16. */
  readonly concurrency?: number
}

/** @example sendSink<Total>((total, { key }) => post('/totals', total, { 'Idempotency-Key': key })) */
export function sendSink<T>(
  call: (value: T, context: SendContext) => Promise<unknown>,
  options: SendOptions = {},
): Sink<T> {
  checkOptions('sendSink', options, namesOf<SendOptions>()('concurrency retry timeout rate breaker'))
  const { concurrency = 16, ...policy } = options
  checkCallPolicy(policy)
  checkFunction(call, 'sendSink()')
  checkCount('sendSink: concurrency', concurrency)
  return {
    isKeyed: true,
    open: async (context, listed) => new Sender<T>(call, concurrency, policy, context, listed as Listed | null),
  }
}

/** The sink's data in a checkpoint. Older versions stored only the checkpoint number, from which keys were then derived. */
type Listed = number | { readonly checkpoint: number; readonly counts: Readonly<Record<string, number>> }

interface Waiting<T> {
  readonly value: T
  readonly key: string
}

class Sender<T> implements SinkWriter {
  readonly #call: (value: T, context: SendContext) => Promise<unknown>
  readonly #concurrency: number
  readonly #caller: Caller
  readonly #kernel: Kernel
  readonly #name: string
  readonly #origins: NonNullable<SinkContext['origins']>
  readonly #place: Pick<SendContext, 'pipeline' | 'operator' | typeof logPlace>
  readonly #ending = new AbortController()
  readonly #waiting: Waiting<T>[] = []
  /** Results after a cut whose checkpoint is not published yet. */
  #held: Waiting<T>[] = []
  #isCut = false
  #cutFor = 0
  readonly #settled = new Set<() => void>()
  #underWay = 0
  #failure: { readonly error: unknown } | null = null

  constructor(
    call: (value: T, context: SendContext) => Promise<unknown>,
    concurrency: number,
    policy: CallPolicy,
    { engine, pipeline, name, origins }: SinkContext,
    listed: Listed | null,
  ) {
    this.#kernel = hostOf(engine).kernel
    const { clock, random } = this.#kernel
    this.#call = call
    this.#concurrency = concurrency
    const traced = { name, run: () => this.#kernel.tracing?.traceOf(pipeline) ?? null }
    this.#caller = new Caller(policy, { clock, random, ending: this.#ending.signal, traced })
    this.#name = name
    this.#place = { [logPlace]: recordPlace, pipeline, operator: name }
    this.#origins = origins ?? new Origins(this.#kernel, { timeline: timelineId(pipeline), life: 0, base: null })
    if (typeof listed === 'object' && listed) this.#origins.restore(listed.counts)
  }

  /** Held results wait for a checkpoint; all others are sent at once. */
  get pending(): number {
    return this.#held.length
  }

  write(batch: Batch): void | Promise<void> {
    const keyed = batch.values.map((value, i): Waiting<T> => {
      return { value: value as T, key: this.#origins.keyOf(this.#name, recordOf(batch, i)) }
    })
    if (this.#isCut) {
      this.#held.push(...keyed)
      return
    }
    this.#take(keyed)
    if (this.#waiting.length > 0) return this.#until(() => this.#waiting.length === 0)
  }

  cut({ checkpoint }: CutId) {
    assert(!this.#isCut, 'one checkpoint is in progress at a time')
    this.#isCut = true
    this.#cutFor = checkpoint
    const { counts } = this.#origins
    const done = this.#until(() => this.#underWay + this.#waiting.length === 0)
    done.catch(() => undefined)
    return async () => {
      await done
      return { checkpoint, counts } satisfies Listed
    }
  }

  async commit(prepared: Prepared): Promise<void> {
    const { checkpoint } = prepared as Exclude<Listed, number>
    if (!this.#isCut || checkpoint !== this.#cutFor) return
    this.#origins.published(checkpoint)
    this.#release()
  }

  /** The checkpoint was not published. */
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

  #take(keyed: readonly Waiting<T>[]): void {
    this.#waiting.push(...keyed)
    this.#start()
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
        // A result that was not accepted must not be skipped: the run ends, and the next one resumes from its last checkpoint.
        if (this.#failure) reject(this.#failure.error)
        else resolve()
      }
      this.#settled.add(look)
      look()
    })
  }
}
