// What layers ask of a definition whose results are remembered, without knowing the layer it comes from: ctx.memo of workflows
// and jobs calls it, and tells who asks.

import type { Coordinate } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { LayerHost } from './definition.ts'

export const recalls: unique symbol = Symbol('reprise.recalls')

/** Who asked for a result: where its run stood, and the step, or the item of a job. */
export interface Asker extends Coordinate {
  readonly step: string
}

/** What a run writes into its history of a shared result. */
export interface SharedFrom {
  /** The timeline of the entry. */
  readonly entry: string
  readonly from: string
  /** The worker that computed it, and whom it did it for. */
  readonly by: string
  readonly for: string | null
}

export interface Recalling<Args extends readonly unknown[], Result> {
  /** Of the arguments: equal ones have the same, whatever else the key is made of. */
  print(host: LayerHost, args: Args): string
  recall(
    host: LayerHost,
    args: Args,
    asked: { readonly signal: AbortSignal; readonly asker: Asker },
  ): Promise<{ readonly result: Result; readonly shared: SharedFrom }>
}

/** A definition whose results are shared by what they were computed from: a memo. */
export interface Recallable<Args extends readonly unknown[], Result> {
  readonly name: string
  readonly [recalls]: Recalling<Args, Result>
}

/** INVALID_ARGUMENT for what remembers nothing. */
export function recallingOf<Args extends readonly unknown[], Result>(
  definition: Recallable<Args, Result>,
): Recalling<Args, Result> {
  const recalling = (definition as Partial<Recallable<Args, Result>> | null | undefined)?.[recalls]
  if (recalling) return recalling
  throw new RepriseError('INVALID_ARGUMENT', 'ctx.memo must be given a memo, as memo() makes it', {})
}
