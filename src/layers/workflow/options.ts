// Options of a definition, for all its runs, and options of a single start.

import type { CheckpointPolicy } from '../../core/checkpoint/checkpoint-policy.ts'
import type { RetentionPolicy } from '../../core/checkpoint/retention.ts'
import type { Duration } from '../../core/duration.ts'
import { type Allowed, aNumber, anObject, aText, namesOf } from '../../core/options.ts'
import type { RetryPolicy } from '../../core/retry/retry.ts'
import type { Attribute } from '../../core/store/ports.ts'
import type { StandardSchema } from '../../engine/model/schema.ts'
import type { QueueDefinition } from './queue/queue.ts'

export interface WorkflowOptions {
  /**
   * The schema of the input, by any Standard Schema (zod, valibot, …). A start with an invalid input is refused, and the run
   * receives the value as the schema returns it. The dashboard builds its form from it, if its library exports JSON Schema.
   */
  readonly input?: StandardSchema
  /** The deadline of a run, from its start. The run then ends as if cancelled, with TIMEOUT. */
  readonly timeout?: Duration
  /** The retry policy of steps without their own. */
  readonly retry?: RetryPolicy
  /**
   * Policy for a compensation that fails permanently. 'hold': the run stops there, and a person settles or retries the
   * compensation. 'restore': the run goes back to before the first call that could be undone, is held there, and
   * reports the steps that were not undone; `run.resume()` continues from there, with keys of a new generation.
   * Default: 'hold'.
   */
  readonly whenUndoFails?: 'hold' | 'restore'
  /**
   * 'step': each outcome is durable before the code continues. A window: outcomes become durable together. Default:
   * 'step'.
   */
  readonly durability?: 'step' | { readonly window: Duration }
  /** Limits across all processes. */
  readonly queue?: QueueDefinition
  /** The number of runs that this process executes at a time. Default: 1,000. */
  readonly concurrency?: number
  /**
   * When a run is checkpointed: by count, by time (while it is in memory), to recover within a budget, by the rate of
   * failures, and after the steps named in `on` (milestones, irreversible calls). The first condition that is met
   * fires. Default: at a loop boundary after 1,000 entries.
   */
  readonly checkpoint?: CheckpointPolicy
  /** Which checkpoints and history are kept. Default: two checkpoints and the history that they need. */
  readonly retain?: RetentionPolicy
}

export interface StartOptions {
  /** The id of the run; a run is started once under an id. Default: generated. */
  readonly id?: string
  /**
   * Policy if a run with this id exists. 'use': return it if its input is the same or none is passed, else reject.
   * 'reject': always reject. 'restart': run again if it has ended. Default: 'use'.
   */
  readonly ifExists?: 'use' | 'reject' | 'restart'
  readonly attributes?: Readonly<Record<string, Attribute>>
  /** Runs with a higher priority are claimed first when workers are at capacity. */
  readonly priority?: number
  /** The deadline of this run, relative to now. */
  readonly timeout?: Duration
  /** The key for the queue's limit per key. */
  readonly queueKey?: string
  /** The earliest start, as a duration from now. */
  readonly delay?: Duration
  /** False: this process only creates the run, and a worker executes it. Default: true. */
  readonly here?: boolean
}

export const startValues: Readonly<Record<string, readonly Allowed[]>> = {
  ifExists: ['use', 'reject', 'restart'],
  attributes: [anObject],
  priority: [aNumber],
  queueKey: [aText],
  here: [['true or false', (value) => typeof value === 'boolean']],
}

export const startOptions = namesOf<StartOptions>()('id ifExists attributes priority timeout queueKey delay here')
