// Lets the first record of a key through, and no other within a time of it: by the records' own times where they have them,
// else by the clock. What is older than that is forgotten.

import { assert } from '../../../core/assert.ts'
import type { PipelineKey } from '../../../core/pipeline/key-groups.ts'
import { StateTable } from '../../../core/pipeline/state-table.ts'
import { TimeQueue } from '../../../core/pipeline/time-queue.ts'
import { pick } from '../batch.ts'
import { type MakeOperator, tablesOf } from '../operator.ts'

export function deduped(withinMs: number, hasTimes: boolean): MakeOperator {
  return ([next], context) => {
    /** When the record was that was let through. */
    const seen = new StateTable<number>()
    const forgetting = new TimeQueue<PipelineKey>()
    const width = Math.max(1, Math.ceil(withinMs / 8))
    const schedule = (key: PipelineKey, time: number) =>
      forgetting.add(Math.ceil((time + withinMs) / width) * width, key)
    const forget = (until: number) => {
      for (let due = forgetting.take(until); due; due = forgetting.take(until)) {
        for (const key of due.items) {
          const time = seen.get(seen.space(0), key)
          if (time !== undefined && time + withinMs <= until) seen.delete(seen.space(0), key)
        }
      }
    }
    return {
      tables: tablesOf({ seen }),
      inputs: [
        {
          batch(batch) {
            const { values, times, keys } = batch
            assert(keys !== null, 'dedupe has keys')
            const space = seen.space(0)
            const kept: number[] = []
            for (let i = 0; i < values.length; i++) {
              const key = keys[i]!
              const time = times ? times[i]! : context.clock.now()
              const before = seen.get(space, key)
              if (before !== undefined && Math.abs(time - before) < withinMs) continue
              kept.push(i)
              // A late one is let through, and does not move the time of the one that was.
              if (before !== undefined && time < before) continue
              seen.set(space, key, time)
              schedule(key, time)
            }
            if (kept.length > 0) next!.batch(kept.length === values.length ? batch : pick(batch, kept))
          },
          watermark(time) {
            if (hasTimes) forget(time)
            next!.watermark(time)
          },
          idle: () => next!.idle(),
        },
      ],
      restored() {
        for (const [key, time] of seen.space(0).entries()) schedule(key, time)
      },
      tick(now) {
        if (!hasTimes) forget(now)
      },
    }
  }
}
