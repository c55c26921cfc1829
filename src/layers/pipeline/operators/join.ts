// Joins of two streams by key: within the same window, within a time interval, and with the newest record of a descriptive
// stream (a changing table). Records that can no longer find a partner are removed.

import { assert } from '../../../core/assert.ts'
import type { PipelineKey } from '../../../core/key-groups.ts'
import { TimeQueue } from '../../../core/time-queue.ts'
import type { Batch, Output } from '../batch.ts'
import {
  batchOf,
  keepsOrder,
  type MakeOperator,
  type OperatorContext,
  type RecordOrigin,
  recordOf,
  tablesOf,
} from '../operator.ts'
import { StateTable } from '../rules/state-table.ts'
import { lastWatermark } from '../rules/watermarks.ts'
import { type FixedWindows, isForgotten, nextEnd, startsOf } from '../rules/windows.ts'
import type { Present } from './tombstones.ts'
import { mergedInputs } from './union.ts'
import { Progress } from './window.ts'

interface Sides<A, B> {
  readonly left: A[]
  readonly right: B[]
}

/** Runs once per checkpoint and key; in between, records are added in place, however many a key has. */
function copySides<A, B>({ left, right }: Sides<A, B>): Sides<A, B> {
  return { left: [...left], right: [...right] }
}

/** Emits every pair of the same key in the same window when the window closes. */
export function windowJoined<A, B, R>(
  windows: FixedWindows,
  join: (left: A, right: B, window: { readonly start: number; readonly end: number }) => R,
): MakeOperator {
  return keepsOrder(([next], context) => {
    const state = new StateTable<Sides<A, B>>()
    const progress = new Progress()
    const take = (isLeft: boolean) => (batch: Batch) => {
      const { values, times, keys } = batch
      assert(times !== null && keys !== null, 'a join of windows has keys and times')
      let late = 0
      for (let i = 0; i < values.length; i++) {
        let isTaken = false
        for (const start of startsOf(windows, times[i]!)) {
          if (isForgotten(start + windows.lengthMs, 0, progress.watermark)) continue
          isTaken = true
          const space = state.space(start)
          const slot = space.slots.get(keys[i]!)
          const sides = slot === undefined ? { left: [], right: [] } : state.own(space, slot, copySides<A, B>)
          if (isLeft) sides.left.push(values[i] as A)
          else sides.right.push(values[i] as B)
          if (slot === undefined) state.add(space, keys[i]!, sides)
        }
        if (!isTaken) late += 1
      }
      if (late > 0) context.late(late)
    }
    const close = (time: number) => {
      if (!progress.advance(time)) return
      const over = [...state.spaces()].filter(({ id }) => id + windows.lengthMs <= time).sort((a, b) => a.id - b.id)
      for (const space of over) {
        const window = { start: space.id, end: space.id + windows.lengthMs }
        const given = new Joined(next!, context)
        for (const [key, { left, right }] of space.entries()) {
          for (const a of left) for (const b of right) given.add(() => join(a, b, window), [a, b], key, window.end - 1)
        }
        state.drop(space)
        given.flush()
      }
    }
    return {
      tables: tablesOf({ windows: state, progress: progress.table }),
      inputs: [
        ...mergedInputs([take(true), take(false)], {
          watermark(time) {
            close(time)
            next!.watermark(time)
          },
          idle: () => next!.idle(),
        }),
        pairsAgain(next!, context, ([left, right], time) => {
          return join(left as A, right as B, { start: time + 1 - windows.lengthMs, end: time + 1 })
        }),
      ],
      restored: () => progress.restored(),
      dueAbove: (watermark) => nextEnd(windows, 0, watermark),
    }
  })
}

interface Timed {
  readonly time: number
  readonly value: unknown
  /** The id of the record, where results have keys. Checkpoints of older versions have none. */
  readonly id?: string
}

/** Identifies a record that was stored without an id by its time and value. */
const byTime: RecordOrigin = { cause: 'time', path: '', isTimed: true, times: 0 }

