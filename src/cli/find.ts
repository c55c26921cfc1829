// From what a person types to a timeline and a sequence: whole ids, unique beginnings, a job's bare name, and `@SEQ`.

import { type TimelineId, timelineId } from '../core/coordinate.ts'
import { RepriseError } from '../core/errors.ts'
import type { Head } from '../core/ports.ts'
import type { Reprise } from '../engine/reprise.ts'

export interface Place {
  readonly head: Head
  /** As asked for, or the head's. */
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
  // The beginning of an id may end with a slash, an id may not.
  const exact = given.endsWith('/') ? null : await engine.head(timelineId(given))
  if (exact) return exact
  const matches = await startingWith(engine, given, 6)
  if (matches.length === 0 && !given.includes('/')) {
    for (const model of ['job', 'workflow', 'migrate']) {
      const named = await engine.head(timelineId(`${model}/${given}`))
      if (named) return named
    }
  }
  if (matches.length === 1) return matches[0]!
  if (matches.length === 0) throw new RepriseError('NOT_FOUND', `there is no timeline ${given}`, { timeline: given })
  const some = matches.map((head) => head.timeline)
  throw new RepriseError(
    'INVALID_ARGUMENT',
    `${given} could be ${some.slice(0, 5).join(', ')}${some.length > 5 ? ', …' : ''}`,
    {
      matches: some,
    },
  )
}

/** What a person began to type: the one comparison that is not by whole segments. It never acts, it only finds. */
async function startingWith(engine: Reprise, text: string, limit: number): Promise<Head[]> {
  // Ids that start with a text follow it without a gap, in the order of ids.
  const found = await engine.list({ after: text as TimelineId, limit })
  return found.filter((head) => head.timeline.startsWith(text))
}

/** All timelines of a job: one, or one a shard. */
export async function findJob(engine: Reprise, given: string): Promise<Head[]> {
  const name = given.replace(/^job\//, '')
  const whole = await engine.head(timelineId(`job/${name}`))
  if (whole) return [whole]
  const shards = (await engine.list({ prefix: `job/${name}/`, limit: 256 })).filter((head) =>
    /\/\d+$/.test(head.timeline),
  )
  if (shards.length > 0) return shards
  return [await findTimeline(engine, given)]
}
