// Deletes timelines permanently: the timeline itself, its archives, and optionally the forks and savepoints that still
// need it. A dry run reports what would be deleted; the store guards every step once more. The next collection removes
// chunks that no checkpoint names any more.

import { type ManifestId, type TimelineId, timelineId } from '../../../core/coordinate.ts'
import { isReprise, isSignal, noTimeline, RepriseError } from '../../../core/errors.ts'
import { archivesStart, isAmongArchives, liveIdOf } from '../../../core/history/scope.ts'
import { guardOf } from '../../../core/store/commit-guard.ts'
import type { Head } from '../../../core/store/ports.ts'
import { refusalError } from '../../base/refusal-error.ts'
import { isUnfinishedKind, refuseOfStore } from '../../model/id-prefixes.ts'
import { forksOf } from '../../storage/heads.ts'
import { type Kernel, submit } from '../../storage/kernel.ts'
import { soundPage } from '../../storage/sound-page.ts'

export interface DeleteOptions {
  /** Only report what would be deleted. */
  readonly dryRun?: boolean
  /** Also delete forks that share its history. Otherwise a fork that needs it is a reason to refuse. */
  readonly forks?: boolean
  /** Also delete unreleased savepoints. */
  readonly savepoints?: boolean
  /** Overwrite its bytes where the store supports that (erase.ts does the rest). */
  readonly erase?: boolean
  /** Also delete an unfinished timeline: it waits for a time, or was interrupted. */
  readonly unfinished?: boolean
}

export interface Deletion extends DeleteOptions {
  /** The head on which the deletion was decided: CONFLICT if it has moved since. */
  readonly seen?: Head
}

export interface DeletedTimeline {
  readonly timeline: string
  /** The reason for the deletion: on request, as an archive of a deleted timeline, or as a fork of one. */
  readonly because: 'asked for' | 'archive' | 'fork'
  readonly entries: number
  readonly checkpoints: number
  readonly savepoints: readonly string[]
  /** Unread messages. */
  readonly mail: number
  /** Named cursors that it owns: positions of consumers. */
  readonly cursors: readonly string[]
}

export interface DeleteReport {
  readonly isDryRun: boolean
  /** In the order of deletion: forks before their parents. */
  readonly timelines: readonly DeletedTimeline[]
  /** The reason why the erasure would be refused. Empty: it would not. */
  readonly refusals: readonly {
    readonly timeline: string
    readonly code: 'OWNED' | 'PINNED' | 'CONFLICT'
    readonly why: string
  }[]
}

interface Member {
  readonly head: Head
  readonly because: DeletedTimeline['because']
}

const looksMax = 5

/**
 * If another process writes between the read and the deletion, the timeline is read again, and may then be refused. Not
 * so with `seen`; and a new life of the id is never deleted, because the caller did not request that.
 */
export async function deleteTimeline(kernel: Kernel, id: string, options: Deletion = {}): Promise<DeleteReport> {
  refuseOfStore(id)
  const [first] = options.seen ? [options.seen] : await kernel.store.head([timelineId(id)])
  for (let look = 1, head = first; ; look++) {
    if (!head) throw noTimeline(id)
    if (head.life !== first!.life) {
      throw new RepriseError('NOT_FOUND', `${id} was deleted and created again meanwhile`, { timeline: id })
    }
    try {
      return await deleteAsSeen(kernel, head, options)
    } catch (error) {
      if (options.seen || look >= looksMax || !isReprise(error, 'FENCED')) throw error
      ;[head] = await kernel.store.head([timelineId(id)])
    }
  }
}

async function deleteAsSeen(kernel: Kernel, head: Head, options: Deletion): Promise<DeleteReport> {
  // 1. Find everything to delete.
  const members = await membersOf(kernel, head, options)
  const cursors = await kernel.store.cursors()
  const timelines: DeletedTimeline[] = []
  const refusals: DeleteReport['refusals'][number][] = []
  for (const member of members) {
    const described = await describe(kernel, member, cursors)
    timelines.push(described)
    refusals.push(...refusalsOf(kernel, member.head, described, options))
  }
  refusals.push(...(await forksLeft(kernel, members)))
  if (options.dryRun) return { isDryRun: true, timelines, refusals }
  const [first] = refusals
  if (first) throw new RepriseError(first.code, `${first.timeline} is not deleted: ${first.why}`, { refusals })
  // 2. Delete forks first: their parents are needed until then.
  for (const { head: gone } of members) {
    const { savepoints } = timelines.find((each) => each.timeline === gone.timeline)!
    // Mail moves no sequence: an expiry that saw no mail is refused once there is some.
    const unlessMail = options.seen !== undefined && gone.mail === 0
    await forget(kernel, gone, savepoints, options.erase ? 'erase' : true, unlessMail)
  }
  return { isDryRun: false, timelines, refusals: [] }
}

/** The timeline, its archives, and with `forks` all forks of one of them; leaves of the tree first. */
async function membersOf(kernel: Kernel, head: Head, options: DeleteOptions): Promise<Member[]> {
  const found = new Map<TimelineId, Member>()
  const add = async (each: Head, because: Member['because']): Promise<void> => {
    if (found.has(each.timeline)) return
    const live = liveIdOf(each.timeline) as TimelineId
    const isLive = live === each.timeline
    found.set(each.timeline, { head: each, because: !isLive && found.has(live) ? 'archive' : because })
    if (isLive) for (const archive of await archivesOf(kernel, each.timeline)) await add(archive, 'archive')
    if (options.forks) for (const fork of await forksOf(kernel, each.timeline)) await add(fork, 'fork')
  }
  await add(head, 'asked for')
  const ordered: Member[] = []
  const place = (member: Member): void => {
    if (ordered.includes(member)) return
    for (const other of found.values()) if (other.head.base?.timeline === member.head.timeline) place(other)
    ordered.push(member)
  }
  for (const member of found.values()) place(member)
  return ordered
}

