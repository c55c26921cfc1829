// The steps that a fork inherits from its original, and does not own. They are undone only by choice, and the undo is
// recorded in the original's history first, so that the original and every other fork find it there.

import { timelineId } from '../../../core/coordinate.ts'
import { RepriseError } from '../../../core/errors.ts'
import { type Inherited, inheritedBy, ownerOf } from '../../../core/history/inheritance.ts'
import { liveIdOf } from '../../../core/history/scope.ts'
import { lineageOf } from '../../../engine/history/history.ts'
import { originalOf } from '../../../engine/history/inherited-undo.ts'
import type { Host } from '../../../engine/host/host.ts'
import { writeTo } from '../../../engine/writing/write-to.ts'
import { readableId } from '../run/scope.ts'
import { firstSeq } from './dependants.ts'
import type { Item } from './entries.ts'
import { workflowFold } from './fold.ts'
import { itemsOf } from './journal.ts'
import { own, type RunState } from './state.ts'

/** The outcome of an inherited step, as the fork's history has it. */
export interface Outcome {
  readonly id: string
  readonly seq: number
}

/** The parts of the process's workflow host that a claim uses. */
export interface ClaimHost {
  readonly engine: Host
  /** True if the run is in this process's memory and does more than wait. */
  isAtWork(timeline: string): boolean
}

/**
 * Records in the history of `owner` that `by` undoes this step, unless that is recorded already, and returns the
 * owner's state. Throws ALREADY_UNDONE if the owner or another fork has undone the step or is undoing it, and OWNED if
 * a process is executing the owner.
 */
export async function claimUndo(host: ClaimHost, owner: string, step: Outcome, by: string): Promise<RunState> {
  const { engine } = host
  const id = liveOwner(owner, step)
  const head = await originalOf(engine.kernel, by, owner, readableId(step.id), id)
  const isHere = (await engine.opened(id)) !== null
  // A compensation is recorded after its call, so one may be in flight while the owner is executing.
  if (isHere ? host.isAtWork(id) : head.owner !== null) {
    throw new RepriseError('OWNED', `${id} is running: its fork undoes its steps once it waits or has ended`, {
      timeline: id,
    })
  }
  let state: RunState | null = null
  await writeTo(
    engine,
    id,
    workflowFold,
    (open) => {
      state = open.state
      if (isClaimed(open.state, owner, step, by)) return []
      const time = Math.max(engine.now(), open.state.lastAt)
      return [{ type: 'undone', data: { id: step.id, by }, time }]
    },
    {},
  )
  return state!
}

/** Applies the same checks to all inherited steps of a fork from the sequence `from` on, before anything is written. */
export async function checkUndo(engine: Host, timeline: string, state: RunState, from = 0): Promise<void> {
  const inherited = await inheritedOf(engine, timeline)
  for (const item of itemsOf(state.journal)) {
    const owner = isStep(item) && item.seq >= from ? ownerOf(inherited, firstSeq(item)) : null
    if (owner === null || !isStep(item)) continue
    const head = await originalOf(engine.kernel, timeline, owner, readableId(item.id), liveOwner(owner, item))
    const step = { id: item.id, seq: firstSeq(item) }
    isClaimed((await engine.recover(head, workflowFold)).state.value, owner, step, timeline)
  }
}

export async function inheritedOf(engine: Host, timeline: string): Promise<readonly Inherited[]> {
  return inheritedBy(await lineageOf(engine.kernel, await engine.existing(timelineId(timeline))))
}

function isStep(item: Item): item is Extract<Item, { kind: 'done' }> {
  return item.kind === 'done'
}

function liveOwner(owner: string, { id }: Outcome) {
  if (liveIdOf(owner) === owner) return timelineId(owner)
  throw refusal(owner, id, 'was undone by its rollback', null)
}

/** True if this fork has claimed the step already; its process may have died before the call. */
function isClaimed(
  { journal, undone, undos, rolling, end }: RunState,
  owner: string,
  step: Outcome,
  by: string,
): boolean {
  const { id, seq } = step
  const before = own(undone, id, null)
  if (before === by) return true
  if (before !== null) throw refusal(owner, id, before === '' ? 'was undone there' : `was undone by ${before}`, before)
  const items = itemsOf(journal)
  const isUndoing = rolling !== null || (end === null && items.some(({ kind }) => kind === 'cancel'))
  if (isUndoing || Object.hasOwn(undos, id)) throw refusal(owner, id, 'is being undone there', null)
  if (items.some((item) => 'id' in item && item.id === id && firstSeq(item) === seq)) return false
  throw refusal(owner, id, 'is no longer in its history: it was undone, or its iteration has ended', null)
}

function refusal(owner: string, id: string, how: string, by: string | null): RepriseError {
  const step = readableId(id)
  return new RepriseError('ALREADY_UNDONE', `${step} of ${owner} ${how}`, { step, inheritedFrom: owner, by })
}
