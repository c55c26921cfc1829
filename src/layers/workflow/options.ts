// What a definition says of all its runs, and what is said when one is started.

import type { RetryPolicy } from '../../core/calls/retry.ts'
import type { CheckpointPolicy } from '../../core/checkpoint/checkpoint-policy.ts'
import type { RetentionPolicy } from '../../core/checkpoint/retention.ts'
import type { Duration } from '../../core/duration.ts'
import { type Allowed, aNumber, namesOf } from '../../core/options.ts'
import type { Attribute } from '../../core/store/ports.ts'
import type { QueueDefinition } from './queue/queue.ts'

export interface WorkflowOptions {
  /** Deadline of a run, from its start; it then ends as if cancelled, with TIMEOUT. */
  readonly timeout?: Duration
  /** For steps that declare none. */
  readonly retry?: RetryPolicy
  /**
   * What becomes of a run of which a compensation fails for good. 'hold' (default): it stops there, and a person settles that
   * compensation or tries it again. 'restore': it goes back to before the first call that could be undone, is held there, and
   * says what stands; `run.resume()` lets it go on from there, with keys of a new generation.
   */
  readonly whenUndoFails?: 'hold' | 'restore'
  /** 'step' (default): each outcome is durable before code goes on. A window: outcomes become durable together. */
  readonly durability?: 'step' | { readonly window: Duration }
  /** Limits across all processes. */
  readonly queue?: QueueDefinition
  /** How many runs this process executes at a time; 1,000 if left out. */
  readonly concurrency?: number
  /**
   * When a run is checkpointed; at a loop boundary after 1,000 entries if left out. By count, by time (while it is in memory),
   * to recover within a budget, by the rate of failures, and after steps of the names in `on`: milestones, irreversible
   * calls. Several together: the first that fires.
   */
  readonly checkpoint?: CheckpointPolicy
  /** What is kept of checkpoints and history; two checkpoints and what they need of history if left out. */
  readonly retain?: RetentionPolicy
}

export interface StartOptions {
  /** A run is started once under an id; made up if left out. */
  readonly id?: string
  /**
   * What to do if a run with this id exists: give that one if its input is the same, or none is passed, and refuse otherwise
   * (default); refuse; or run again if it has ended.
   */
  readonly ifExists?: 'use' | 'reject' | 'restart'
  readonly attributes?: Readonly<Record<string, Attribute>>
  /** Higher goes first when workers have more to do than they can. */
  readonly priority?: number
  /** Deadline of this run, from now. */
  readonly timeout?: Duration
  /** Key for the queue's limit per key. */
  readonly queueKey?: string
  /** Not before this: a duration from now. */
  readonly delay?: Duration
  /** False: leave it to the workers; this process only starts it. */
  readonly here?: boolean
}

export const startValues: Readonly<Record<string, readonly Allowed[]>> = {
  ifExists: ['use', 'reject', 'restart'],
  priority: [aNumber],
  here: [['true or false', (value) => typeof value === 'boolean']],
}

export const startOptions = namesOf<StartOptions>({
  id: true,
  ifExists: true,
  attributes: true,
  priority: true,
  timeout: true,
  queueKey: true,
  delay: true,
  here: true,
})
