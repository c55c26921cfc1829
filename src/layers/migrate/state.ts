// The fold of a set of migrations: the applied steps with their checksums, and the step in progress.

import type { Entry } from '../../engine/history/history.ts'
import type { Fold } from '../../engine/model/definition.ts'

export interface AppliedStep {
  readonly id: string
  /** '' if the step has no such value. */
  readonly checksum: string
  readonly at: number
  readonly ms: number
}

export interface MigrateState {
  readonly applied: readonly AppliedStep[]
  /** The step that began and did not finish: it failed, or the process died in it. */
  readonly current: {
    readonly id: string
    readonly attempts: number
    readonly saved: unknown
    readonly error: string | null
    /** Number of counted failures while retries are left. */
    readonly failures?: number
    /** The time of the next attempt at the earliest, by the store's clock. */
    readonly retryAt?: number
  } | null
}

export interface MigrateEntries {
  readonly began: { readonly id: string }
  /** A value that a long step reads again when it is resumed. */
  readonly saved: { readonly id: string; readonly value: unknown }
  readonly applied: { readonly id: string; readonly checksum: string; readonly ms: number }
  /** A final failure: the next run starts counting again. */
  readonly failed: { readonly id: string; readonly error: string }
  /** An attempt failed and another follows: `n` counted failures so far, the next attempt not before `at`. */
  readonly retry: { readonly id: string; readonly n: number; readonly error: string; readonly at: number }
}

export const migrateFold: Fold<MigrateState> = {
  version: '1',
  initial: () => ({ applied: [], current: null }),
  apply(state, entry: Entry): MigrateState {
    switch (entry.type) {
      case 'began': {
        const { id } = entry.data as MigrateEntries['began']
        const { retryAt: _, ...held } = currentOf(state, id, 0)
        return { ...state, current: { ...held, attempts: held.attempts + 1 } }
      }
      case 'saved': {
        const { value } = entry.data as MigrateEntries['saved']
        return state.current ? { ...state, current: { ...state.current, saved: value } } : state
      }
      case 'failed': {
        const { id, error } = entry.data as MigrateEntries['failed']
        const { retryAt: _, failures: __, ...held } = currentOf(state, id, 1)
        return { ...state, current: { ...held, error } }
      }
      case 'retry': {
        const { id, n, error, at } = entry.data as MigrateEntries['retry']
        return { ...state, current: { ...currentOf(state, id, 1), error, failures: n, retryAt: at } }
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

/** The record of the step in progress. SQL has no `began` entry: its first failure is its first entry. */
function currentOf({ current }: MigrateState, id: string, attempts: number): NonNullable<MigrateState['current']> {
  return current?.id === id ? current : { id, attempts, saved: undefined, error: null }
}
