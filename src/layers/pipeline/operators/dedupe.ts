// Passes the first record of a key and drops others within a duration of it: by the records' own times where they have them,
// else by the clock. A record that passed is remembered until no record in time can be within that duration of it; a late
// record that passed is remembered for that duration after its arrival.

import { assert } from '../../../core/assert.ts'
import type { PipelineKey } from '../../../core/key-groups.ts'
import { TimeQueue } from '../../../core/time-queue.ts'
import { pick } from '../batch.ts'
import { keepsOrder, type MakeOperator, tablesOf } from '../operator.ts'
import { StateTable } from '../rules/state-table.ts'
import { lastWatermark } from '../rules/watermarks.ts'
import { Progress } from './fixed-window.ts'

/** The time of a record that passed, and the time until which it is remembered. */
type Passed = readonly [time: number, until: number]

/** A single record that arrived in time is stored as its time: most keys have just one. */
type Held = number | readonly Passed[]

export function deduped(withinMs: number, hasTimes: boolean): MakeOperator {
  return keepsOrder(([next], context) => {
    const seen = new StateTable<Held>()
    const progress = new Progress()
    const forgetting = new TimeQueue<PipelineKey>()
    const width = Math.max(1, Math.ceil(withinMs / 8))
    const schedule = (key: PipelineKey, until: number) => forgetting.add(Math.ceil(until / width) * width, key)
    const passedOf = (held: Held | undefined): readonly Passed[] =>
      held === undefined ? [] : typeof held === 'number' ? [[held, held + withinMs]] : held
    const remembered = (key: PipelineKey, now: number) =>
      passedOf(seen.get(seen.space(0), key)).filter(([, until]) => until > now)
    const keep = (key: PipelineKey, passed: readonly Passed[]) => {
      const [only] = passed
      const isPlain = passed.length === 1 && only![1] === only![0] + withinMs
      seen.set(seen.space(0), key, isPlain ? only![0] : passed)
    }
    const forget = (now: number) => {
      for (let due = forgetting.take(now); due; due = forgetting.take(now)) {
        for (const key of due.items) {
          const left = remembered(key, now)
          if (left.length === 0) seen.delete(seen.space(0), key)
          else if (left.length < passedOf(seen.get(seen.space(0), key)).length) keep(key, left)
        }
      }
    }
    return {
      tables: tablesOf({ seen, progress: progress.table }),
      inputs: [
        {
          batch(batch) {
            const { values, times, keys } = batch
            assert(keys !== null, 'dedupe has keys')
            const kept: number[] = []
            for (let i = 0; i < values.length; i++) {
              const key = keys[i]!
              const now = times ? progress.watermark : context.clock.now()
              const time = times ? times[i]! : now
              const near = remembered(key, now)
              if (near.some(([other]) => Math.abs(time - other) < withinMs)) continue
              kept.push(i)
              const until = Math.max(time, now) + withinMs
              keep(key, [...near, [time, until]])
              schedule(key, until)
            }
            if (kept.length > 0) next!.batch(kept.length === values.length ? batch : pick(batch, kept))
          },
          watermark(time) {
            if (hasTimes && progress.advance(time)) forget(time)
            next!.watermark(time)
          },
          idle: () => next!.idle(),
        },
      ],
      // The result for a record in time does not depend on the watermark; the result for a late record does.
      dueAbove: () => lastWatermark,
      restored() {
        progress.restored()
        for (const [key, held] of seen.space(0).entries()) for (const [, until] of passedOf(held)) schedule(key, until)
      },
      tick(now) {
        if (!hasTimes) forget(now)
      },
    }
  })
}
