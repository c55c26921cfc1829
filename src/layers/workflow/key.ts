// The idempotency key of a step: known before anything is written, and the same for every attempt of every owner. It is derived
// from the run's recorded identity, its generation, the step's id, and the step's declared input; without one, from everything
// that the code of its scope has observed (observed.ts). Runs that recorded no identity keep the keys they had: the run's name,
// its generation and the step's id.

import { toHex } from '../../core/coordinate.ts'
import { compensationKey } from '../../core/effects.ts'
import { intentKey } from '../../core/identity.ts'
import type { Hash } from '../../core/ports.ts'
import { type Digester, digestOf, type Position } from './observed.ts'
import { stepName } from './scope.ts'
import type { RunState } from './state.ts'

/** The step that a key is for. */
export interface KeyedStep {
  readonly id: string
  /** The digest of the input it declares; null: it declares none. */
  readonly input: string | null
  readonly observed: Position
}

type KeyState = Pick<RunState, 'keyBase' | 'generation' | 'identity'>

export function keyOf(state: KeyState, { id, input, observed }: KeyedStep, hash: Hash): string {
  const { identity, generation } = state
  if (!identity) return plainKey(state, id, hash)
  const parts = input === null ? [id, 'observed', observed.digest()] : [id, 'input', input]
  return intentKey(hash, { identity, generation, model: 'workflow', name: stepName(id), parts })
}

/** Of the compensation of the step with this key. */
export function undoKeyOf(state: KeyState, id: string, key: string, hash: Hash): string {
  return state.identity ? compensationKey(key, hash) : plainKey(state, `${id}~undo`, hash)
}

export function inputDigest(digester: Digester, input: unknown): string {
  return toHex(digestOf(digester, input))
}

const lengthMax = 255

/** @example plainKey(state, 'charge', hash) // 'workflow/checkout/order-42:charge' */
export function plainKey(state: Pick<RunState, 'keyBase' | 'generation'>, id: string, hash: Hash): string {
  const generation = state.generation === 0 ? '' : `.${state.generation}`
  const text = `${state.keyBase.replaceAll('%', '%25').replaceAll(':', '%3A')}${generation}:${id}`
  // Visible ASCII and not too long: fit for a header.
  if (text.length <= lengthMax && /^[\x21-\x7e]+$/.test(text)) return text
  const tail = `#${toHex(hash(new TextEncoder().encode(text)))}`
  return text.replace(/[^\x21-\x7e]/g, '_').slice(0, lengthMax - tail.length) + tail
}
