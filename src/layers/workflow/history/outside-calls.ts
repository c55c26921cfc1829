// The steps of a run, from its history alone: its calls to the outside. The steps of earlier loop iterations are not in
// the state, like everything that a replay no longer needs.

import { type Inherited, ownerOf } from '../../../core/history/inheritance.ts'
import { liveIdOf } from '../../../core/history/scope.ts'
import { formerStepKey } from '../../../core/identity.ts'
import type { Hash } from '../../../core/store/ports.ts'
import type { ModelEffect } from '../../../engine/model/model.ts'
import { readableId } from '../run/scope.ts'
import { firstSeq } from './dependants.ts'
import { itemsOf } from './journal.ts'
import { own, type RunState } from './state.ts'

export function outsideOf(state: RunState, hash: Hash, inherited: readonly Inherited[] = []): ModelEffect[] {
  const { journal, open, undone, undos } = state
  const effect = (id: string, key: string | undefined, how: Omit<ModelEffect, 'id' | 'name' | 'key'>): ModelEffect => {
    const owner = how.seq === null ? null : ownerOf(inherited, how.seq)
    const base = owner === null ? state.keyBase : liveIdOf(owner)
    return {
      id: readableId(id),
      name: readableId(id),
      // A step whose call never read its key passed no key to the outside.
      key: key ?? (state.identity ? null : formerStepKey(hash, base, state.generation, id)),
      ...how,
      ...(owner !== null && { inheritedFrom: owner }),
    }
  }
  const kept = Object.values(state.rerun?.kept ?? {})
  const ended = [...itemsOf(journal), ...kept].flatMap((item) => {
    if ((item.kind !== 'done' && item.kind !== 'failed') || /~(child|start):/.test(item.id)) return []
    const { id, kind, key } = item
    const seq = firstSeq(item)
    const undo = own(undos, id, null)
    const error = item.kind === 'failed' ? item.error.message : (undo?.error?.message ?? null)
    if (own(undone, id, null) !== null)
      return [effect(id, key, { state: 'compensated', outcome: 'compensated', seq, error })]
    const isStuck = undo?.isStuck === true
    return [effect(id, key, { state: isStuck ? 'stuck' : kind, outcome: isStuck ? null : kind, seq, error })]
  })
  const going = Object.entries(open).map(([id, { held, failures, error, key }]) =>
    effect(id, key, {
      state: held ? 'held' : failures > 0 ? 'retrying' : 'intended',
      outcome: null,
      seq: null,
      attempts: failures + 1,
      error: error?.message ?? null,
    }),
  )
  return [...ended, ...going]
}
