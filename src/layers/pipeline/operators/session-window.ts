// Windows that follow bursts: a session of a key ends when no record came for `gapMs`. Late records may still join a session
// while lateness is allowed; a result is then given again for the session that it makes.

import { assert } from '../../../core/assert.ts'
import type { PipelineKey } from '../../../core/pipeline/key-groups.ts'
import { StateTable } from '../../../core/pipeline/state-table.ts'
import { TimeQueue } from '../../../core/pipeline/time-queue.ts'
import { isForgotten, mergeSession, type SessionWindows } from '../../../core/pipeline/windows.ts'
import type { Aggregation } from '../aggregate.ts'
import { type Batch, type Output, pick } from '../batch.ts'
import { type MakeOperator, recordOf, tablesOf } from '../operator.ts'
import { EarlyKeys } from './early.ts'
import { Progress, type WindowResult } from './window.ts'

interface Session<A> {
  readonly start: number
  readonly end: number
  readonly accumulator: A
}

export function sessions<T, A, R>(
  { gapMs }: SessionWindows,
  { lateMs, earlyMs }: { readonly lateMs: number; readonly earlyMs: number | null },
  aggregation: Aggregation<T, A, R>,
): MakeOperator {
  return ([next, late], context) => {
    const state = new StateTable<readonly Session<A>[]>()
    const progress = new Progress()
    const queue = new TimeQueue<PipelineKey>()
    const early = new EarlyKeys<true>(earlyMs)
    const { initial, add, merge, result, copy } = aggregation
    const of = (key: PipelineKey) => state.get(state.space(0), key) ?? []
    const schedule = (key: PipelineKey, end: number) => {
      queue.add(end, key)
      if (lateMs > 0) queue.add(end + lateMs, key)
    }
    const give = (results: readonly (readonly [PipelineKey, Session<A>])[], isEarly = false) => {
      if (results.length === 0) return
      next!.batch({
        values: results.map(
          ([key, { start, end, accumulator }]): WindowResult<R> => ({
            ...{ key, start, end, value: result(accumulator) },
            ...(isEarly && { isEarly }),
          }),
        ),
        times: results.map(([, { end }]) => end - 1),
        keys: results.map(([key]) => key),
      })
    }
    /** The session that holds the record now; null: it is too late. */
    const put = (key: PipelineKey, time: number, value: T): Session<A> | null => {
      const before = of(key)
      const { merged, absorbed } = mergeSession(before, time, gapMs)
      if (isForgotten(merged.end, lateMs, progress.watermark)) return null
      const joined = before.filter((each) => absorbed.includes(each))
      // A session that is merged stays what it was in a checkpoint under way, so in-place changes need a copy.
      const base = joined.map(({ accumulator }) => (copy ? copy(accumulator) : accumulator))
      const accumulator = add(base.length === 0 ? initial() : base.reduce(merge), value)
      const session = { ...merged, accumulator }
      const others = before.filter((each) => !absorbed.includes(each))
      state.set(
        state.space(0),
        key,
        [...others, session].sort((a, b) => a.start - b.start),
      )
      schedule(key, session.end)
      early.note(true, key)
      return session
    }
    const input: Output = {
      batch(batch: Batch) {
        const { values, times, keys } = batch
        assert(times !== null && keys !== null, 'a window has keys and times')
        const tooLate: number[] = []
        const again = new Map<PipelineKey, Session<A>>()
        for (let i = 0; i < values.length; i++) {
          try {
            const session = put(keys[i]!, times[i]!, values[i] as T)
            if (session === null) tooLate.push(i)
            else if (session.end <= progress.watermark) again.set(keys[i]!, session)
          } catch (error) {
            context.poison(recordOf(batch, i), error)
          }
        }
        give([...again])
        if (tooLate.length === 0) return
        context.late(tooLate.length)
        late!.batch(pick(batch, tooLate))
      },
      watermark(time) {
        const before = progress.watermark
        if (progress.advance(time)) {
          for (let due = queue.take(time); due; due = queue.take(time)) {
            const over: [PipelineKey, Session<A>][] = []
            for (const key of due.items) {
              const held = of(key)
              for (const session of held) {
                if (session.end === due.time && session.end > before) over.push([key, session])
              }
              const kept = held.filter(({ end }) => !isForgotten(end, lateMs, due.time))
              if (kept.length === 0) state.delete(state.space(0), key)
              else if (kept.length < held.length) state.set(state.space(0), key, kept)
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
      restored() {
        progress.restored()
        for (const [key, held] of state.space(0).entries()) {
          for (const { end } of held) schedule(key, end)
          early.note(true, key)
        }
      },
      tick(now) {
        for (const keys of early.take(now).values()) {
          const open = [...keys].flatMap((key) =>
            of(key).flatMap((each) => (each.end > progress.watermark ? [[key, each] as const] : [])),
          )
          give(open, true)
        }
      },
    }
  }
}
