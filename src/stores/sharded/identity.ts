// The identity of a set of shards, and the lives of ids that its shards have forgotten.

import type { PastLife } from '../../core/store/ports.ts'
import { isUnreachable, type Shard } from './shard.ts'

/** The first shard decides; the others have copies, for when it is unavailable. */
export async function identityOf(
  [first, ...others]: readonly Shard[],
  proposed: string | undefined,
  replaces: boolean,
): Promise<string | null> {
  try {
    const found = await first!.ask((store) => store.identity(proposed, replaces))
    if (found !== null && proposed !== undefined) {
      await Promise.allSettled(others.map((shard) => shard.askNow((store) => store.identity(found, true))))
    }
    return found
  } catch (error) {
    if (!isUnreachable(error) || replaces) throw error
    for (const shard of others.filter((other) => !other.isAway)) {
      const copy = await shard.askNow((store) => store.identity())
      if (copy !== null) return copy
    }
    throw error
  }
}

/** One of each name, in their order. */
export function highestPasts(pasts: readonly PastLife[]): PastLife[] {
  const highest = new Map<string, PastLife>()
  for (const past of pasts) {
    const known = highest.get(past.name)
    if (!known || known.life < past.life) highest.set(past.name, past)
  }
  return [...highest.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
}
