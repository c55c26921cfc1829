// Resolves a person's input to a timeline and a sequence: whole ids, unique prefixes, the name of a definition without its
// kind, and `@SEQ`.

import { type TimelineId, timelineId } from '../core/coordinate.ts'
import { noTimeline, RepriseError } from '../core/errors.ts'
import { idBelow, isWithin, liveIdOf } from '../core/history/scope.ts'
import type { Head } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { hostOf } from '../engine/host/host.ts'
import { familyOf } from '../operations/letters.ts'

export interface Place {
  readonly head: Head
  /** The given sequence, or the head's. */
  readonly seq: number
  readonly isAtHead: boolean
}

/** @example await findPlace(engine, 'job/papers@42') */
export async function findPlace(engine: Reprise, given: string): Promise<Place> {
  const match = /^(.*)@(\d+)$/.exec(given)
  const head = await findTimeline(engine, match ? match[1]! : given)
  const seq = match ? Number(match[2]) : head.seq
  return { head, seq, isAtHead: seq === head.seq }
}

export async function findTimeline(engine: Reprise, given: string): Promise<Head> {
  // A prefix of an id may end with a slash, an id may not.
  const exact = given.endsWith('/') ? null : await engine.head(timelineId(given))
  if (exact) return exact
  const named = await byName(engine, given)
  if (named.length === 1) return named[0]!
  const begun = named.length > 0 ? named : await startingWith(engine, given, 6)
  const matches = begun.length > 0 ? begun : await belowName(engine, given)
  if (matches.length === 1) return matches[0]!
  if (matches.length === 0) throw noTimeline(given)
  const some = matches.map((head) => head.timeline)
  const shown = `${some.slice(0, 5).join(', ')}${some.length > 5 ? ', …' : ''}`
  throw new RepriseError('INVALID_ARGUMENT', `${given} could be ${shown}`, { matches: some })
}

/** Without the kind: `papers` is `job/papers`, `checkout/order-42` is `workflow/checkout/order-42`. */
async function byName(engine: Reprise, given: string): Promise<Head[]> {
  if (given.endsWith('/')) return []
  const kinds = hostOf(engine)
    .models.all()
    .filter((model) => model.name === null)
  const heads = await hostOf(engine).heads(kinds.map((model) => timelineId(model.scope + given)))
  return heads.filter((head) => head !== null)
}

/** Runs of a definition by its name without the kind: `checkout` is every `workflow/checkout/…`. */
async function belowName(engine: Reprise, given: string): Promise<Head[]> {
  const kinds = hostOf(engine)
    .models.all()
    .filter((model) => model.name === null)
  const found = await Promise.all(kinds.map(({ scope }) => engine.list({ prefix: `${scope}${given}/`, limit: 6 })))
  return found.flat()
}

/** The scope to list: as given, or, if it is empty, that of the one kind with this name. */
export async function scopeOf(engine: Reprise, given: string): Promise<string> {
  const { store } = hostOf(engine).kernel
  const hasSome = async (prefix: string) => (await store.timelines({ prefix, limit: 1 })).length > 0
  if (await hasSome(given)) return given
  const scopes: string[] = []
  for (const { scope, name } of hostOf(engine).models.all()) {
    if (name === null && (await hasSome(scope + given))) scopes.push(scope + given)
  }
  if (scopes.length > 1) {
    throw new RepriseError('INVALID_ARGUMENT', `${given} could be ${scopes.join(', ')}`, { matches: scopes })
  }
  return scopes[0] ?? given
}

/** The id of a new timeline beside an existing one: the kind may be omitted there as well. */
export function idBeside(engine: Reprise, { timeline }: Head, given: string): string {
  const kind = hostOf(engine)
    .models.all()
    .find((model) => model.name === null && isWithin(model.scope, timeline))
  return !kind || !given.includes('/') || isWithin(kind.scope, given) ? given : kind.scope + given
}

/**
 * Finds timelines by a typed prefix: the only comparison that ignores segment boundaries. It is used only to find, never to act.
 * Archives are excluded, unless the prefix is that of an archive.
 */
export async function startingWith(engine: Reprise, text: string, limit: number): Promise<Head[]> {
  const found: Head[] = []
  for (let after = text as TimelineId; ; ) {
    // Ids with a common prefix are contiguous in the order of ids.
    const page = await engine.list({ after, limit: 100 })
    const like = page.filter((head) => head.timeline.startsWith(text))
    found.push(...like.filter((head) => head.status !== 'archived' || liveIdOf(text) !== text))
    const last = page.at(-1)
    if (!last || like.length < 100 || found.length >= limit) return found.slice(0, limit)
    after = last.timeline
  }
}

/** A timeline, or the first of several that are one unit to the user: shards of a job, partitions of a state store. */
export async function findMember(engine: Reprise, given: string): Promise<Head> {
  try {
    return await findTimeline(engine, given)
  } catch (error) {
    const scope = await scopeOf(engine, given)
    const [first] = await engine.list({ prefix: `${scope}/`, limit: 1 })
    if (first && hostOf(engine).models.find(first.timeline)?.family) return first
    throw error
  }
}

/** All timelines of a job: one, or one per shard. */
export async function findJob(engine: Reprise, given: string): Promise<Head[]> {
  const scope = `job/${idBelow('job/', given) ?? given}`
  const first = (await engine.head(timelineId(scope))) ?? (await engine.head(timelineId(`${scope}/0`)))
  const head = first ?? (await findTimeline(engine, given))
  return await familyOf(engine, head)
}
