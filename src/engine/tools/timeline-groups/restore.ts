// Restores a group together, each member as its own model does. First all members are held, so that none changes; then the
// plan is computed again and recorded; then mail that is no longer sent is dropped, the members are rolled back, mail in flight
// is delivered again, and the members are released. Every step is recorded before the next, and can be repeated: any process can
// resume a restore that was killed.

import { assert } from '../../../core/assert.ts'
import { cutLabel } from '../../../core/checkpoint/consistency.ts'
import type { MessageId } from '../../../core/coordinate.ts'
import { timelineId } from '../../../core/coordinate.ts'
import type { Duration } from '../../../core/duration.ts'
import { isReprise, RepriseError } from '../../../core/errors.ts'
import { idBelow } from '../../../core/history/scope.ts'
import { refusalError } from '../../base/refusal-error.ts'
import { refuseConsumed, reportForced } from '../../branch/consumers.ts'
import { againId } from '../../branch/exchanges.ts'
import { savepointAside } from '../../checkpoint/savepoint.ts'
import { archivesOf, existing } from '../../history/locate.ts'
import type { Host } from '../../host/host.ts'
import { actionOf } from '../../model/model.ts'
import { takeTimeline } from '../../ownership/take-timeline.ts'
import { newId, submit } from '../../storage/kernel.ts'
import { sendMessage } from '../../storage/message.ts'
import { type Hold, heldAttribute, holdOf } from '../../storage/restore-hold.ts'
import { commitAside } from '../../writing/shared-commit.ts'
import type { OpenTimeline } from '../../writing/timeline.ts'
import { membersOf, planGroup } from './plan.ts'
import {
  type GroupPlan,
  type GroupTarget,
  type MemberPlan,
  type RestoreState,
  type RolledMember,
  restoreFold,
  restoreScope,
} from './records.ts'

export interface GroupRestoreOptions {
  /** Takes members also from live owners that do not release them: their work in flight is lost. */
  readonly takeover?: boolean
  /** How long to wait for live owners to release members. Default: 10s. */
  readonly wait?: Duration
  /** An abort ends that wait; once all members are held, the restore runs to its end. */
  readonly signal?: AbortSignal
  /** Restores although consumers outside the group have acted on undone entries; the plan names them. Default: refuse. */
  readonly consumed?: 'force'
}

export interface GroupRestored {
  readonly id: string
  readonly plan: GroupPlan
  readonly members: readonly RolledMember[]
}

type Record = OpenTimeline<RestoreState>

const neverBegun = 'its process ended before anything was recorded: repeat the command'

export async function restoreGroup(
  engine: Host,
  target: GroupTarget,
  options: GroupRestoreOptions,
): Promise<GroupRestored> {
  // Refuse an impossible restore before anything is written.
  const members = await membersOf(engine, target)
  refuseConsumedPlan(await planGroup(engine, target), options.consumed)
  const id = newId(engine.random)
  // The record is created with its first entry: a kill here leaves a restore that can be resumed, or none.
  const begun = [{ type: 'begun', data: { target, members, ...(options.consumed && { consumed: options.consumed }) } }]
  const record = await engine.create(timelineId(restoreScope + id), restoreFold, begun, { status: 'restoring' })
  assert(record !== null && record !== 'released', 'a restore with this id exists already')
  try {
    return await carryOut(engine, record, id, options)
  } finally {
    await record.close()
  }
}

/** Resumes an interrupted restore. For a finished one, returns its result. */
export async function resumeRestore(engine: Host, id: string, options: GroupRestoreOptions): Promise<GroupRestored> {
  const record = await engine.openTimeline(timelineId(restoreScope + id), restoreFold, { mustExist: true })
  try {
    const { status, plan, because } = record.state
    if (status === 'restoring') return await carryOut(engine, record, id, options)
    if (status === 'restored') return { id, plan: plan!, members: Object.values(record.state.rolled) }
    if (status === 'new') {
      await giveUp(engine, record, id, neverBegun)
      throw new RepriseError('CONFLICT', `the restore ${id} was abandoned: ${neverBegun}`, { id })
    }
    throw new RepriseError('CONFLICT', `the restore ${id} was abandoned: ${because}`, { id })
  } finally {
    await record.close()
  }
}

/** Releases the members as they are: some may have been rolled back, and others not. */
export async function abandonRestore(engine: Host, id: string, because: string): Promise<readonly RolledMember[]> {
  const record = await engine.openTimeline(timelineId(restoreScope + id), restoreFold, { mustExist: true })
  try {
    if (record.state.status === 'restoring' || record.state.status === 'new') await giveUp(engine, record, id, because)
    return Object.values(record.state.rolled)
  } finally {
    await record.close()
  }
}

