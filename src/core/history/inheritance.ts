// Inheritance: which part of a fork's history another timeline wrote. A fork owns what it did itself; what lies at or below
// the place where it left its original belongs to the original. Rollbacks of the fork do not change that: its archives are
// its own.

import { liveIdOf } from './scope.ts'

/** A stretch of inherited history: entries up to this sequence, above that of the next stretch, are of this timeline. */
export interface Inherited {
  readonly timeline: string
  readonly upTo: number
}

interface Ancestor {
  readonly timeline: string
  readonly base: { readonly timeline: string; readonly seq: number } | null
}

/**
 * The inherited stretches of a lineage (itself first), the newest first. An empty list: it wrote all of its history.
 * @example inheritedBy([{ timeline: 'a/fork', base: { timeline: 'a/x', seq: 4 } }]) // [{ timeline: 'a/x', upTo: 4 }]
 */
export function inheritedBy(lineage: readonly Ancestor[]): Inherited[] {
  const self = lineage[0] && liveIdOf(lineage[0].timeline)
  const found: Inherited[] = []
  let upTo = Number.POSITIVE_INFINITY
  for (const { base } of lineage) {
    if (!base) break
    // A rollback may go to before the place where the fork was made: the earliest leave counts.
    upTo = Math.min(upTo, base.seq)
    if (found.length > 0 || liveIdOf(base.timeline) !== self) found.push({ timeline: base.timeline, upTo })
  }
  return found
}

/** The last sequence that is inherited; 0: none is. */
export function inheritedSeq(inherited: readonly Inherited[]): number {
  return inherited[0]?.upTo ?? 0
}

/** The timeline that wrote this sequence; null: the fork itself. */
export function ownerOf(inherited: readonly Inherited[], seq: number): string | null {
  return inherited.findLast(({ upTo }) => seq <= upTo)?.timeline ?? null
}
