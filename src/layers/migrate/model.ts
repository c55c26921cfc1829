// What tools know of migrations.

import type { Fold } from '../../engine/definition.ts'
import type { Model } from '../../engine/model.ts'
import { type MigrateState, migrateFold } from './state.ts'

const instead = 'what a step did outside is not undone by forgetting it; add a step that undoes it'

export const migrateKind: Model = {
  kind: 'migrations',
  name: null,
  scope: 'migrate/',
  fold: migrateFold as Fold<unknown>,
  policy: 'fixed',
  unfinished: ['running', 'stopped', 'failed'],
  summarize(state) {
    const { applied, current } = state as MigrateState
    return { applied: applied.length, ...(current && { underWay: current.id, error: current.error }) }
  },
  actions: {
    resume: { instead: 'run them again: they go on at the step that failed' },
    cancel: { instead: 'stop the process that runs them: the next run goes on at the step that was under way' },
    rollback: { instead },
    fork: { instead },
  },
}

export function migrateModel(name: string): Model {
  return { ...migrateKind, name, scope: `migrate/${name}` }
}
