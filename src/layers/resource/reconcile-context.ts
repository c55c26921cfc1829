// The context a reconcile receives, and the options of the kinds a controller watches.

import type { Duration } from '../../core/duration.ts'
import type { RateSettings } from '../../core/retry/rate.ts'
import type { ResolvedRetry } from '../../core/retry/retry.ts'
import type { EffectCall, EffectOptions } from '../../engine/history/effects.ts'
import type { ResourceHandle } from './handle.ts'
import type { ResourceDefinition } from './resource.ts'
import type { ResourceObject, StatusChange } from './rules/object.ts'

/** A further kind whose changes concern objects of the first. */
export interface Watched<Spec = unknown, Status = unknown> {
  readonly of: ResourceDefinition<Spec, Status>
  /** The id the resource is opened with, if any. */
  readonly id?: string
  /** The names of the objects that a change of this one concerns. Default: its owners of the first kind. */
  readonly concerns?: (object: ResourceObject<Spec, Status>) => readonly string[]
}

export interface ReconcileContext<Spec = unknown, Status = unknown> {
  readonly name: string
  /** The current object; undefined: it was deleted. */
  readonly object: ResourceObject<Spec, Status> | undefined
  /** 1 for the first attempt. */
  readonly attempt: number
  /** Fires when this process stops working. */
  readonly signal: AbortSignal
  /** Writes status and conditions with the generation of `object`, in one commit. FENCED once another process does the work. */
  report(status: Omit<StatusChange<Status>, 'observedGeneration'>): Promise<ResourceObject<Spec, Status>>
  /**
   * Runs an effect: the intent is durable before the call, the outcome after it. Runs once per object, generation, spec and
   * name (or `id`), with a key that is stable across crashes; for a deleted object once per object and name.
   */
  effect<T>(name: string, call: (effect: EffectCall) => Promise<T> | T, options?: EffectOptions<T>): Promise<T>
  /** Stores an event about the object, for people. */
  event(reason: string, message: string, type?: 'Normal' | 'Warning'): Promise<void>
  /** The handle of a watched kind, to read and write the object's dependents. */
  of<S, T>(definition: ResourceDefinition<S, T>): ResourceHandle<S, T>
}

/** Reconcile the object again after this time, regardless of changes. */
export interface Requeue {
  readonly requeueAfter: Duration
}

export type Reconcile<Spec = unknown, Status = unknown> = (
  context: ReconcileContext<Spec, Status>,
) => Requeue | undefined | void | Promise<Requeue | undefined | void>

export interface ControllerSettings {
  readonly concurrency: number
  readonly rate: RateSettings | null
  readonly retry: ResolvedRetry
  readonly everyMs: number | null
}