/** Emits every pair whose times differ by right − left within [before, after], as soon as both records have arrived. */
export function intervalJoined<A, B, R>(
  interval: { readonly fromMs: number; readonly toMs: number },
  join: (left: A, right: B) => R,
): MakeOperator {
  const { fromMs, toMs } = interval
  return keepsOrder(([next], context) => {
    const tables = { left: new StateTable<Timed[]>(), right: new StateTable<Timed[]>() }
    const progress = new Progress()
    const forgetting = { left: new TimeQueue<PipelineKey>(), right: new TimeQueue<PipelineKey>() }
    /** The last time at which a partner may arrive. */
    const lastOf = (side: 'left' | 'right', time: number) => (side === 'left' ? time + toMs : time - fromMs)
    const width = Math.max(1, Math.ceil((toMs - fromMs) / 8))
    const { name, origins } = context
    const timed = (time: number, value: unknown, key: PipelineKey): Timed => {
      return origins ? { time, value, id: origins.keyOf(name, { time, value, key }) } : { time, value }
    }
    /** The origin of both records: a pair has the same key whichever record arrived last. */
    const originOf = (left: Timed, right: Timed, key: PipelineKey): RecordOrigin | undefined => {
      if (!origins) return
      const idOf = (held: Timed) => held.id ?? origins.keyFrom(byTime, name, { ...held, key })
      return { cause: `pair ${idOf(left)} ${idOf(right)}`, path: '', isTimed: false, times: 0 }
    }
    const schedule = (side: 'left' | 'right', key: PipelineKey, time: number) =>
      forgetting[side].add(Math.ceil((lastOf(side, time) + 1) / width) * width, key)
    const take = (side: 'left' | 'right', other: 'left' | 'right') => (batch: Batch) => {
      const { values, times, keys, order } = batch
      assert(times !== null && keys !== null, 'a join of intervals has keys and times')
      const given = new Joined(next!, context)
      let late = 0
      for (let i = 0; i < values.length; i++) {
        const [time, key] = [times[i]!, keys[i]!]
        if (time < progress.watermark) {
          late += 1
          continue
        }
        const record = timed(time, values[i], key)
        for (const partner of tables[other].get(tables[other].space(0), key) ?? []) {
          const [left, right] = side === 'left' ? [record, partner] : [partner, record]
          const difference = right.time - left.time
          if (difference < fromMs || difference > toMs) continue
          const at = Math.max(left.time, right.time)
          const pair = [left.value, right.value]
          given.add(
            () => join(left.value as A, right.value as B),
            pair,
            key,
            at,
            order?.[i],
            originOf(left, right, key),
          )
        }
        const own = tables[side]
        const slot = own.space(0).slots.get(key)
        if (slot === undefined) own.add(own.space(0), key, [record])
        else own.own(own.space(0), slot, (held) => [...held]).push(record)
        schedule(side, key, time)
      }
      if (late > 0) context.late(late)
      given.flush()
    }
    const forget = (side: 'left' | 'right', watermark: number) => {
      const table = tables[side]
      for (let due = forgetting[side].take(watermark); due; due = forgetting[side].take(watermark)) {
        for (const key of due.items) {
          const held = table.get(table.space(0), key) ?? []
          const kept = held.filter(({ time }) => lastOf(side, time) >= watermark)
          if (kept.length === 0) table.delete(table.space(0), key)
          else if (kept.length < held.length) table.set(table.space(0), key, kept)
        }
      }
    }
    return {
      tables: tablesOf({ ...tables, progress: progress.table }),
      inputs: [
        ...mergedInputs([take('left', 'right'), take('right', 'left')], {
          watermark(time) {
            if (progress.advance(time)) {
              forget('left', time)
              forget('right', time)
            }
            next!.watermark(time)
          },
          idle: () => next!.idle(),
        }),
        pairsAgain(next!, context, ([left, right]) => join(left as A, right as B)),
      ],
      // A late record finds no partner; nothing else depends on the watermark.
      dueAbove: () => lastWatermark,
      restored() {
        progress.restored()
        for (const side of ['left', 'right'] as const) {
          for (const [key, held] of tables[side].space(0).entries()) {
            for (const { time } of held) schedule(side, key, time)
          }
        }
      },
    }
  })
}

