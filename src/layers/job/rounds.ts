// Rounds and shards of a job, from the heads of its timelines: which timelines exist, which round is in progress, and
// whether a shard has finished it.

import { timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Head } from '../../core/store/ports.ts'
import type { Host } from '../../engine/host/host.ts'

export function timelinesOf(name: string, shards: number): string[] {
  return shards === 1 ? [`job/${name}`] : Array.from({ length: shards }, (_, i) => `job/${name}/${i}`)
}

/** The round to work on: the unfinished one, or the next. */
export function roundOf(heads: readonly (Head | null)[]): number {
  const rounds = heads.map((head) => Number(head?.attributes.round ?? 0))
  const last = Math.max(...rounds)
  const isOver = heads.every((head) => head !== null && isFinished(head, last))
  return isOver || last === 0 ? last + 1 : last
}

export function isFinished(head: Head | null | undefined, round: number): boolean {
  return head?.status === 'completed' && Number(head.attributes.round ?? 0) >= round
}

/** The number of dead letters in all shards, from their heads, which are updated when a shard is released. */
export async function deadOf(engine: Host, timelines: readonly string[]): Promise<number> {
  const heads = await engine.heads(timelines.map((id) => timelineId(id)))
  return heads.reduce((sum, head) => sum + Number(head?.attributes.dead ?? 0), 0)
}

/** The number of shards decides which shard a key belongs to: with another number, finished keys would not be found. */
export async function checkShards(engine: Host, name: string, shards: number): Promise<void> {
  const own = timelinesOf(name, shards)[0]!
  const other = shards === 1 ? `job/${name}/0` : `job/${name}`
  const [first, stranger] = await engine.heads([timelineId(own), timelineId(other)])
  const recorded = (stranger ?? first)?.attributes.shards
  const before = recorded === undefined ? (stranger ? (shards === 1 ? 2 : 1) : shards) : Number(recorded)
  if (before === shards) return
  throw new RepriseError(
    'INVALID_ARGUMENT',
    `job ${name} has run with ${before} shards and cannot change to ${shards}: export its progress, and import it under a new name`,
    { job: name, before, now: shards },
  )
}
