// Forks of runs. A fork is a run: it has its own keys and queue place, no parent and no schedule, and undoes only its
// own steps (docs/guides/forks.md). Every process that works on the workflow can execute it. One commit creates it,
// with the entry that names its origin and, if a step was edited, the outcome that replaces the original one. So no
// process can execute the fork without its edit, and a replay reads the edited outcome like any other.

import { type Coordinate, timelineId } from '../../../core/coordinate.ts'
import { RepriseError } from '../../../core/errors.ts'
import { idBelow, liveIdOf } from '../../../core/history/scope.ts'
import type { Host } from '../../../engine/host/host.ts'
import type { NewEntry } from '../../../engine/model/entry.ts'
import type { EditedFork, ForkEdit, ForkEdits, ForkMark } from '../../../engine/model/fork-edit.ts'
import type { Kernel } from '../../../engine/storage/kernel.ts'
import type { OpenTimeline } from '../../../engine/writing/timeline.ts'
import type { Item } from '../history/entries.ts'
import { commandIdOf, hasName } from '../history/find-step.ts'
import { itemsOf } from '../history/journal.ts'
import { lastSeq, type RunState } from '../history/state.ts'
import { nameOf, queueOf, withoutOriginal } from '../names.ts'
import { enterMessage } from '../queue/queue.ts'
import { newSeed } from '../run/randomness.ts'
import { readableId } from '../run/scope.ts'

/** Edits the result of one step or child, or the input. */
export const stepEdits = { names: 'step', inputSeq: 1, of: editStep } satisfies ForkEdits

export interface RunFork {
  readonly timeline: string
  readonly seq: number
  /** The full id of the step. */
  readonly to: string
  readonly entries?: readonly NewEntry[]
  /** If present, the fork has this input. */
  readonly input?: unknown
  readonly by?: string
  readonly mark?: ForkMark | null
}

export async function forkRun(engine: Host, fork: RunFork): Promise<Coordinate & { readonly parent: string }> {
  const { timeline, seq, entries = [], mark = null, by } = fork
  const id = timelineId(fork.to)
  const scope = `workflow/${nameOf(timeline)}/`
  if (idBelow(scope, id) === null) {
    const what = `a fork of ${timeline} is a run of the same workflow: its id starts with ${scope}`
    throw new RepriseError('INVALID_ARGUMENT', what, { timeline, to: fork.to })
  }
  const begin = (at: unknown, identity: string, life: number) => {
    const { started, lastAt, journal } = at as RunState
    const own = { identity, ...(life > 1 && { life }), seed: newSeed(engine.kernel), after: lastSeq(journal) }
    const edited = { ...('input' in fork && { input: fork.input }), ...(by !== undefined && { by }) }
    const forked = { type: 'forked', data: { from: timeline, owns: true, forgets: true, ...edited, ...own } }
    const now = engine.now(timeline)
    const time = Math.max(now, lastAt)
    // The fork waits for its own queue place, even if it begins in the middle of its history.
    const queued = started?.queue ?? null
    return {
      entries: [forked, ...entries].map((entry) => ({ ...entry, time })),
      extras: {
        queue: queueOf({ name: nameOf(id) }),
        wakeup: queued ? null : now,
        status: queued ? 'queued' : 'waiting',
        attributes: withoutOriginal,
        ...(queued && { send: [enterMessage(engine, queued, id, queued.key ?? '', 0)] }),
      },
    }
  }
  const made = await engine.forkTimeline({ timeline, seq }, id, { begin, mark })
  engine.dispatcher.wake()
  return made
}

/**
 * Assigns new keys and random values to a run that was imported beside its original. Under another id the copy is like
 * a fork: the queue place, parent, schedule, and calls or undos in flight stay with the original. Under the same id the
 * store is a copy of another store, so the parent, queue and schedule exist here as well.
 */
export async function beginCopy(kernel: Kernel, open: OpenTimeline<RunState>): Promise<void> {
  const { ownIdentity: identity, state } = open
  if (identity === null || state.end || state.identity === identity) return
  const owns = open.inherited.length > 0 && liveIdOf(open.inherited[0]!.timeline) !== open.id
  const data = {
    ...{ from: state.keyBase, isCopy: true, identity, seed: newSeed(kernel), after: lastSeq(state.journal) },
    ...(owns && { owns, forgets: true, ...(open.life > 1 && { life: open.life }) }),
  }
  const time = Math.max(kernel.worker.now(open.id), state.lastAt)
  await open.write([{ type: 'forked', data, time }], owns ? { attributes: withoutOriginal } : {})
}

function editStep(at: unknown, { set, unset, by }: ForkEdit, timeline: string): EditedFork {
  const [name, ...others] = Object.keys(set)
  const refuse = (what: string) => new RepriseError('INVALID_ARGUMENT', `${timeline}: ${what}`, { timeline })
  if (unset.length > 0) throw refuse('a step cannot be unset; fork before it, and it is executed again')
  if (others.length > 0) {
    const what = `a fork edits one step, since later steps are executed again (got ${Object.keys(set).join(', ')})`
    throw refuse(`${what}; fork the fork to edit another`)
  }
  if (name === undefined) return { entries: [] }
  const { id, seq, kind } = outcomeOf(at as RunState, name, timeline)
  if (kind === 'timer' || kind === 'loop' || id.includes('~start:')) {
    throw refuse(`${readableId(id)} has no result that could be edited; name a step or a child`)
  }
  const type = id.includes('~child:') ? 'child' : 'done'
  return { seq: seq - 1, entries: [{ type, data: { id, result: set[name], by, replaces: seq } }] }
}

/** Finds the outcome of that step. */
function outcomeOf(
  { journal, open }: RunState,
  step: string,
  timeline: string,
): Extract<Item, { readonly id: string }> {
  const items = itemsOf(journal).filter((item) => 'id' in item)
  const found = items.find(({ id }) => hasName(id, step))
  if (found) return found
  const under = Object.keys(open).find((id) => hasName(id, step))
  if (under !== undefined) {
    const cure = open[under]!.held ? 'settle it' : 'wait for it, or fork the run as it is'
    const what = `${timeline}: ${readableId(under)} has no outcome yet that could be edited; ${cure}`
    throw new RepriseError('CONFLICT', what, { timeline, step })
  }
  const known = [...new Set(items.map(({ id }) => readableId(id)))]
  const some =
    known.length > 0 ? `it has ${known.slice(0, 10).join(', ')}${known.length > 10 ? ', …' : ''}` : 'it has none'
  throw new RepriseError('NOT_FOUND', `${timeline} has no step ${step} in its history up to there; ${some}`, {
    timeline,
    step: commandIdOf(step),
  })
}
