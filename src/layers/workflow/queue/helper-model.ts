// The models of the timelines beside the runs: queues and schedules.

import type { Fold } from '../../../engine/model/definition.ts'
import type { Model } from '../../../engine/model/model.ts'

export function helperModel(kind: 'queue' | 'schedule', scope: string, fold: Fold<unknown>): Model {
  const instead = `a ${kind} is not a run: change its definition, or cancel the runs`
  return {
    kind,
    name: null,
    scope,
    fold,
    policy: 'fixed',
    headOf: (_, { timeline }, { worker }) => ({ status: 'open', queue: timeline, wakeup: worker.now(timeline) }),
    actions: { rollback: { instead }, fork: { instead }, cancel: { instead }, resume: { instead } },
    transfer: { stays: `a ${kind} is made where its definition is used` },
  }
}
