// Model of migrations, for tools.

import type { Fold } from '../../engine/model/definition.ts'
import { type JournalRow, journalRow } from '../../engine/model/journal-row.ts'
import type { Model } from '../../engine/model/model.ts'
import { type MigrateEntries, type MigrateState, migrateFold } from './state.ts'

const instead = 'removing a step from history does not undo its effects; add a step that undoes them'

export const migrateKind: Model = {
  kind: 'migrations',
  name: null,
  scope: 'migrate/',
  fold: migrateFold as Fold<unknown>,
  policy: 'fixed',
  unfinished: ['running', 'stopped', 'failed'],
  attention: ['failed'],
  summarize(state) {
    const { applied, current } = state as MigrateState
    return { applied: applied.length, ...(current && { underWay: current.id, error: current.error }) }
  },
  // Only the code knows whether steps are pending; it checks at each run.
  headOf: (state) => ({ status: (state as MigrateState).current ? 'failed' : 'stopped' }),
  statusLine(state) {
    const { applied, current } = state as MigrateState
    const steps = `${applied.length} ${applied.length === 1 ? 'step' : 'steps'} applied`
    if (!current) return { text: steps }
    const { id, error, retryAt } = current
    const text = `${steps}, ${error === null ? `${id} is in progress` : `${id} failed: ${error}`}`
    return { text, ...(retryAt !== undefined && { at: retryAt }) }
  },
  entryRow({ type, data }): JournalRow | null {
    const { id, error, n, at } = data as MigrateEntries['retry']
    if (type === 'began') return journalRow(id, 'step', 'begins')
    if (type === 'saved') return journalRow(id, 'step', 'beats')
    if (type === 'applied') return journalRow(id, 'step', 'ends')
    if (type === 'failed') return journalRow(id, 'step', 'fails', { error })
    return type === 'retry' ? journalRow(id, 'step', 'retries', { error, attempt: n, at }) : null
  },
  actions: {
    resume: { instead: 'run them again: they resume at the step that failed' },
    cancel: { instead: 'stop the process that runs them: the next run resumes at the interrupted step' },
    rollback: { instead },
    fork: { instead },
  },
}

export function migrateModel(name: string): Model {
  return { ...migrateKind, name, scope: `migrate/${name}` }
}
