// The lives of forgotten ids (ports.ts, past).

import type { TimelineId } from '../../core/coordinate.ts'
import { pastName } from '../../core/identity.ts'
import { pastLives } from '../../core/limits.ts'
import type { Hash, PastLife } from '../../core/store/ports.ts'
import type { Space } from './world.ts'

const anyName = ''

export function pastOf(space: Space, hash: Hash, timeline: TimelineId): PastLife {
  const name = pastName(hash, timeline)
  return space.pasts.get(name) ?? { name, life: space.pasts.get(anyName)?.life ?? 0, epoch: 0, forgottenAt: 0 }
}

export function recall(space: Space, past: PastLife): void {
  const known = space.pasts.get(past.name)
  const life = Math.max(past.life, known?.life ?? 0)
  const epoch = Math.max(past.epoch, known?.epoch ?? 0)
  space.pasts.set(past.name, { ...past, life, epoch })
}

/** An erased id leaves no digest: every id without a past starts above it. */
export function rememberForgotten(
  space: Space,
  hash: Hash,
  timeline: TimelineId,
  { life, epoch }: Pick<PastLife, 'life' | 'epoch'>,
  how: true | 'erase' | 'moved',
  now: number,
): void {
  if (how === 'moved') return
  const name = pastName(hash, timeline)
  if (how === true) {
    recall(space, { name, life, epoch, forgottenAt: now })
    return
  }
  // Also the digest of an earlier life.
  space.pasts.delete(name)
  recall(space, { name: anyName, life, epoch: 0, forgottenAt: now })
}

export function tidyPasts(space: Space, before: number): void {
  for (const [name, past] of [...space.pasts.entries()]) {
    if (name === anyName || past.forgottenAt >= before - pastLives.keptMs) continue
    recall(space, { ...past, name: anyName, epoch: 0 })
    space.pasts.delete(name)
  }
}
