// The application's check of its state, called where the engine captures and restores: in a zone of the guard, with an
// error that names the coordinate.

import { RepriseError } from '../../core/errors.ts'
import { whyInvalid } from '../../core/history/validity.ts'
import { callPure } from '../base/guard/zone.ts'
import type { Fold } from '../model/definition.ts'
import type { Kernel } from '../storage/kernel.ts'

interface Place {
  readonly timeline: string
  readonly seq: number
}

/** The reason this state is invalid. Null: it is valid, or no check is declared. */
export function invalidityOf<State>(kernel: Kernel, fold: Fold<State>, state: State, timeline: string): string | null {
  const { valid } = fold
  return valid ? callPure(kernel.guardsFolds(), `valid of ${timeline}`, () => whyInvalid(valid, state)) : null
}

/** `what` was not executed, or the state cannot be used for it. */
export function invalidState({ timeline, seq }: Place, reason: string, what: string): RepriseError {
  return new RepriseError('INVALID_STATE', `${timeline}@${seq}: ${what}: ${reason}`, { timeline, seq, reason })
}

/** Before a capture: an invalid state is not published. */
export function refuseInvalid<State>(kernel: Kernel, fold: Fold<State>, state: State, at: Place): void {
  const reason = invalidityOf(kernel, fold, state, at.timeline)
  if (reason !== null) throw invalidState(at, reason, 'no checkpoint is made, because the state is not valid')
}