/**
 * Joins each record of the left with the newest record of the right with its key at that moment; undefined if there is none. A
 * tombstone of the right deletes its key.
 */
export function latestJoined<A, B, R>(join: (left: A, right: Present<B> | undefined) => R): MakeOperator {
  return keepsOrder(([next], context) => {
    const newest = new StateTable<{ readonly value: Present<B> }>()
    const keep = (key: PipelineKey, value: B) => {
      const space = newest.space(0)
      if (value === null) newest.delete(space, key)
      else newest.set(space, key, { value: value as Present<B> })
    }
    const left = (batch: Batch, inputs?: readonly number[]) => {
      const { values, times, keys, order } = batch
      assert(keys !== null, 'a join has keys')
      const given = new Joined(next!, context)
      const space = newest.space(0)
      for (let i = 0; i < values.length; i++) {
        if (inputs?.[i] === 1) {
          keep(keys[i]!, values[i] as B)
          continue
        }
        // Checkpoints of older versions may hold a null.
        const right = newest.get(space, keys[i]!)?.value ?? undefined
        try {
          given.push(join(values[i] as A, right), keys[i]!, times ? times[i]! : null, order?.[i])
        } catch (error) {
          context.poison(recordOf(batch, i), error)
        }
      }
      given.flush()
    }
    const right = ({ values, keys }: Batch) => {
      assert(keys !== null, 'a join has keys')
      for (let i = 0; i < values.length; i++) keep(keys[i]!, values[i] as B)
    }
    // Event time is that of the left records; the right stream does not hold windows back.
    const inputs: readonly Output[] = [
      { batch: (batch) => left(batch), watermark: (time) => next!.watermark(time), idle: () => next!.idle() },
      { batch: right, watermark() {}, idle() {} },
    ]
    return { tables: tablesOf({ newest }), inputs, mixed: left }
  })
}

/** The index of the input, after those of the two streams, for pairs that were set aside. */
const pairInput = 2

/** Joins a pair that is sent back, with both sides as they were. */
function pairsAgain(
  next: Output,
  context: OperatorContext,
  join: (pair: readonly unknown[], time: number) => unknown,
): Output {
  return {
    batch({ values, times, keys }) {
      const given = new Joined(next, context)
      values.forEach((pair, i) => {
        const time = times![i]!
        given.add(() => join(pair as readonly unknown[], time), pair as readonly unknown[], keys![i]!, time)
      })
      given.flush()
    },
    watermark() {},
    idle() {},
  }
}

/** Collects results of a join. A pair whose join function throws is set aside as a pair. */
class Joined {
  readonly #next: Output
  readonly #context: OperatorContext
  readonly #values: unknown[] = []
  readonly #keys: PipelineKey[] = []
  readonly #times: (number | null)[] = []
  readonly #order: number[] = []
  /** The origin of each result, where it is not the current record. */
  readonly #origins: RecordOrigin[] = []

  constructor(next: Output, context: OperatorContext) {
    this.#next = next
    this.#context = context
  }

  add(
    make: () => unknown,
    pair: readonly unknown[],
    key: PipelineKey,
    time: number,
    order?: number,
    origin?: RecordOrigin,
  ): void {
    try {
      this.push(make(), key, time, order)
      if (origin) this.#origins.push(origin)
    } catch (error) {
      this.#context.poison({ value: pair, time, key, input: pairInput, ...(origin && { origin }) }, error)
    }
  }

  push(value: unknown, key: PipelineKey, time: number | null, order?: number): void {
    this.#values.push(value)
    this.#keys.push(key)
    this.#times.push(time)
    if (order !== undefined) this.#order.push(order)
  }

  flush(): void {
    if (this.#values.length === 0) return
    const times = this.#times[0] === null ? null : (this.#times as number[])
    const [values, keys, order] = [this.#values, this.#keys, this.#order]
    if (this.#origins.length > 0) {
      this.#origins.forEach(({ cause }, i) => {
        const one = batchOf({ value: values[i], time: times && times[i]!, key: keys[i]! })
        this.#context.origins!.from(cause, () => this.#next.batch(one))
      })
      return
    }
    this.#next.batch(order.length > 0 ? { values, times, keys, order } : { values, times, keys })
  }
}