async function describe(
  kernel: Kernel,
  { head, because }: Member,
  cursors: Awaited<ReturnType<Kernel['store']['cursors']>>,
): Promise<DeletedTimeline> {
  const catalog = await kernel.store.checkpoints(head.timeline)
  return {
    timeline: head.timeline,
    because,
    entries: head.seq - Math.max(head.floor, head.base?.seq ?? 0),
    checkpoints: catalog.length,
    savepoints: catalog.filter((record) => record.isPinned).map((record) => record.id),
    mail: head.mail,
    cursors: cursors.filter((cursor) => cursor.owner === head.timeline).map((cursor) => cursor.name),
  }
}

function refusalsOf(
  kernel: Kernel,
  head: Head,
  described: DeletedTimeline,
  options: Deletion,
): DeleteReport['refusals'] {
  const { timeline } = head
  const refusals: DeleteReport['refusals'][number][] = []
  if (head.owner !== null && head.isOwnerAlive) {
    refusals.push({ timeline, code: 'OWNED', why: `${head.owner} owns it: close or stop it first` })
  }
  const isUnfinished = head.wakeup !== null || isUnfinishedStatus(kernel, head, options)
  if (isUnfinished && head.status !== 'archived' && !options.unfinished) {
    refusals.push({
      timeline,
      code: 'CONFLICT',
      why: 'it has not ended: cancel it first, or confirm with the option unfinished',
    })
  }
  if (described.savepoints.length > 0 && !options.savepoints) {
    const why = `it has savepoints (${described.savepoints.join(', ')}): release them, or pass { savepoints: true }`
    refusals.push({ timeline, code: 'PINNED', why })
  }
  return refusals
}

/** Expiry never relies on the models of its process alone: another process may work with other models. */
function isUnfinishedStatus({ models }: Kernel, { timeline, status }: Head, { seen }: Deletion): boolean {
  const model = models.find(timeline)
  if (model?.unfinished?.includes(status)) return true
  return (seen !== undefined || !model) && isUnfinishedKind(timeline, status)
}

/** Forks that stay and need the history of a deleted timeline. */
async function forksLeft(kernel: Kernel, members: readonly Member[]): Promise<DeleteReport['refusals']> {
  const going = new Set(members.map(({ head }) => head.timeline))
  const refusals: DeleteReport['refusals'][number][] = []
  for (const timeline of going) {
    const needing = (await forksOf(kernel, timeline)).filter((fork) => {
      return !going.has(fork.timeline) && fork.floor < (fork.base?.seq ?? 0)
    })
    if (needing.length === 0) continue
    const names = needing.map((fork) => fork.timeline).join(', ')
    refusals.push({
      timeline,
      code: 'PINNED',
      why: `forks share its history (${names}): delete them too with { forks: true }`,
    })
  }
  return refusals
}

/** Deletes it with everything it has, including unreleased savepoints. False: it has mail, and stays. */
export async function forgetUnlessMail(kernel: Kernel, head: Head): Promise<boolean> {
  const catalog = await kernel.store.checkpoints(head.timeline)
  const savepoints = catalog.filter(({ isPinned }) => isPinned).map(({ id }) => id)
  try {
    await forget(kernel, head, savepoints, true, true)
    return true
  } catch (error) {
    if (isSignal(error, 'MAIL_WAITING')) return false
    throw error
  }
}

async function forget(
  kernel: Kernel,
  head: Head,
  savepoints: readonly string[],
  how: true | 'erase',
  unlessMail: boolean,
): Promise<void> {
  const sizes = (await kernel.store.checkpoints(head.timeline)).map((record) => record.addedBytes)
  const guard = guardOf(head)
  if (savepoints.length > 0) {
    const marks = savepoints.map((id) => ({ id: id as ManifestId, isPinned: false }))
    const released = await submit(kernel, { guard, marks })
    if (!released.ok) throw refusalError(head.timeline, released)
  }
  const outcome = await submit(kernel, { guard, forget: how, ...(unlessMail && { unlessMail }) })
  if (!outcome.ok) throw refusalError(head.timeline, outcome)
  const freedBytes = sizes.reduce((sum, bytes) => sum + bytes, 0)
  kernel.events.emit('deleted', { timeline: head.timeline, freedBytes, isErased: how === 'erase' })
}

const archivesPage = 200

/** All archives, including those of archives that were themselves rolled back. Damaged neighbours are ignored. */
export async function archivesOf(kernel: Kernel, id: TimelineId): Promise<Head[]> {
  const found: Head[] = []
  const unlessOurs = (timeline: string, error: RepriseError) => {
    if (liveIdOf(timeline) === id) throw error
  }
  let after = archivesStart(id) as TimelineId
  // Most timelines have no archives: then one row is enough.
  for (let limit = 1; ; limit = archivesPage) {
    const page = await soundPage(kernel, { after, limit }, unlessOurs)
    found.push(...page.filter((head) => liveIdOf(head.timeline) === id))
    const last = page.at(-1)
    if (!last || page.length < limit || !isAmongArchives(id, last.timeline)) return found
    after = last.timeline
  }
}
