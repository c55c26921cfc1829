// A cut of a group: the position of every member at one moment of the store, with the mail that was unread then. All members
// are in one store, so a snapshot of the store is the cut: every message received in it was sent in it, whatever the models,
// and no member has to stop or answer. Saving each member's state at its position takes time. A cut that is not complete
// within its timeout is abandoned: its savepoints are released, and an event names the missing members.

import { cutLabel } from '../../../core/checkpoint/consistency.ts'
import type { Coordinate, TimelineId } from '../../../core/coordinate.ts'
import { timelineId, toHex } from '../../../core/coordinate.ts'
import { formatMs } from '../../../core/duration.ts'
import { ignoring, isReprise, noTimeline, RepriseError } from '../../../core/errors.ts'
import { checkList } from '../../../core/options.ts'
import type { Head } from '../../../core/store/ports.ts'
import { headsOfMoment } from '../../../core/store/shard-set.ts'
import { sleep, within } from '../../../lib/waiting.ts'
import { throwIfAborted, unlessAborted } from '../../base/abortable-wait.ts'
import { type CapturedMail, unreadMail } from '../../branch/exchanges.ts'
import { releaseSavepoint } from '../../checkpoint/savepoint.ts'
import { existing } from '../../history/locate.ts'
import type { Host } from '../../host/host.ts'
import { refuseOfStore } from '../../model/id-prefixes.ts'
import type { Kernel } from '../../storage/kernel.ts'
import { refuseNotHere } from '../../storage/moved-mark.ts'
import { holdOf } from '../../storage/restore-hold.ts'
import type { NewEntry, OpenTimeline } from '../../writing/timeline.ts'
import { type CutState, cutFold, cutScope } from './records.ts'

export interface Moment {
  readonly heads: readonly Head[]
  readonly places: readonly Coordinate[]
  readonly mail: readonly CapturedMail[]
}

const firstPauseMs = 5
const longestPauseMs = 200
const mailPerEntry = 100

export const itsProcessEnded = 'its process ended before the cut was complete'

