// What a reconcile is given, and what a controller is told about the kinds it watches.

import type { RateSettings } from '../../core/calls/rate.ts'
import type { ResolvedRetry } from '../../core/calls/retry.ts'
import type { Duration } from '../../core/duration.ts'
import type { EffectCall, EffectOptions } from '../../engine/history/effects.ts'
import type { ResourceHandle } from './handle.ts'
import type { ResourceDefinition } from './resource.ts'
import type { ResourceObject, StatusChange } from './rules/object.ts'

/** A further kind whose changes concern objects of the first. */
export interface Watched<Spec = unknown, Status = unknown> {
  readonly of: ResourceDefinition<Spec, Status>
  /** The id that it is opened with, if it has one. */
  readonly id?: string
  /** The names of the objects that a change of this one concerns; its owners of the first kind if left out. */
  readonly concerns?: (object: ResourceObject<Spec, Status>) => readonly string[]
}

export interface ReconcileContext<Spec = unknown, Status = unknown> {
  readonly name: string
  /** As it is now; undefined: it is gone. */
  readonly object: ResourceObject<Spec, Status> | undefined
  /** 1 for the first attempt. */
  readonly attempt: number
  /** Fires when this process stops working. */
  readonly signal: AbortSignal
  /** Status and conditions with the generation of `object`, in one commit. FENCED once another process does the work. */
  report(status: Omit<StatusChange<Status>, 'observedGeneration'>): Promise<ResourceObject<Spec, Status>>
  /**
   * Calls the outside: the intent is durable before, the outcome after. Once per object, generation and name (or `id`), with
   * a key that stays the same over crashes.
   */
  effect<T>(name: string, call: (effect: EffectCall) => Promise<T> | T, options?: EffectOptions<T>): Promise<T>
  /** Something that people may want to know of the object. */
  event(reason: string, message: string, type?: 'Normal' | 'Warning'): Promise<void>
  /** The handle of a kind that is watched, to read and write what the object owns. */
  of<S, T>(definition: ResourceDefinition<S, T>): ResourceHandle<S, T>
}

/** Look at it again after this time, whatever happens. */
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
