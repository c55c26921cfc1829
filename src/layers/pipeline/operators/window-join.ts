// Joins two streams by key within the same window. A window emits its pairs when it closes and, in an outer join, the records
// without a partner.

import { assert } from '../../../core/assert.ts'
import type { Batch } from '../batch.ts'
import { keepsOrder, type MakeOperator, tablesOf } from '../operator.ts'
import { StateTable } from '../rules/state-table.ts'
import { endOf, type FixedWindows, isForgotten, nextEnd, startsOf } from '../rules/windows.ts'
import { Progress } from './fixed-window.ts'
import { Joined, type Outer, pairsAgain, sidesOf } from './joined.ts'
import { mergedInputs } from './union.ts'

interface Sides<A, B> {
  readonly left: A[]
  readonly right: B[]
}

/** Runs once per checkpoint and key; in between, records are added in place, however many a key has. */
function copySides<A, B>({ left, right }: Sides<A, B>): Sides<A, B> {
  return { left: [...left], right: [...right] }
}

/** The records of one side, or undefined in their place if an outer join emits the other side without a partner. */
function partnersOf<V>(held: readonly V[], isOptional: boolean): readonly (V | undefined)[] {
  return held.length === 0 && isOptional ? [undefined] : held
}

/** Emits every pair of the same key in the same window when the window closes. */
export function windowJoined<A, B, R>(
  windows: FixedWindows,
  join: (left: A | undefined, right: B | undefined, window: { readonly start: number; readonly end: number }) => R,
  outer?: Outer,
): MakeOperator {
  const isAlone = sidesOf(outer)
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
          if (isForgotten(endOf(windows, start), 0, progress.watermark)) continue
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
      const over = [...state.spaces()].filter(({ id }) => endOf(windows, id) <= time).sort((a, b) => a.id - b.id)
      for (const space of over) {
        const window = { start: space.id, end: endOf(windows, space.id) }
        const given = new Joined(next!, context)
        for (const [key, { left, right }] of space.entries()) {
          for (const a of partnersOf(left, isAlone.right)) {
            for (const b of partnersOf(right, isAlone.left)) {
              given.add(() => join(a, b, window), [a, b], key, window.end - 1)
            }
          }
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
          return join(left as A, right as B, {
            start: windows.days?.startOf(time) ?? time + 1 - windows.lengthMs,
            end: time + 1,
          })
        }),
      ],
      restored: () => progress.restored(),
      dueAbove: (watermark) => nextEnd(windows, 0, watermark),
    }
  })
}
