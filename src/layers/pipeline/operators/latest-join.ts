// Joins each record with the newest record of a descriptive stream that has its key.

import { assert } from '../../../core/assert.ts'
import type { PipelineKey } from '../../../core/key-groups.ts'
import { TimeQueue } from '../../../core/time-queue.ts'
import type { Batch, Output } from '../batch.ts'
import { keepsOrder, type MakeOperator, recordOf, tablesOf } from '../operator.ts'
import { StateTable } from '../rules/state-table.ts'
import { Joined } from './joined.ts'
import type { Present } from './tombstones.ts'

interface Row<V> {
  readonly value: V
  /** The expiry time by the clock. Absent: never. */
  readonly until?: number
}

/** The newest value of each key. A tombstone deletes its key; with `ttlMs`, a value also ends that long after it was written. */
class NewestRows<V> {
  readonly table = new StateTable<Row<V>>()
  readonly #ttlMs: number | null
  readonly #now: () => number
  readonly #expiring = new TimeQueue<PipelineKey>()

  constructor(ttlMs: number | null, now: () => number) {
    this.#ttlMs = ttlMs
    this.#now = now
  }

  get(key: PipelineKey): V | undefined {
    const row = this.table.get(this.table.space(0), key)
    if (row === undefined || (row.until !== undefined && row.until <= this.#now())) return undefined
    // Checkpoints of older versions may hold a null.
    return row.value ?? undefined
  }

  keep(key: PipelineKey, value: V | null): void {
    const space = this.table.space(0)
    if (value === null) this.table.delete(space, key)
    else if (this.#ttlMs === null) this.table.set(space, key, { value })
    else {
      const until = this.#now() + this.#ttlMs
      this.table.set(space, key, { value, until })
      this.#schedule(key, until)
    }
  }

  restored(): void {
    for (const [key, { until }] of this.table.space(0).entries()) if (until !== undefined) this.#schedule(key, until)
  }

  expire(now: number): void {
    const space = this.table.space(0)
    for (let due = this.#expiring.take(now); due; due = this.#expiring.take(now)) {
      for (const key of due.items) {
        const until = this.table.get(space, key)?.until
        if (until !== undefined && until <= now) this.table.delete(space, key)
      }
    }
  }

  /** Rounds up, so that a key that is written constantly is in only a few places of the queue. */
  #schedule(key: PipelineKey, until: number): void {
    const width = Math.max(1, Math.ceil((this.#ttlMs ?? 1000) / 8))
    this.#expiring.add(Math.ceil(until / width) * width, key)
  }
}

/**
 * Joins each left record with the right record of its key that is newest at that moment; undefined if there is none. A
 * tombstone of the right deletes its key.
 */
export function latestJoined<A, B, R>(
  join: (left: A, right: Present<B> | undefined) => R,
  ttlMs: number | null = null,
): MakeOperator {
  return keepsOrder(([next], context) => {
    const newest = new NewestRows<Present<B>>(ttlMs, () => context.clock.now())
    const left = (batch: Batch, inputs?: readonly number[]) => {
      const { values, times, keys, order } = batch
      assert(keys !== null, 'a join has keys')
      const given = new Joined(next!, context)
      for (let i = 0; i < values.length; i++) {
        if (inputs?.[i] === 1) {
          newest.keep(keys[i]!, values[i] as Present<B> | null)
          continue
        }
        try {
          given.push(join(values[i] as A, newest.get(keys[i]!)), keys[i]!, times ? times[i]! : null, order?.[i])
        } catch (error) {
          context.poison(recordOf(batch, i), error)
        }
      }
      given.flush()
    }
    const right = ({ values, keys }: Batch) => {
      assert(keys !== null, 'a join has keys')
      for (let i = 0; i < values.length; i++) newest.keep(keys[i]!, values[i] as Present<B> | null)
    }
    // Event time is that of the left records; the right stream does not hold windows back.
    const inputs: readonly Output[] = [
      { batch: (batch) => left(batch), watermark: (time) => next!.watermark(time), idle: () => next!.idle() },
      { batch: right, watermark() {}, idle() {} },
    ]
    return {
      ...{ tables: tablesOf({ newest: newest.table }), inputs, mixed: left },
      restored: () => newest.restored(),
      tick: (now) => newest.expire(now),
    }
  })
}
