// How the history of a set of migrations folds: which steps were applied, with which checksum, and which one is under way.

import type { Fold } from '../../engine/definition.ts'
import type { Entry } from '../../engine/recovery/history.ts'

export interface AppliedStep {
  readonly id: string
  /** '' if the step has none. */
  readonly checksum: string
  readonly at: number
  readonly ms: number
}

export interface MigrateState {
  readonly applied: readonly AppliedStep[]
  /** The step that was begun and not finished: it failed, or the process died in it. */
  readonly current: {
    readonly id: string
    readonly attempts: number
    readonly saved: unknown
    readonly error: string | null
  } | null
}

export interface MigrateEntries {
  readonly began: { readonly id: string }
  /** What a long step wants to find again when it is resumed. */
  readonly saved: { readonly id: string; readonly value: unknown }
  readonly applied: { readonly id: string; readonly checksum: string; readonly ms: number }
  readonly failed: { readonly id: string; readonly error: string }
}

export const migrateFold: Fold<MigrateState> = {
  version: '1',
  initial: () => ({ applied: [], current: null }),
  apply(state, entry: Entry): MigrateState {
    switch (entry.type) {
      case 'began': {
        const { id } = entry.data as MigrateEntries['began']
        const held = state.current?.id === id ? state.current : { id, attempts: 0, saved: undefined, error: null }
        return { ...state, current: { ...held, attempts: held.attempts + 1 } }
      }
      case 'saved': {
        const { value } = entry.data as MigrateEntries['saved']
        return state.current ? { ...state, current: { ...state.current, saved: value } } : state
      }
      case 'failed': {
        const { id, error } = entry.data as MigrateEntries['failed']
        const held = state.current?.id === id ? state.current : { id, attempts: 1, saved: undefined, error: null }
        return { ...state, current: { ...held, error } }
      }
      case 'applied': {
        const { id, checksum, ms } = entry.data as MigrateEntries['applied']
        return { applied: [...state.applied, { id, checksum, ms, at: entry.time }], current: null }
      }
      default:
        return state
    }
  },
}
