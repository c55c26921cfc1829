// The protocol of definitions whose results are cached (memos), independent of the layer that defines them: ctx.memo of
// workflows and jobs calls it, and passes the caller's coordinate.

import type { Coordinate } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { LayerHost } from './definition.ts'

export const recalls: unique symbol = Symbol('reprise.recalls')

/** The caller that requested a result: the coordinate of its run, and the step, or the item of a job. */
export interface Asker extends Coordinate {
  readonly step: string
}

/** The record of a shared result in a run's history. */
export interface SharedFrom {
  /** The timeline of the cached entry. */
  readonly entry: string
  readonly from: string
  /** The worker that computed it, and the timeline for which it did. */
  readonly by: string
  readonly for: string | null
}

export interface Recalling<Args extends readonly unknown[], Result> {
  /** A digest of the arguments only; equal arguments have the same one, regardless of other parts of the key. */
  print(host: LayerHost, args: Args): string
  recall(
    host: LayerHost,
    args: Args,
    caller: { readonly signal: AbortSignal; readonly asker: Asker },
  ): Promise<{ readonly result: Result; readonly shared: SharedFrom }>
}

/** A definition that shares results by their inputs: a memo. */
export interface Recallable<Args extends readonly unknown[], Result> {
  readonly name: string
  readonly [recalls]: Recalling<Args, Result>
}

/** Throws INVALID_ARGUMENT for a definition that caches nothing. */
export function recallingOf<Args extends readonly unknown[], Result>(
  definition: Recallable<Args, Result>,
): Recalling<Args, Result> {
  const recalling = (definition as Partial<Recallable<Args, Result>> | null | undefined)?.[recalls]
  if (recalling) return recalling
  throw new RepriseError('INVALID_ARGUMENT', 'ctx.memo needs a memo that memo() created', {})
}
