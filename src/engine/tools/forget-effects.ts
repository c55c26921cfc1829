// Lets the ledger of an open timeline forget what its policy no longer keeps, once history was trimmed.

import { forgottenType } from '../../core/effects.ts'
import { effectsBelow } from '../../core/forgetting.ts'
import { effectsLastOf, type RetentionPolicy } from '../../core/retention.ts'
import type { Kernel } from '../kernel.ts'
import type { OpenTimeline } from '../timeline.ts'

export async function forgetEffects(
  { planted }: Pick<Kernel, 'planted'>,
  timeline: Pick<OpenTimeline<unknown>, 'ledger' | 'write'>,
  policy: RetentionPolicy,
  floor: number,
): Promise<void> {
  const below = effectsBelow(timeline.ledger, floor, effectsLastOf(policy), planted)
  // An entry of its own: whoever folds this history forgets at the same place.
  if (below !== null) await timeline.write([{ type: forgottenType, data: { below } }])
}
