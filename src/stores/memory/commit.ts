// One commit, as a step of the world: decided, then applied as a whole.

import { decide } from '../../core/commit/decide.ts'
import { Refused } from '../../core/commit/refused.ts'
import type { Commit, Hash, Outcome } from '../../core/store/ports.ts'
import { apply, send } from './apply.ts'
import { commitView } from './commit-view.ts'
import { toHead } from './view.ts'
import type { Space } from './world.ts'

/** A trial returns the outcome and applies nothing: the user's SQL runs between the two. */
export function commitOne(space: Space, hash: Hash, commit: Commit, now: number, isTrial = false): Outcome {
  try {
    const { outcome, changes } = decide(commitView(space, hash, now), commit)
    if (isTrial || !changes) return outcome
    if ('timeline' in changes) apply(space, hash, changes, now)
    else send(space, changes.sent, now)
    return outcome
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    return refusal(space, commit, error, now)
  }
}

export function refusal(space: Space, { guard }: Commit, { code, reason, cause }: Refused, now: number): Outcome {
  const row = guard && space.timelines.get(guard.timeline)
  const head = row ? toHead(space, row, now) : null
  return { ok: false, code, reason, head, ...(cause === undefined ? {} : { cause }) }
}
