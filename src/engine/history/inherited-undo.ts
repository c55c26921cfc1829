// The undo of an effect that the original of a fork did: recorded in the original's history before the fork calls it,
// so that the original and every other fork find it there. A timeline has one writer, so only one of several racing
// forks is first.

import { type TimelineId, timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { type Effect, type EffectLedger, getEffect, type InheritedEffect } from '../../core/history/effects.ts'
import { importedInheritance } from '../../core/history/inheritance.ts'
import { liveIdOf } from '../../core/history/scope.ts'
import type { Head } from '../../core/store/ports.ts'
import type { NewEntry } from '../model/entry.ts'
import type { Kernel } from '../storage/kernel.ts'

/**
 * Records that `by` undoes this effect, unless it is already recorded. Throws ALREADY_UNDONE if the original or
 * another fork has undone it, or is about to.
 */
export async function claimUndo(kernel: Kernel, effect: InheritedEffect, by: string): Promise<void> {
  const { id } = effect
  const { timeline: owner } = await originalOf(kernel, by, effect.inheritedFrom, id, liveOwner(effect))
  await kernel.writeTo!(owner, (ledger): NewEntry[] =>
    isClaimed(effect, getEffect(ledger, id), by)
      ? []
      : [{ type: '$effect.settled', data: { id, outcome: 'compensated', by } }],
  )
}

/**
 * The head of the original. INHERITED: it is in another store, and only undone there. The timeline with its id in this store
 * may be a different one.
 */
export async function originalOf(
  kernel: Kernel,
  by: string,
  inheritedFrom: string,
  id: string,
  owner: TimelineId,
): Promise<Head> {
  const [self, head] = await kernel.store.head([timelineId(by), owner])
  const imported = importedInheritance(self?.attributes).find(({ timeline }) => timeline === inheritedFrom)
  if (head && (!imported || imported.identity === kernel.identity.origin(head).identity)) return head
  const what = `${inheritedFrom}, which did ${id}, is not in this store: ${by} is a copy of it; undo it there`
  throw new RepriseError('INHERITED', what, { id, inheritedFrom })
}

/** The same refusals before anything is written: a rollback is refused as a whole. */
export function checkUndo(effect: InheritedEffect, ledger: EffectLedger, by: string): void {
  isClaimed(effect, getEffect(ledger, effect.id), by)
}

/** The timeline in which to record the undo. Throws for an archive, which can no longer be written. */
export function liveOwner({ id, inheritedFrom }: InheritedEffect) {
  if (liveIdOf(inheritedFrom) === inheritedFrom) return timelineId(inheritedFrom)
  const what = `${liveIdOf(inheritedFrom)} was rolled back to before ${id}, which undid or reported it`
  throw new RepriseError('ALREADY_UNDONE', what, { id, inheritedFrom })
}

/** True: this fork claimed it, and its process may have died before the call. */
function isClaimed(effect: InheritedEffect, now: Effect | undefined, by: string): boolean {
  const { id, inheritedFrom } = effect
  if (now?.outcome === 'compensated' && now.by === by) return true
  if (now?.intendedSeq === effect.intendedSeq && now.outcome === 'done' && now.state !== 'compensating') return false
  const how =
    now?.state === 'compensating' ? 'is being undone there' : `was undone${now?.by ? ` by ${now.by}` : ' there'}`
  const what = `${id} of ${inheritedFrom} ${how}`
  throw new RepriseError('ALREADY_UNDONE', what, { id, inheritedFrom, by: now?.by ?? null })
}
