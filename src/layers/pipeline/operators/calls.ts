// Calls to the outside, with bounded concurrency. A record stays in the state until its result is emitted, so after a crash the
// call is repeated: at least once, each time with the same key. Watermarks do not overtake records.

import { assert } from '../../../core/assert.ts'
import { RepriseError } from '../../../core/errors.ts'
import { formerCallKey } from '../../../core/identity.ts'
import type { CallPolicy } from '../../../core/retry/call-policy.ts'
import { checkFunction } from '../../../core/synchronous.ts'
import { Caller } from '../../../engine/base/call-with-policy.ts'
import { type Logged, logPlace } from '../../../engine/base/log.ts'
import type { Batch } from '../batch.ts'
import { batchOf, type MakeOperator, type PoisonRecord, recordOf, recordPlace, tablesOf } from '../operator.ts'
import { StateTable } from '../rules/state-table.ts'

export interface CallOptions extends CallPolicy {
  /** The maximum number of concurrent calls. Default: 16. */
  readonly concurrency?: number
  /** True: results are emitted in the order of their records. False: as they arrive. Default: false. */
  readonly ordered?: boolean
}

export interface CallContext extends Logged {
  /** The same for every call for this record: for services that accept idempotency keys. */
  readonly key: string
  readonly attempt: number
  readonly pipeline: string
  /** The operator's name in the pipeline. */
  readonly operator: string
  /** The W3C Trace Context of this attempt, if it is traced (reprise/otel). */
  readonly traceparent?: string | undefined
  /** Aborts when the call times out or the run ends. */
  readonly signal: AbortSignal
}

/** A record whose call is in progress. */
interface Waiting {
  readonly number: number
  readonly key: string
  readonly record: PoisonRecord
  outcome: { readonly value: unknown } | 'failed' | null
}

/** Records and the watermarks between them, in order of arrival. */
type Item = Waiting | { readonly watermark: number }

export function called<T, R>(call: (value: T, context: CallContext) => Promise<R>, options: CallOptions): MakeOperator {
  const { concurrency = 16, ordered = false } = options
  checkFunction(call, 'call()')
  return ([next], context) => {
    const { origins } = context
    /** Checkpoints of older versions have the key as `id`. */
    const state = new StateTable<PoisonRecord & { readonly id?: string }>()
    /** The number of records so far, here and per partition: numbering must continue after a restart. */
    const counter = new StateTable<number>()
    const ending = new AbortController()
    const { clock, random, name, trace = null } = context
    const traced = { name, run: () => trace }
    const place = { [logPlace]: recordPlace, pipeline: context.pipeline, operator: name }
    const caller = new Caller(options, { clock, random, ending: ending.signal, traced })
    const queue: Item[] = []
    const toStart: Waiting[] = []
    let started = 0
    let number = 0
    let room: (() => void) | null = null

    const settle = (waiting: Waiting, outcome: Waiting['outcome']) => {
      waiting.outcome = outcome
      started -= 1
      giveOut()
      start()
      if (inFlight() < 2 * concurrency) {
        room?.()
        room = null
      }
      context.wake()
    }
    /** Emits results and removes their records from the state together: a checkpoint has one or the other. */
    const giveOut = () => {
      for (let i = 0; i < queue.length; ) {
        const item = queue[i]!
        if ('watermark' in item) {
          // All earlier items have been emitted only if this is the first.
          if (i > 0) break
          queue.shift()
          next!.watermark(item.watermark)
        } else if (item.outcome === null) {
          if (ordered) break
          i += 1
        } else {
          queue.splice(i, 1)
          state.delete(state.space(0), item.number)
          if (item.outcome === 'failed') continue
          const batch = batchOf({ ...item.record, value: item.outcome.value })
          if (origins) origins.from(`call ${item.key}`, () => next!.batch(batch))
          else next!.batch(batch)
        }
      }
    }
    const start = () => {
      while (started < concurrency && toStart.length > 0) {
        const waiting = toStart.shift()!
        started += 1
        void make(waiting)
      }
    }
    const make = async (waiting: Waiting) => {
      const { key } = waiting
      const { value } = waiting.record
      try {
        const result = await caller.call(
          (attempt, signal, traceparent) => call(value as T, { key, attempt, ...place, signal, traceparent }),
          key,
        )
        if (!ending.signal.aborted) settle(waiting, { value: result })
      } catch (error) {
        // At the end of a run the record stays in the state, and the next run repeats the call.
        if (ending.signal.aborted) return
        context.poison(waiting.record, error)
        settle(waiting, 'failed')
      }
    }
    const keyOf = (record: PoisonRecord, own: number) =>
      (record.origin && origins?.keyFrom(record.origin, name, record)) ?? formerCallKey(context.pipeline, name, own)
    const add = (record: PoisonRecord, own: number, key = keyOf(record, own)) => {
      const waiting: Waiting = { number: own, key, record, outcome: null }
      queue.push(waiting)
      toStart.push(waiting)
    }
    const inFlight = () => started + toStart.length
    return {
      tables: tablesOf({ calls: state, counter }),
      inputs: [
        {
          batch(batch: Batch) {
            for (let i = 0; i < batch.values.length; i++) {
              const given = recordOf(batch, i)
              const record = origins ? { ...given, origin: origins.originOf(name, given) } : given
              number += 1
              state.add(state.space(0), number, record)
              add(record, number)
            }
            counter.set(counter.space(0), 'records', number)
            for (const [partition, count] of Object.entries(origins?.counts ?? {})) {
              counter.set(counter.space(0), partition, count)
            }
            start()
            if (inFlight() >= 2 * concurrency && room === null) {
              context.wait(
                new Promise<void>((resolve) => {
                  room = resolve
                }),
              )
            }
          },
          watermark(time) {
            queue.push({ watermark: time })
            giveOut()
          },
          idle: () => next!.idle(),
        },
      ],
      restored() {
        const numbers = [...state.space(0).slots.keys()].map(Number).sort((a, b) => a - b)
        for (const own of numbers) {
          const { id, ...record } = state.get(state.space(0), own)!
          add(record, own, id)
        }
        const { records: _, ...counts } = Object.fromEntries(counter.space(0).entries()) as Record<string, number>
        origins?.restore(counts)
        number = counter.get(counter.space(0), 'records') ?? 0
        assert((numbers.at(-1) ?? 0) <= number, 'a record that is called for was counted')
        start()
      },
      inFlight: () => queue.length,
      stop: () => ending.abort(new RepriseError('ABORTED', 'the pipeline has ended')),
    }
  }
}
