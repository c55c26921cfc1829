// Restricts a principal to its timelines: lists are narrowed to its scopes, and other timelines do not exist for it.

import { type TimelineId, timelineId } from '../core/coordinate.ts'
import { noTimeline, type RepriseError } from '../core/errors.ts'
import { isWithin } from '../core/history/scope.ts'
import type { Head, TimelineQuery } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { mayReach, type Principal } from './access.ts'

/** The same error as for a nonexistent timeline: existence must not be revealed. */
export function missing(timeline: string): RepriseError {
  return noTimeline(timeline)
}

export async function reached(engine: Reprise, principal: Principal, id: string): Promise<Head> {
  timelineId(id)
  const head = mayReach(principal, id) ? await engine.head(id) : null
  if (!head) throw missing(id)
  return head
}

/** The id of a timeline that may not exist yet. */
export function reachedId(principal: Principal, id: string): TimelineId {
  const known = timelineId(id)
  if (!mayReach(principal, known)) throw missing(known)
  return known
}

/** Restricts a requested scope: the scope itself if the principal reaches all of it, otherwise the parts that it reaches. */
export function scopesFor({ scopes }: Principal, wanted: string): readonly string[] {
  if (scopes === null || scopes.some((scope) => isWithin(scope, wanted))) return [wanted]
  return scopes.filter((scope) => isWithin(wanted, scope))
}

/** One page of several queries, ordered by id. `next` is the position of the next page; null: this is the last one. */
export async function listPage(
  engine: Reprise,
  queries: readonly Omit<TimelineQuery, 'limit' | 'after'>[],
  after: string | undefined,
  limit: number,
): Promise<{ readonly heads: Head[]; readonly next: string | null }> {
  const pages = await Promise.all(
    queries.map((query) =>
      engine.list({ ...query, limit: limit + 1, ...(after !== undefined && { after: after as TimelineId }) }),
    ),
  )
  const byId = new Map(pages.flat().map((head) => [head.timeline, head]))
  // Stores order ids by their UTF-8 bytes.
  const heads = [...byId.values()].sort((a, b) => Buffer.compare(Buffer.from(a.timeline), Buffer.from(b.timeline)))
  const page = heads.slice(0, limit)
  return { heads: page, next: heads.length > limit ? page[page.length - 1]!.timeline : null }
}

/** Hides relatives that the principal does not reach, and the name of the owner, which contains the name of the host. */
export function hideUnreached<
  Shown extends { readonly base: { readonly timeline: string } | null; readonly owner?: string | null },
>(principal: Principal, shown: Shown): Shown {
  if (principal.scopes === null) return shown
  const base = shown.base && mayReach(principal, shown.base.timeline) ? shown.base : null
  return { ...shown, base, ...(shown.owner && { owner: withoutName(shown.owner) }) }
}

/** The unique part of a worker's id, without its name. */
export function withoutName(worker: string): string {
  return `worker~${worker.split('~').at(-1)}`
}

/** Effects of an original that the principal does not reach are shown as inherited, without its id and keys. */
export function withoutUnreached<Shown extends { readonly inheritedFrom?: string; readonly key: string | null }>(
  principal: Principal,
  effects: readonly Shown[],
): Shown[] {
  return effects.map((effect) => {
    const { inheritedFrom } = effect
    const isReached = inheritedFrom === undefined || mayReach(principal, inheritedFrom)
    return isReached ? effect : { ...effect, inheritedFrom: '', key: '' }
  })
}
