// What going back came to.

import type { Coordinate, TimelineId } from '../../core/coordinate.ts'
import type { CompensationPlan } from '../../core/history/effects.ts'

/** Who has acted on entries that a rollback undoes. */
export interface Consumer {
  readonly kind: 'fork' | 'projection' | 'process-manager' | 'consumer' | 'pipeline' | 'stream' | 'mail' | 'child'
  /** The timeline that acted: the fork, the reader, the receiver, the child. Of a stream: the timeline that was read. */
  readonly timeline: string
  /** In words, for people. */
  readonly what: string
}

/** The first entry of a branch, where readers of the feed have to be told of the rollback that made it. */
export const rolledBackType = '$rolled-back'

export interface RolledBack {
  readonly archive: string
  readonly to: number
  /** Who had acted on what was undone: the rollback was forced. */
  readonly consumed?: readonly Consumer[]
}

/** The plan of a model that undoes its effects itself. */
export const noEffects: CompensationPlan = { compensate: [], cannot: [], inDoubt: [], carry: [], inherited: [] }

export interface Rollback {
  readonly timeline: TimelineId
  /** Where the abandoned part of history is kept; null where the model undoes it in its own history. */
  readonly archive: TimelineId | null
  readonly from: number
  readonly to: Coordinate
  /** Effects done after that point: to be compensated in this order, those that cannot be, and those in doubt. */
  readonly effects: CompensationPlan
  /** Who had acted on what was undone: the rollback was forced. */
  readonly consumed?: readonly Consumer[]
  /** Where whoever executes it does it, and has been asked to: from which step on, and what is undone in this order. */
  readonly asked?: { readonly from: string; readonly undoes: readonly string[] }
}
