// External effects of a timeline and those with an unknown outcome: the kernel's effects, and calls of the model itself.

import type { Effect } from '../core/history/effects.ts'
import { inheritedBy } from '../core/history/inheritance.ts'
import type { Head } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { recover } from '../engine/history/recover.ts'
import { hostOf } from '../engine/host/host.ts'
import type { ModelEffect } from '../engine/model/model.ts'

export type ShownEffect = (Effect & { readonly inheritedFrom?: string }) | ModelEffect

/** @example (await effectsOf(engine, head)).filter((effect) => effect.outcome === null) */
export async function effectsOf(engine: Reprise, head: Head): Promise<ShownEffect[]> {
  const own = await engine.effectsOf(head.timeline)
  const { kernel, models } = hostOf(engine)
  const model = models.find(head.timeline)
  if (!model?.outside || !model.fold) return own
  const { state, lineage } = await recover(kernel, head, model.fold)
  // A call of the model that the kernel also records is reported by the kernel.
  const known = new Set(own.map(({ id }) => id))
  const calls = model.outside(state.value, kernel.hash, inheritedBy(lineage))
  return [...own, ...calls.filter(({ id }) => !known.has(id))]
}