/** Ends restores of an earlier version, which created the record first: nothing was recorded, so no member is held. */
export async function endUnbegun(engine: Host): Promise<number> {
  let ended = 0
  for await (const head of engine.each({ prefix: restoreScope })) {
    if (head.seq > 0 || (head.owner !== null && head.isOwnerAlive)) continue
    await abandonRestore(engine, idBelow(restoreScope, head.timeline)!, neverBegun)
    ended += 1
  }
  return ended
}

async function giveUp(engine: Host, record: Record, id: string, because: string): Promise<void> {
  for (const member of record.state.members) await endHold(engine, member, id)
  await record.write([{ type: 'abandoned', data: { because } }], { status: 'abandoned' })
}

async function carryOut(
  engine: Host,
  record: Record,
  id: string,
  options: GroupRestoreOptions,
): Promise<GroupRestored> {
  const { members } = record.state
  const { restoring, events } = engine.kernel
  for (const member of members) restoring.add(member)
  try {
    const plan = await prepare(engine, record, id, options)
    if (!record.state.isMailed) await dropMail(engine, plan)
    for (const member of inOrder(engine, plan.members)) {
      if (!Object.hasOwn(record.state.rolled, member.timeline)) await goBack(engine, record, id, member, options)
    }
    if (!record.state.isMailed) await deliverAgain(engine, record, id, plan)
    await keepPlaces(engine, record.state)
    for (const member of members) await endHold(engine, member, id)
    await record.write([{ type: 'ended', data: {} }], { status: 'restored' })
    events.emit('group-restored', { restore: id, members })
    return { id, plan, members: Object.values(record.state.rolled) }
  } finally {
    for (const member of members) restoring.delete(member)
    engine.dispatcher.wake()
  }
}

/** From here on no member changes, and the plan is of their current state. */
async function prepare(engine: Host, record: Record, id: string, options: GroupRestoreOptions): Promise<GroupPlan> {
  const { members, target } = record.state
  try {
    for (const member of members) await hold(engine, member, id, options)
    if (record.state.plan) return record.state.plan
    const plan = await planGroup(engine, target!)
    refuseConsumedPlan(plan, options.consumed ?? record.state.consumed)
    await record.write([{ type: 'planned', data: { plan } }])
    for (const { timeline, to, consumers } of plan.members) reportForced(engine.kernel, timeline, to, consumers)
    return plan
  } catch (error) {
    // Nothing was done yet: the members continue unchanged.
    if (!record.state.plan && isReprise(error) && !record.broken) await giveUp(engine, record, id, error.message)
    throw error
  }
}

function refuseConsumedPlan({ members }: GroupPlan, force: 'force' | undefined): void {
  const [first] = members.filter(({ consumers }) => consumers.length > 0)
  if (!first || force === 'force') return
  refuseConsumed(
    first.timeline,
    first.to,
    members.flatMap(({ consumers }) => consumers),
  )
}

async function hold(engine: Host, member: string, restore: string, options: GroupRestoreOptions): Promise<void> {
  const { kernel } = engine
  const id = timelineId(member)
  const before = await existing(kernel, id)
  if (holdOf(before)?.restore === restore) return
  await engine.shutTimeline(id)
  const taken = await takeTimeline(kernel, id, { wait: '10s', ...options, mustExist: true })
  const other = holdOf(taken)
  const isDue = before.owner !== null && taken.queue !== null
  const was: Hold['was'] = { queue: taken.queue, wakeup: isDue ? kernel.worker.now(id) : taken.wakeup }
  const mark: Hold = { restore, was }
  const outcome = await submit(kernel, {
    guard: { timeline: id, epoch: taken.epoch },
    ...(!other && { queue: null, wakeup: null, attributes: { [heldAttribute]: JSON.stringify(mark) } }),
    release: true,
  })
  if (!outcome.ok) throw refusalError(id, outcome)
  if (other) {
    throw new RepriseError('CONFLICT', `${id} is being restored (${other.restore}): finish or abandon that first`, {
      timeline: id,
      restore: other.restore,
    })
  }
}

async function endHold(engine: Host, member: string, restore: string): Promise<void> {
  const id = timelineId(member)
  const head = await existing(engine.kernel, id)
  const mark = holdOf(head)
  if (mark?.restore !== restore) return
  // A member that was rolled back may have set its queue itself.
  const isIdle = head.queue === null && mark.was.queue !== null
  await commitAside(engine.kernel, id, { attributes: { [heldAttribute]: null }, ...(isIdle && mark.was) })
}

