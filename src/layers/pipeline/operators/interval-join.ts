// Joins two streams by key and time: pairs whose times differ by right − left within an interval, as soon as both records have
// arrived. In an outer join, a record without a partner is emitted when no partner can arrive any longer. Records that can no
// longer find a partner are removed.

import { assert } from '../../../core/assert.ts'
import type { PipelineKey } from '../../../core/key-groups.ts'
import { TimeQueue } from '../../../core/time-queue.ts'
import type { Batch, Output } from '../batch.ts'
import {
  keepsOrder,
  type MakeOperator,
  type Operator,
  type OperatorContext,
  type RecordOrigin,
  tablesOf,
} from '../operator.ts'
import { StateTable } from '../rules/state-table.ts'
import { lastWatermark } from '../rules/watermarks.ts'
import { Progress } from './fixed-window.ts'
import { Joined, type Outer, pairsAgain, sidesOf } from './joined.ts'
import { mergedInputs } from './union.ts'

export interface Interval {
  readonly fromMs: number
  readonly toMs: number
}

interface Timed {
  readonly time: number
  readonly value: unknown
  /** The id of the record, where results have keys. Checkpoints of older versions lack this. */
  readonly id?: string
  /** In an outer join: the record has had a partner, or was emitted without one. */
  readonly isSettled?: true
}

type Side = 'left' | 'right'
const sides: readonly Side[] = ['left', 'right']

/** Identifies a record that was stored without an id by its time and value. */
const byTime: RecordOrigin = { cause: 'time', path: '', isTimed: true, times: 0 }

export function intervalJoined<A, B, R>(
  interval: Interval,
  join: (left: A | undefined, right: B | undefined) => R,
  outer?: Outer,
): MakeOperator {
  return keepsOrder(([next], context) => new IntervalJoin<A, B, R>(interval, join, outer, next!, context))
}

class IntervalJoin<A, B, R> implements Operator {
  readonly #interval: Interval
  readonly #join: (left: A | undefined, right: B | undefined) => R
  readonly #next: Output
  readonly #context: OperatorContext
  /** Whether records of a side are emitted without a partner. */
  readonly #isAlone: Readonly<Record<Side, boolean>>
  readonly #held = { left: new StateTable<Timed[]>(), right: new StateTable<Timed[]>() }
  readonly #progress = new Progress()
  readonly #forgetting = { left: new TimeQueue<PipelineKey>(), right: new TimeQueue<PipelineKey>() }
  /** In an outer join, the keys with records that may stay without a partner, by the time at which that is certain. */
  readonly #waiting = { left: new TimeQueue<PipelineKey>(), right: new TimeQueue<PipelineKey>() }
  /** Removals are rounded up to this width, so that a key with many records is in few places of the queue. */
  readonly #width: number
  readonly tables: Operator['tables']
  readonly inputs: readonly Output[]
  readonly isDueByState: boolean

