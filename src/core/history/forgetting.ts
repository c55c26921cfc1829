// Decides how much a timeline may forget of the small data that it keeps in memory and in every checkpoint: dedupe keys and
// settled effects. Forgetting is an entry in history, so that every fold forgets at the same place; this file chooses the
// sequence. Some slack is allowed, so that one entry forgets many at once.

import { type EffectLedger, isSettled, listEffects } from './effects.ts'

/** Recorded when dedupe keys at or below `below` are no longer kept. */
export const keysForgottenType = '$keys.forgotten'

/** How far a timeline may exceed the policy before anything is forgotten. @example slackOf(100_000) // 10000 */
export function slackOf(last: number): number {
  return Math.ceil(last / 10)
}

/** Keys at or below this sequence may be forgotten, so that the last N stay; null if there are too few to be worth it. */
export function keysBelow(sequences: readonly number[], last: number): number | null {
  const surplus = sequences.length - last
  if (surplus <= 0 || surplus < slackOf(last)) return null
  return [...sequences].sort((a, b) => a - b)[surplus - 1]!
}

/**
 * Settled effects that changed at or below this sequence may be forgotten, so that the last N settled ones and all effects
 * recorded above the floor stay; null if there are too few to be worth it.
 */
export function effectsBelow(
  ledger: EffectLedger,
  floor: number,
  last: number,
  planted: ReadonlySet<string> = new Set(),
): number | null {
  const settled = listEffects(ledger)
    .filter(isSettled)
    .map((effect) => effect.changedSeq)
    .sort((a, b) => a - b)
  const surplus = settled.length - last
  if (surplus <= 0) return null
  const below = planted.has('forget-above-floor') ? settled[surplus - 1]! : Math.min(floor, settled[surplus - 1]!)
  const count = settled.filter((seq) => seq <= below).length
  return count > 0 && count >= slackOf(last) ? below : null
}
