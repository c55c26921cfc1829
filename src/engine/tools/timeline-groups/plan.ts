// The plan of a group's restore: the target positions, the cost, and the handling of its mail. A restore does exactly what its
// plan lists, and planning changes nothing.

import { fromHex, type TimelineId, timelineId, toHex } from '../../../core/coordinate.ts'
import { RepriseError } from '../../../core/errors.ts'
import { compensationPlan } from '../../../core/history/effects.ts'
import { planMail } from '../../../core/history/group-mail.ts'
import { inheritedBy } from '../../../core/history/inheritance.ts'
import {
  type CascadeStep,
  type Exchange,
  type ProcessHistory,
  type RecoveryLine,
  recoveryLine,
} from '../../../core/history/recovery-line.ts'
import { checkObject } from '../../../core/options.ts'
import type { Head } from '../../../core/store/ports.ts'
import { consumersOf } from '../../branch/consumers.ts'
import { type CapturedMail, firstId, mailKey, readExchanges, unreadMail } from '../../branch/exchanges.ts'
import { digestAt, floorOf, lineageOf } from '../../history/history.ts'
import { archivesOf, existing, locate } from '../../history/locate.ts'
import { recover } from '../../history/recover.ts'
import { retryWithFreshHead } from '../../history/retry-with-fresh-head.ts'
import type { Host } from '../../host/host.ts'
import { actionOf } from '../../model/model.ts'
import type { Kernel } from '../../storage/kernel.ts'
import { checkMembers, momentOf } from './cut.ts'
import { type CutState, cutFold, cutScope, type GroupPlan, type GroupTarget, type MemberPlan } from './records.ts'

const triesMax = 50

export async function cutOf(kernel: Kernel, name: string): Promise<CutState> {
  return await retryWithFreshHead(async () => {
    const head = await existing(kernel, timelineId(cutScope + name))
    return (await recover(kernel, head, cutFold)).state.value
  })
}

/** The members of a target, checked. */
export async function membersOf(engine: Host, target: GroupTarget): Promise<readonly string[]> {
  checkObject('the target of a restore', target)
  if ('cut' in target) {
    const { status, members, because } = await cutOf(engine.kernel, target.cut)
    if (status === 'completed') return members
    const why = because ?? 'it has not finished'
    throw new RepriseError('CONFLICT', `the cut ${target.cut} is ${status}, not complete: ${why}`, { cut: target.cut })
  }
  const ids = await checkMembers(engine, target.members)
  const stranger = target.failed?.find((id) => !(ids as readonly string[]).includes(id))
  if (stranger !== undefined) {
    throw new RepriseError('INVALID_ARGUMENT', `${stranger} has failed, and is not a member of the group`, { stranger })
  }
  return ids
}

/** @example await planGroup(rp, { cut: 'before-release' }) */
export async function planGroup(engine: Host, target: GroupTarget): Promise<GroupPlan> {
  const { kernel } = engine
  const members = (await membersOf(engine, target)).map((member) => timelineId(member))
  const captured = 'cut' in target ? await cutOf(kernel, target.cut) : null
  // A group that keeps changing is planned as of one point in time; it is planned again once it is held.
  let moment = await momentOf(kernel, members)
  for (let tries = 1; 'restless' in moment; tries++) {
    if (tries >= triesMax) {
      throw new RepriseError('CONFLICT', `${moment.restless} keeps receiving mail: stop it first`, {})
    }
    moment = await momentOf(kernel, members)
  }
  const { heads, mail } = moment
  const { exchanges, sent } = await readExchanges(kernel, heads, mail)
  const line = captured
    ? placesOf(captured)
    : await lineOf(engine, heads, exchanges, 'failed' in target ? target.failed : undefined)
  const at = line.at
  const plans = await Promise.all(heads.map((head) => planMember(engine, head, at[head.timeline]!, captured, members)))
  const isSlow = (id: string) => engine.models.find(id)?.goesBackItself === true
  const reordered = new Set(
    plans.filter(({ timeline, from, to }) => to < from && isSlow(timeline)).map((one) => one.timeline),
  )
  // Compare the ids under which they were first sent: a message delivered again is the same message.
  const first = ({ to, id }: { readonly to: string; readonly id: string }) => ({ to, id: firstId(id) })
  const { drop, again } = planMail({
    at,
    exchanges,
    unread: mail.map(first),
    captured: captured?.mail.map(first) ?? null,
    reordered,
  })
  const known = new Map<string, CapturedMail>()
  for (const [key, { to, id, kind, value }] of sent) known.set(key, { to, id, kind, value })
  for (const one of [...(captured?.mail ?? []), ...mail]) known.set(mailKey(one), one)
  const unread = new Map(mail.map((one) => [mailKey(one), one]))
  return {
    members: plans,
    cascade: line.cascade,
    fellToOrigin: line.fellToOrigin,
    entriesLost: plans.reduce((sum, { from, to }) => sum + from - to, 0),
    drop: drop.map((one) => ({ to: one.to, id: unread.get(mailKey(one))!.id })),
    again: again.map((one) => ({ ...known.get(mailKey(one))!, isUnread: unread.has(mailKey(one)) })),
  }
}