  constructor(
    interval: Interval,
    join: (left: A | undefined, right: B | undefined) => R,
    outer: Outer | undefined,
    next: Output,
    context: OperatorContext,
  ) {
    this.#interval = interval
    this.#join = join
    this.#next = next
    this.#context = context
    this.#isAlone = sidesOf(outer)
    this.isDueByState = outer !== undefined
    this.#width = Math.max(1, Math.ceil((interval.toMs - interval.fromMs) / 8))
    this.tables = tablesOf({ ...this.#held, progress: this.#progress.table })
    const takers = sides.map((side) => (batch: Batch) => this.#take(side, batch))
    this.inputs = [
      ...mergedInputs(takers, { watermark: (time) => this.#advance(time), idle: () => next.idle() }),
      pairsAgain(next, context, ([left, right]) => join(left as A, right as B)),
    ]
  }

  restored(): void {
    this.#progress.restored()
    for (const side of sides) {
      const table = this.#held[side]
      for (const [key, held] of table.space(0).entries()) for (const record of held) this.#schedule(side, key, record)
    }
  }

  /**
   * A late record finds no partner. Beyond that, only an outer join depends on the watermark: on the next time at which a
   * record is certain to have no partner, and on that of records that may still arrive.
   */
  dueAbove(watermark: number): number {
    let due: number = lastWatermark
    for (const side of sides) {
      if (!this.#isAlone[side]) continue
      due = Math.min(due, this.#waiting[side].next, this.#overAt(side, watermark))
    }
    return due
  }

  /** The last time at which a partner may arrive. */
  #lastOf(side: Side, time: number): number {
    return side === 'left' ? time + this.#interval.toMs : time - this.#interval.fromMs
  }

  /** The watermark at which no partner can arrive any longer. */
  #overAt(side: Side, time: number): number {
    return Math.floor(this.#lastOf(side, time)) + 1
  }

  #schedule(side: Side, key: PipelineKey, { time, isSettled }: Timed): void {
    const overAt = this.#overAt(side, time)
    this.#forgetting[side].add(Math.ceil(overAt / this.#width) * this.#width, key)
    if (this.#isAlone[side] && !isSettled) this.#waiting[side].add(overAt, key)
  }

  #take(side: Side, { values, times, keys, order }: Batch): void {
    assert(times !== null && keys !== null, 'a join of intervals has keys and times')
    const given = new Joined(this.#next, this.#context)
    let late = 0
    for (let i = 0; i < values.length; i++) {
      if (times[i]! < this.#progress.watermark) late += 1
      else this.#takeOne(side, this.#timed(times[i]!, values[i], keys[i]!), keys[i]!, given, order?.[i])
    }
    if (late > 0) this.#context.late(late)
    given.flush()
  }

  #timed(time: number, value: unknown, key: PipelineKey): Timed {
    const { origins, name } = this.#context
    return origins ? { time, value, id: origins.keyOf(name, { time, value, key }) } : { time, value }
  }

  #takeOne(side: Side, taken: Timed, key: PipelineKey, given: Joined, order: number | undefined): void {
    const other = side === 'left' ? 'right' : 'left'
    const { fromMs, toMs } = this.#interval
    const partners = this.#held[other].get(this.#held[other].space(0), key) ?? []
    let record = taken
    partners.forEach((partner, at) => {
      const [left, right] = side === 'left' ? [record, partner] : [partner, record]
      const difference = right.time - left.time
      if (difference < fromMs || difference > toMs) return
      if (this.#isAlone[side]) record = { ...record, isSettled: true }
      if (this.#isAlone[other] && !partner.isSettled) this.#noteSettled(other, key, at)
      this.#add(given, left, right, key, Math.max(left.time, right.time), order)
    })
    const table = this.#held[side]
    const slot = table.space(0).slots.get(key)
    if (slot === undefined) table.add(table.space(0), key, [record])
    else table.own(table.space(0), slot, (held) => [...held]).push(record)
    this.#schedule(side, key, record)
  }

  #noteSettled(side: Side, key: PipelineKey, at: number): void {
    const table = this.#held[side]
    const own = table.own(table.space(0), table.space(0).slots.get(key)!, (held) => [...held])
    own[at] = { ...own[at]!, isSettled: true }
  }

  #add(
    given: Joined,
    left: Timed | undefined,
    right: Timed | undefined,
    key: PipelineKey,
    time: number,
    order?: number,
  ): void {
    const join = () => this.#join(left?.value as A | undefined, right?.value as B | undefined)
    given.add(join, [left?.value, right?.value], key, time, order, this.#originOf(left, right, key))
  }

  /** The origin of both records: a pair has the same key whichever record arrived last. */
  #originOf(left: Timed | undefined, right: Timed | undefined, key: PipelineKey): RecordOrigin | undefined {
    const { origins, name } = this.#context
    if (!origins) return
    const idOf = (held: Timed | undefined) =>
      held === undefined ? '-' : (held.id ?? origins.keyFrom(byTime, name, { ...held, key }))
    return { cause: `pair ${idOf(left)} ${idOf(right)}`, path: '', isTimed: false, times: 0 }
  }

  #advance(watermark: number): void {
    if (this.#progress.advance(watermark)) {
      this.#giveAlone(watermark)
      for (const side of sides) this.#forget(side, watermark)
    }
    this.#next.watermark(watermark)
  }

  /** Emits records that are certain to have no partner, in the order of these times. */
  #giveAlone(watermark: number): void {
    const given = new Joined(this.#next, this.#context)
    for (;;) {
      const side = this.#waiting.left.next <= this.#waiting.right.next ? 'left' : 'right'
      const due = this.#waiting[side].take(watermark)
      if (!due) break
      const table = this.#held[side]
      for (const key of due.items) {
        const held = table.get(table.space(0), key) ?? []
        held.forEach((record, at) => {
          if (record.isSettled || this.#overAt(side, record.time) !== due.time) return
          this.#noteSettled(side, key, at)
          // The time at which the lack of a partner was certain, so that the result is not late for later operators.
          const time = Math.max(record.time, this.#lastOf(side, record.time))
          const [left, right] = side === 'left' ? [record, undefined] : [undefined, record]
          this.#add(given, left, right, key, time)
        })
      }
    }
    given.flush()
  }

  #forget(side: Side, watermark: number): void {
    const table = this.#held[side]
    for (let due = this.#forgetting[side].take(watermark); due; due = this.#forgetting[side].take(watermark)) {
      for (const key of due.items) {
        const held = table.get(table.space(0), key) ?? []
        const kept = held.filter(({ time }) => this.#overAt(side, time) > watermark)
        if (kept.length === 0) table.delete(table.space(0), key)
        else if (kept.length < held.length) table.set(table.space(0), key, kept)
      }
    }
  }
}
