// The parts of a projection's checkpoint in memory: its state and its feed position. A Keyed, alone or as a field of a
// plain object, is its own part, so that only its changes are written.

import { Keyed } from '../../core/keyed/keyed.ts'
import type { FeedPosition } from '../../core/store/ports.ts'
import type { Quarantined } from '../../engine/feed/sink.ts'
import { isPlainObject } from '../../engine/snapshot/capture.ts'

interface Bound {
  readonly position: FeedPosition
  readonly events: number
  readonly quarantine: readonly Quarantined[]
}

export interface Captured extends Bound {
  readonly layout: 'value' | 'keyed' | 'object'
  readonly state: unknown
}

export function partsOf(bound: Bound, state: unknown): Record<string, unknown> {
  if (state instanceof Keyed) return { ...bound, layout: 'keyed', state }
  const keyeds = isPlainObject(state) ? Object.entries(state).filter(([, part]) => part instanceof Keyed) : []
  if (keyeds.length === 0) return { ...bound, layout: 'value', state }
  const rest = Object.fromEntries(Object.entries(state as object).filter(([, part]) => !(part instanceof Keyed)))
  const parts = Object.fromEntries(keyeds.map(([name, part]) => [`state.${name}`, part]))
  return { ...bound, layout: 'object', state: rest, ...parts }
}

export function stateOf(captured: Captured & Record<string, unknown>): unknown {
  if (captured.layout !== 'object') return captured.state
  const state = { ...(captured.state as object) } as Record<string, unknown>
  for (const [name, part] of Object.entries(captured)) if (name.startsWith('state.')) state[name.slice(6)] = part
  return state
}
