// State as of a sequence or coordinate, recovered separately with the known fold of the timeline, and presented by its model. It
// declares nothing, so a long-running process keeps the timeline's model.

import type { Coordinate } from '../core/coordinate.ts'
import { toHex } from '../core/coordinate.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { locate, type TimelinePoint } from '../engine/history/locate.ts'
import { recover } from '../engine/history/recover.ts'
import { retryWithFreshHead } from '../engine/history/retry-with-fresh-head.ts'
import { hostOf } from '../engine/host/host.ts'
import type { StateAt } from '../engine/model/definition.ts'
import { foldFor } from './known-models.ts'
import { changesOf, plainState, type StateChanges } from './readable-state.ts'

/** As plain data, for people. */
export async function stateAt(engine: Reprise, where: TimelinePoint): Promise<StateAt<unknown>> {
  const { state, coordinate } = await recoverAt(engine, where)
  return { state: plainState(state, hostOf(engine).codec), coordinate }
}

export interface StateComparison extends StateChanges {
  readonly before: Coordinate
  readonly after: Coordinate
}

/** The changes between two coordinates, compared before values are shortened for display. */
export async function diffStates(engine: Reprise, from: TimelinePoint, to: TimelinePoint): Promise<StateComparison> {
  const [before, after] = await Promise.all([recoverAt(engine, from), recoverAt(engine, to)])
  const changes = changesOf(before.state, after.state, hostOf(engine).codec)
  return { before: before.coordinate, after: after.coordinate, ...changes }
}

async function recoverAt(engine: Reprise, where: TimelinePoint): Promise<StateAt<unknown>> {
  const { kernel, models } = hostOf(engine)
  const { timeline } = where
  const fold = foldFor(engine, timeline)
  const model = models.find(timeline)
  return await retryWithFreshHead(async () => {
    const { head, point } = await locate(kernel, where)
    const { state } = await recover(kernel, head, fold, { to: point.seq })
    const coordinate: Coordinate = {
      timeline: head.timeline,
      seq: point.seq,
      epoch: head.epoch,
      digest: toHex(point.digest),
    }
    const shown = model?.shows ? await model.shows(state.value, { engine, timeline }) : state.value
    return { state: shown, coordinate }
  })
}