type LinePlaces = Pick<RecoveryLine, 'at' | 'cascade' | 'fellToOrigin'>

function placesOf({ places }: CutState): LinePlaces {
  return { at: Object.fromEntries(places.map(({ timeline, seq }) => [timeline, seq])), cascade: [], fellToOrigin: [] }
}

/** The recovery line from each member's checkpoints, even if it cannot be reached. */
export async function groupLine(
  engine: Host,
  members: readonly TimelineId[],
  failed?: readonly string[],
): Promise<RecoveryLine> {
  const heads = await Promise.all(members.map((member) => existing(engine.kernel, member)))
  const { exchanges } = await readExchanges(engine.kernel, heads, await unreadMail(engine.kernel, heads))
  return recoveryLine(await Promise.all(heads.map((head) => processOf(engine, head))), exchanges, failed)
}

async function lineOf(
  engine: Host,
  heads: readonly Head[],
  exchanges: readonly Exchange[],
  failed: readonly string[] | undefined,
): Promise<LinePlaces> {
  const processes = await Promise.all(heads.map((head) => processOf(engine, head)))
  const line = recoveryLine(processes, exchanges, failed)
  const [first] = line.outOfReach
  if (!first) return line
  throw new RepriseError('UNRECOVERABLE', `the group has no recovery line: ${inWords(first)}`, {
    outOfReach: line.outOfReach.map(inWords),
  })
}

/** Describes a step back and its reason. @example 'a/x goes from 8 to 5: it received m3, which b/y has not sent at 6' */
export function inWords({ process, from, to, because }: CascadeStep): string {
  if (!because) return `${process} returns from ${from} to ${to}: later entries are lost`
  return `${process} goes from ${from} to ${to}: at ${because.receivedSeq} it received what ${because.from} sent at ${because.sentSeq}, which is now undone`
}

async function processOf({ kernel }: Host, head: Head): Promise<ProcessHistory> {
  const version = kernel.models.mustFold(head.timeline).version
  const catalog = await kernel.store.checkpoints(head.timeline)
  const usable = catalog.filter((one) => one.invalid === null && one.verifiedAt !== null && one.foldVersion === version)
  const floor = floorOf(await lineageOf(kernel, head)).seq
  return { id: head.timeline, seq: head.seq, checkpoints: usable.map(({ seq }) => seq), floor }
}

async function planMember(
  engine: Host,
  head: Head,
  to: number,
  cut: CutState | null,
  members: readonly string[],
): Promise<MemberPlan> {
  const { kernel } = engine
  const { timeline, seq: from } = head
  const place = cut?.places.find((one) => one.timeline === timeline)
  if (place) {
    const located = await locate(kernel, place)
    if (located.head.timeline !== timeline) {
      const what = `${timeline} was rolled back to before its position ${place.seq} in the cut, and has another history since`
      throw new RepriseError('NOT_ON_BRANCH', what, { timeline, seq: place.seq })
    }
  }
  const model = engine.models.find(timeline)
  // Refuse a model that cannot be rolled back at all, before anything is done.
  if (to < from && model?.actions?.rollback) actionOf(model, 'rollback', timeline)
  const { state, lineage } = await recover(kernel, head, engine.models.mustFold(timeline))
  const { compensate, cannot, inDoubt } = compensationPlan(state.ledger, to, inheritedBy(lineage))
  const digest = place ? fromHex(place.digest) : await digestAt(kernel, lineage, to)
  // Messages that another member received are handled by this plan: that member is rolled back too.
  const consumers = (await consumersOf(kernel, head, to)).filter(
    ({ kind, timeline: by }) => kind !== 'mail' || !members.includes(by),
  )
  const ids = (effects: readonly { readonly id: string }[]) => effects.map(({ id }) => id)
  return {
    timeline,
    from,
    to,
    digest: toHex(digest),
    archives: (await archivesOf(kernel, timeline)).length,
    effects: { compensate: ids(compensate), cannot: ids(cannot), inDoubt: ids(inDoubt) },
    consumers,
  }
}