/** @example await captureCut(rp, 'before-release', ['agent/guide/ann', 'workflow/checkout/42', 'table/stock'], 30_000) */
export async function captureCut(
  engine: Host,
  name: string,
  members: readonly string[],
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<CutState> {
  throwIfAborted(signal, `the cut ${name}`)
  const ids = await checkMembers(engine, members)
  const id = timelineId(cutScope + name)
  const begun = [{ type: 'begun', data: { members: ids, limitMs: timeoutMs, at: engine.worker.now(id) } }]
  const created = await engine.create(id, cutFold, begun, { status: 'capturing' })
  const isNew = created !== null && created !== 'released'
  const record = isNew ? created : await engine.openTimeline(id, cutFold)
  try {
    if (record.state.status === 'completed') {
      throw new RepriseError('EXISTS', `the cut ${name} exists: release it, or choose another name`, { name })
    }
    // The record of a process that died before the cut was complete.
    if (!isNew && record.state.status === 'capturing') {
      await giveUp(engine, record, name, itsProcessEnded)
    }
    if (!isNew) await record.write(begun, { status: 'capturing' })
    const began = engine.clock.elapsed()
    await withinTimeout(engine, record, name, began + timeoutMs, signal)
    await record.write([{ type: 'completed', data: {} }], { status: 'completed' })
    engine.events.emit('cut-completed', { cut: name, members: ids, ms: engine.clock.elapsed() - began })
    return record.state
  } finally {
    await record.close()
  }
}

/** Reports everything that would keep the cut from completing, before it begins. `evenHeld`: a restore in progress does not. */
export async function checkMembers(
  engine: Host,
  members: readonly string[],
  { evenHeld = false } = {},
): Promise<TimelineId[]> {
  checkList('the members of a group', members)
  const ids = [...new Set(members)].map((member) => timelineId(member))
  if (ids.length === 0) throw new RepriseError('INVALID_ARGUMENT', 'a group must have at least one member')
  for (const id of ids) {
    refuseOfStore(id)
    const head = await existing(engine.kernel, id)
    refuseNotHere(head)
    const hold = holdOf(head)
    if (hold && !evenHeld && !engine.kernel.restoring.has(id)) {
      throw new RepriseError(
        'CONFLICT',
        `${id} is being restored (${hold.restore}): finish or abandon that restore first`,
        {
          timeline: id,
          restore: hold.restore,
        },
      )
    }
    engine.models.mustFold(id)
    const rollback = engine.models.find(id)?.actions?.rollback
    if (rollback && 'instead' in rollback && rollback.isForGood) {
      const what = `${id} cannot be part of a group, since it cannot go back: ${rollback.instead}`
      throw new RepriseError('INVALID_ARGUMENT', what, { timeline: id })
    }
  }
  return ids
}

async function withinTimeout(
  engine: Host,
  record: OpenTimeline<CutState>,
  name: string,
  until: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { clock } = engine
  const progress: Progress = { trouble: null, isOver: false }
  const done = untilDone(engine, record, name, progress)
  try {
    const result = await unlessAborted(
      within(clock, Math.max(0, until - clock.elapsed()), done),
      signal,
      `the cut ${name}`,
    )
    if (result !== 'late') return
  } catch (error) {
    progress.isOver = true
    if (isReprise(error, 'ABORTED') && signal?.aborted) await giveUp(engine, record, name, 'aborted')
    throw error
  } finally {
    // Work in progress ends before the next step; it must not write concurrently.
    progress.isOver = true
  }
  const { members, saved, limitMs } = record.state
  const missing = members.filter((member) => !Object.hasOwn(saved, member))
  const because = `not complete within ${formatMs(limitMs)}${progress.trouble === null ? '' : `: ${progress.trouble}`}`
  await giveUp(engine, record, name, because)
  throw new RepriseError('TIMEOUT', `the cut ${name} was abandoned, ${because}`, { cut: name, missing })
}

interface Progress {
  /** The reason why the last attempt failed. */
  trouble: string | null
  isOver: boolean
}

async function untilDone(
  engine: Host,
  record: OpenTimeline<CutState>,
  name: string,
  progress: Progress,
): Promise<void> {
  const { clock } = engine
  for (let pauseMs = firstPauseMs; !progress.isOver; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
    const moment = await momentOf(engine.kernel, record.state.members as readonly TimelineId[])
    if (progress.isOver) return
    if ('restless' in moment) progress.trouble = `${moment.restless} keeps receiving mail`
    else if (await save(engine, record, name, moment, progress)) return
    await sleep(clock, pauseMs)
  }
}

/**
 * One moment: the heads are one snapshot; a member's mail belongs to the snapshot if none was consumed or added until it was
 * read. A member without mail stays without it, regardless of its later actions.
 */
export async function momentOf(
  kernel: Kernel,
  members: readonly TimelineId[],
): Promise<Moment | { readonly restless: string }> {
  const seen = await headsOfMoment(kernel.store, members)
  if (!seen) return { restless: members[0]! }
  const heads = seen.map((head, i) => {
    if (head) return head
    throw noTimeline(members[i]!)
  })
  const withMail = heads.filter((head) => head.mail > 0)
  const mail = await unreadMail(kernel, withMail)
  const again = await kernel.store.head(withMail.map((head) => head.timeline))
  const moved = withMail.find((head, i) => {
    const now = again[i]
    return !now || now.operation !== head.operation || now.mail !== head.mail || now.epoch !== head.epoch
  })
  if (moved) return { restless: moved.timeline }
  const places = heads.map(({ timeline, seq, epoch, digest }) => ({ timeline, seq, epoch, digest: toHex(digest) }))
  return { heads, places, mail }
}

/** False: a member's position was trimmed before it was saved, and another moment is chosen. */
async function save(
  engine: Host,
  record: OpenTimeline<CutState>,
  name: string,
  { places, mail }: Moment,
  progress: Progress,
): Promise<boolean> {
  const entries: NewEntry[] = [{ type: 'placed', data: { places } }]
  for (let from = 0; from < mail.length; from += mailPerEntry) {
    entries.push({ type: 'mail', data: { messages: mail.slice(from, from + mailPerEntry) } })
  }
  await record.write(entries)
  try {
    for (const place of places) {
      if (progress.isOver) return false
      const { id } = await engine.savepoint(place, { label: cutLabel(name) })
      if (progress.isOver) return false
      await record.write([{ type: 'saved', data: { timeline: place.timeline, id } }])
    }
    return true
  } catch (error) {
    if (!isReprise(error) || error.remedy === 'stop') throw error
    progress.trouble = error.message
    if (!progress.isOver) await releaseAll(engine.kernel, record.state, name)
    return false
  }
}

/** Releases all savepoints, including saved ones that were not recorded. */
export async function releaseAll(kernel: Kernel, { members }: CutState, name: string): Promise<void> {
  for (const member of members) {
    const catalog = await kernel.store.checkpoints(timelineId(member))
    for (const { id, isPinned, label } of catalog) {
      if (!isPinned || label !== cutLabel(name)) continue
      await releaseSavepoint(kernel, member, id).catch(ignoring('NOT_FOUND'))
    }
  }
}

/** Abandons and discards an incomplete cut, and an event reports it. */
export async function giveUp(
  engine: Host,
  record: OpenTimeline<CutState>,
  name: string,
  because: string,
): Promise<void> {
  const { members, saved } = record.state
  const missing = members.filter((member) => !Object.hasOwn(saved, member))
  // Release first: if this process dies here too, the next one repeats both.
  await releaseAll(engine.kernel, record.state, name)
  await record.write([{ type: 'abandoned', data: { because, missing } }], { status: 'abandoned' })
  engine.events.emit('cut-abandoned', { cut: name, members, missing, because })
}