/** Members that may refuse come first, members that only get a request last: they must resume with the others in place. */
function inOrder(engine: Host, members: readonly MemberPlan[]): MemberPlan[] {
  const rank = ({ timeline }: MemberPlan) => {
    const model = engine.models.find(timeline)
    return model?.goesBackItself ? 2 : model?.actions?.rollback ? 0 : 1
  }
  return [...members].sort((a, b) => rank(a) - rank(b))
}

async function goBack(
  engine: Host,
  record: Record,
  restore: string,
  member: MemberPlan,
  options: GroupRestoreOptions,
): Promise<void> {
  try {
    const rolled = await rollBack(engine, restore, member)
    await record.write([{ type: 'rolled', data: { member: rolled } }])
  } catch (error) {
    const isUntouched = Object.keys(record.state.rolled).length === 0
    const head = await existing(engine.kernel, timelineId(member.timeline)).catch(() => null)
    if (isUntouched && isReprise(error) && head?.seq === member.from && !record.broken) {
      await giveUp(engine, record, restore, error.message)
      throw error
    }
    if (!isReprise(error)) throw error
    const what = `${member.timeline} was not rolled back (${error.message}); the group waits: \`reprise group resume ${restore}\` tries again, \`reprise group abandon ${restore}\` abandons it`
    throw new RepriseError(error.code, what, { ...error.data, restore, options }, error)
  }
}

async function rollBack(engine: Host, restore: string, member: MemberPlan): Promise<RolledMember> {
  const { timeline, from, to, archives, consumers } = member
  const id = timelineId(timeline)
  const stays = { timeline, to, archive: null, isAsked: false, isMoved: false }
  if (to >= from) return stays
  // Restores planned by an earlier release did not check consumers.
  const consumed = consumers ?? 'force'
  // No other process rolls back a held member: an additional archive is therefore ours.
  const made = (await archivesOf(engine.kernel, id)).at(archives)
  if (made) return { ...stays, archive: made.timeline, isMoved: true }
  const model = engine.models.find(timeline)
  if (!model?.actions?.rollback) {
    const { archive } = await engine.rollbackTimeline({ timeline, seq: to }, { consumed })
    return { ...stays, archive, isMoved: true }
  }
  const act = actionOf(model, 'rollback', timeline)
  const head = await existing(engine.kernel, id)
  try {
    const { archive } = await act({ engine, head }, { seq: to, key: `group ${restore}`, consumed: consumers })
    return { ...stays, archive, isAsked: archive === null, isMoved: true }
  } catch (error) {
    // The member has done nothing since that it would have to undo.
    if (model.goesBackItself && isReprise(error, 'OUT_OF_RANGE')) return stays
    throw error
  }
}

async function dropMail(engine: Host, { drop }: GroupPlan): Promise<void> {
  const { kernel } = engine
  if (kernel.planted.has('orphan-mail')) return
  for (const to of new Set(drop.map((mail) => mail.to))) {
    const id = timelineId(to)
    const unwanted = new Set(drop.filter((mail) => mail.to === to).map((mail) => mail.id))
    const { messages } = await kernel.store.inbox(id, unwanted.size + 10_000)
    const consume = messages.filter((message) => unwanted.has(message.id)).map((message): MessageId => message.id)
    if (consume.length > 0) await commitAside(kernel, id, { consume })
  }
}

async function deliverAgain(engine: Host, record: Record, restore: string, plan: GroupPlan): Promise<void> {
  const { rolled } = record.state
  for (const { to, id, kind, value, isUnread } of plan.again) {
    // Consumed mail stays consumed where nothing was undone.
    if (!isUnread && !rolled[to]?.isMoved) continue
    if (engine.planted.has('lost-mail')) continue
    const again = engine.planted.has('doubled-mail') ? undefined : againId(id, restore)
    await sendMessage(engine.kernel, to, kind, value, again === undefined ? {} : { id: again })
  }
  await record.write([{ type: 'mailed', data: {} }])
}

/** A branch has a catalog of its own: the positions of the cut stay restorable there as well. */
async function keepPlaces(engine: Host, { target, rolled, plan }: RestoreState): Promise<void> {
  if (!target || !('cut' in target)) return
  for (const { timeline, to } of plan!.members) {
    if (!rolled[timeline]?.archive) continue
    const label = cutLabel(target.cut)
    const catalog = await engine.kernel.store.checkpoints(timelineId(timeline))
    if (catalog.some((one) => one.isPinned && one.label === label)) continue
    await savepointAside(engine.kernel, { timeline, seq: to }, engine.models.mustFold(timeline), { label })
  }
}
