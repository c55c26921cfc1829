// The idempotency key of a command: from the run's name, its generation and the command's identity, so that it is known
// before anything is written and is the same for every attempt of every owner.

import { toHex } from '../../core/coordinate.ts'
import type { Hash } from '../../core/ports.ts'
import type { RunState } from './state.ts'

const lengthMax = 255

/** @example keyOf(state, 'charge', hash) // 'workflow/checkout/order-42:charge' */
export function keyOf(state: Pick<RunState, 'keyBase' | 'generation'>, id: string, hash: Hash): string {
  const generation = state.generation === 0 ? '' : `.${state.generation}`
  const text = `${state.keyBase.replaceAll('%', '%25').replaceAll(':', '%3A')}${generation}:${id}`
  // Visible ASCII and not too long: fit for a header.
  if (text.length <= lengthMax && /^[\x21-\x7e]+$/.test(text)) return text
  const tail = `#${toHex(hash(new TextEncoder().encode(text)))}`
  return text.replace(/[^\x21-\x7e]/g, '_').slice(0, lengthMax - tail.length) + tail
}
