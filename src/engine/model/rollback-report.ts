// The report of a rollback.

import type { Coordinate, TimelineId } from '../../core/coordinate.ts'
import type { CompensationPlan } from '../../core/history/effects.ts'

/** A reader that has acted on entries that a rollback undoes. */
export interface Consumer {
  readonly kind: 'fork' | 'projection' | 'process-manager' | 'consumer' | 'pipeline' | 'stream' | 'mail' | 'child'
  /** The timeline that acted: the fork, the reader, the receiver, the child. For a stream: the timeline that was read. */
  readonly timeline: string
  /** A description for people. */
  readonly what: string
}

/** The first entry of a branch, if it must report its rollback to readers of the feed. */
export const rolledBackType = '$rolled-back'

export interface RolledBack {
  readonly archive: string
  readonly to: number
  /** The consumers of undone entries: the rollback was forced. */
  readonly consumed?: readonly Consumer[]
}

/** The plan of a model that undoes its effects itself. */
export const noEffects: CompensationPlan = { compensate: [], cannot: [], inDoubt: [], carry: [], inherited: [] }

export interface Rollback {
  readonly timeline: TimelineId
  /** The timeline that keeps the undone history. Null: the model undoes it in its own history. */
  readonly archive: TimelineId | null
  readonly from: number
  readonly to: Coordinate
  /** Effects done after that point: those to compensate, in this order; those that cannot be; those in doubt. */
  readonly effects: CompensationPlan
  /** Readers that had acted on undone entries; set if the rollback was forced. */
  readonly consumed?: readonly Consumer[]
  /**
   * Set if the run executes the rollback itself and has only been requested to: its target step, and the steps undone,
   * in order.
   */
  readonly asked?: { readonly from: string; readonly undoes: readonly string[] }
}
