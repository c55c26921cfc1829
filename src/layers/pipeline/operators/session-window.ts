// Windows that follow bursts: a session of a key ends when no record arrived for longer than `gapMs`. Late records may still
// join a session within the allowed lateness; the resulting session is then emitted again.

import { assert } from '../../../core/assert.ts'
import type { PipelineKey } from '../../../core/key-groups.ts'
import { TimeQueue } from '../../../core/time-queue.ts'
import { type Aggregation, neverThrows } from '../aggregate.ts'
import { type Batch, type Output, pick } from '../batch.ts'
import { type MakeOperator, recordOf, tablesOf } from '../operator.ts'
import { StateTable } from '../rules/state-table.ts'
import { isForgotten, mergeSession, type SessionWindows } from '../rules/windows.ts'
import { EarlyKeys } from './early-results.ts'
import { Progress, type WindowResult } from './fixed-window.ts'

/** A session changes in place while the table owns it (see `StateTable.own`). */
interface Session<A> {
  start: number
  end: number
  accumulator: A
}

export function sessions<T, A, R>(
  { gapMs }: SessionWindows,
  { lateMs, earlyMs }: { readonly lateMs: number; readonly earlyMs: number | null },
  aggregation: Aggregation<T, A, R>,
): MakeOperator {
  return ([next, late], context) => {
    const state = new StateTable<Session<A>[]>()
    const progress = new Progress()
    /** An open session has a queue entry at or before its end; a closed one has an entry at the time of its removal. */
    const queue = new TimeQueue<PipelineKey>()
    const early = new EarlyKeys<true>(earlyMs)
    const { initial, add, merge, result, copy } = aggregation
    const of = (key: PipelineKey) => state.get(state.space(0), key) ?? []
    const copied = (held: readonly Session<A>[]) =>
      held.map(({ start, end, accumulator }) => ({ start, end, accumulator: copy ? copy(accumulator) : accumulator }))
    const schedule = (key: PipelineKey, end: number, now: number) => queue.add(end > now ? end : end + lateMs, key)
    const resultOf = (key: PipelineKey, { start, end, accumulator }: Session<A>): WindowResult<R> => {
      return { key, start, end, value: result(accumulator) }
    }
    const give = (results: readonly WindowResult<R>[]) => {
      if (results.length === 0) return
      next!.batch({
        values: results,
        times: results.map(({ end }) => end - 1),
        keys: results.map(({ key }) => key),
      })
    }
    const mayThrow = !neverThrows(aggregation)
    /** Merges two sessions and changes neither: the record between them may still be poison. */
    const together = (a: Session<A>, b: Session<A>) => merge(copy ? copy(a.accumulator) : a.accumulator, b.accumulator)
    /** Null: the record is too late. A closed session is emitted again with the record; an open one has no result yet. */
    const put = (key: PipelineKey, time: number, value: T): readonly WindowResult<R>[] | null => {
      const { watermark } = progress
      const space = state.space(0)
      const slot = space.slots.get(key)
      const { start, end, at, absorbed } = mergeSession(slot === undefined ? [] : space.values[slot]!, time, gapMs)
      if (isForgotten(end, lateMs, watermark)) return null
      const held = slot === undefined ? [] : absorbed === 0 ? space.values[slot]! : state.own(space, slot, copied)
      const session = absorbed === 0 ? null : held[at]!
      const second = absorbed === 2 ? held[at + 1]! : null
      const isOver = end <= watermark
      const before = session === null ? initial() : second ? together(session, second) : session.accumulator
      const mustCopy = copy && isOver && mayThrow && session !== null && second === null
      const accumulator = add(mustCopy ? copy(before) : before, value)
      const again = isOver ? [resultOf(key, { start, end, accumulator })] : []
      // The aggregation has returned: from here on nothing throws.
      early.note(true, key)
      if (session === null) {
        const own = { start, end, accumulator }
        if (slot === undefined) state.add(space, key, [own])
        else state.own(space, slot, copied).splice(at, 0, own)
        schedule(key, end, watermark)
      } else {
        // The session has a queue entry before its end, which reads the current end when it is due.
        const isWaited = session.end > watermark || (second !== null && second.end > watermark)
        Object.assign(session, { start, end, accumulator })
        if (second) held.splice(at + 1, 1)
        if (!isWaited) schedule(key, end, watermark)
      }
      return again
    }
    const input: Output = {
      batch(batch: Batch) {
        const { values, times, keys } = batch
        assert(times !== null && keys !== null, 'a window has keys and times')
        const tooLate: number[] = []
        const again: WindowResult<R>[] = []
        for (let i = 0; i < values.length; i++) {
          try {
            const results = put(keys[i]!, times[i]!, values[i] as T)
            if (results === null) tooLate.push(i)
            else again.push(...results)
          } catch (error) {
            context.poison(recordOf(batch, i), error)
          }
        }
        give(again)
        if (tooLate.length === 0) return
        context.late(tooLate.length)
        late!.batch(pick(batch, tooLate))
      },
      watermark(time) {
        const before = progress.watermark
        if (progress.advance(time)) {
          for (let due = queue.take(time); due; due = queue.take(time)) {
            const over: WindowResult<R>[] = []
            for (const key of due.items) {
              const space = state.space(0)
              const slot = space.slots.get(key)
              if (slot === undefined) continue
              let forgotten = 0
              for (const session of space.values[slot]!) {
                if (session.end === due.time && session.end > before) over.push(resultOf(key, session))
                if (isForgotten(session.end, lateMs, due.time)) forgotten += 1
                else schedule(key, session.end, due.time)
              }
              // Sessions are in order, so the removed ones are first.
              if (forgotten === space.values[slot]!.length) state.delete(space, key)
              else if (forgotten > 0) state.own(space, slot, copied).splice(0, forgotten)
            }
            give(over)
          }
        }
        next!.watermark(time)
        late!.watermark(time)
      },
      idle() {
        next!.idle()
        late!.idle()
      },
    }
    return {
      tables: tablesOf({ sessions: state, progress: progress.table }),
      inputs: [input],
      // Later records are not late, so a session that they begin ends one gap later at the earliest.
      isDueByState: true,
      dueAbove: (watermark) => (queue.next > watermark ? Math.min(queue.next, watermark + gapMs) : watermark),
      restored() {
        progress.restored()
        for (const [key, held] of state.space(0).entries()) {
          for (const { end } of held) schedule(key, end, progress.watermark)
          early.note(true, key)
        }
      },
      tick(now) {
        for (const keys of early.take(now).values()) {
          const open = [...keys].flatMap((key) =>
            of(key).flatMap((each) =>
              each.end > progress.watermark ? [{ ...resultOf(key, each), isEarly: true as const }] : [],
            ),
          )
          give(open)
        }
      },
    }
  }
}
