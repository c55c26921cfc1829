// Removes effects from the ledger of an open timeline that its policy no longer keeps, after history was trimmed.

import { effectsLastOf, type RetentionPolicy } from '../../core/checkpoint/retention.ts'
import { type EffectLedger, forgottenType } from '../../core/history/effects.ts'
import { effectsBelow } from '../../core/history/forgetting.ts'
import type { NewEntry } from '../model/entry.ts'
import type { Kernel } from '../storage/kernel.ts'

export async function forgetEffects(
  { planted }: Pick<Kernel, 'planted'>,
  timeline: { readonly ledger: EffectLedger; write(entries: readonly NewEntry[]): Promise<unknown> },
  policy: RetentionPolicy,
  floor: number,
): Promise<void> {
  const below = effectsBelow(timeline.ledger, floor, effectsLastOf(policy), planted)
  // Recorded as an entry, so that every fold of this history forgets at the same place.
  if (below !== null) await timeline.write([{ type: forgottenType, data: { below } }])
}
