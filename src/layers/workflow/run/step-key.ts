// The idempotency key of a step: known before anything is written, and the same for every attempt of every owner. It is
// derived from the run's recorded identity, its generation, the step's id, and the step's declared input; without a
// declared input, from everything that the code of its scope has observed (observations.ts). Runs without a recorded
// identity keep their old keys: the run's name, its generation and the step's id.

import { toHex } from '../../../core/coordinate.ts'
import { compensationKey } from '../../../core/history/effects.ts'
import { formerStepKey, intentKey } from '../../../core/identity.ts'
import type { Hash } from '../../../core/store/ports.ts'
import { own, type RunState } from '../history/state.ts'
import { type Digester, digestOf, type Position } from './observations.ts'
import { stepName } from './scope.ts'

/** The step that a key is for. */
export interface KeyedStep {
  readonly id: string
  /** The digest of the step's declared input; null if it declares none. */
  readonly input: string | null
  readonly observed: Position
}

type KeyState = Pick<RunState, 'keyBase' | 'generation' | 'identity' | 'reruns'>

export function keyOf(state: KeyState, { id, input, observed }: KeyedStep, hash: Hash): string {
  const { identity, generation, keyBase } = state
  const repeated = repeatedId(state, id)
  if (!identity) return formerStepKey(hash, keyBase, generation, repeated)
  const parts = input === null ? [repeated, 'observed', observed.digest()] : [repeated, 'input', input]
  return intentKey(hash, { identity, generation, model: 'workflow', name: stepName(id), parts })
}

/** The key of the compensation of the step with this key. */
export function undoKeyOf(state: KeyState, id: string, key: string, hash: Hash): string {
  if (state.identity) return compensationKey(key, hash)
  return formerStepKey(hash, state.keyBase, state.generation, `${repeatedId(state, id)}~undo`)
}

/** Each re-run of a step is another intent than the call before it. */
function repeatedId({ reruns = {} }: KeyState, id: string): string {
  const count = own(reruns, id, 0)
  return count === 0 ? id : `${id}~rerun:${count}`
}

export function inputDigest(digester: Digester, input: unknown): string {
  return toHex(digestOf(digester, input))
}
