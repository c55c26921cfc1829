// The start of a shard's round in this process: records it in history, enters the shard in its queue, and processes the
// requests that arrived meanwhile. The counterpart of round-end.ts.

import { liveIdOf } from '../../core/history/scope.ts'
import { type Attribute, feedStart } from '../../core/store/ports.ts'
import type { KeptTrace } from '../../engine/base/tracing.ts'
import { readsAttribute } from '../../engine/branch/consumers.ts'
import type { Host } from '../../engine/host/host.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'
import { entry } from './entries.ts'
import { applyMail } from './letters.ts'
import type { ResolvedJob } from './options.ts'
import type { JobState } from './state.ts'

export interface RoundStart {
  readonly name: string
  readonly index: number
  readonly round: number
  /** Undefined: a resumed round keeps its input. */
  readonly input: unknown
  readonly attributes: Readonly<Record<string, Attribute>>
  readonly kept: KeptTrace
}

export async function beginShard<T>(
  engine: Host,
  open: OpenTimeline<JobState>,
  job: ResolvedJob<T>,
  { name, index, round, input, attributes, kept }: RoundStart,
): Promise<void> {
  const { state } = open
  const { cursorName, shards } = job
  await engine.identity.load()
  // A round that is resumed has its input, even if it had ended and items of it were redriven.
  const given = input === undefined && (wasLeft(state) || round === state.round) ? state.input : input
  const data = {
    round,
    shards,
    shard: index,
    ...(given !== undefined && { input: given }),
    ...(cursorName && { forgets: true }),
    ...(cursorName && state.round === 0 && { entryKeys: true }),
    ...(needsIdentity(open) && { identity: open.origin.identity }),
    ...kept,
  }
  await open.write([entry('started', data)], {
    status: 'running',
    queue: `job/${name}`,
    // Retention respects the cursor from the start.
    ...(cursorName && !state.cursor && { cursors: { [cursorName]: feedStart } }),
    wakeup: engine.now(open.id),
    attributes: {
      ...{ ...attributes, job: name, round, shards, done: state.done, dead: state.dead.size },
      ...(job.reads && { [readsAttribute]: JSON.stringify(job.reads) }),
    },
  })
  await applyMail(engine, open)
}

/** True for a new job, a fork, and a copy beside its original. Jobs that began without an identity keep their keys. */
function needsIdentity({ id, state, ownIdentity }: OpenTimeline<JobState>): boolean {
  if (ownIdentity !== null) return state.identity?.id !== ownIdentity
  return state.identity ? state.identity.of !== liveIdOf(id) : state.round === 0
}

/** A round was started and not finished. */
export function wasLeft(state: JobState): boolean {
  return state.round > 0 && state.status !== 'completed'
}

/** True if no process has worked on the shard since that moment. A dead process leaves no record of its last progress. */
export function isUnused(state: JobState, since: number): boolean {
  return state.round === 0 || (state.status !== 'running' && state.endedAt < since)
}
