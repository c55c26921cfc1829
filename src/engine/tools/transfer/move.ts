// Moves a timeline: stop, savepoint, resume elsewhere. In one commit the timeline is taken from its owner, released, and
// marked as moved, so that no process here writes to it any more; the mark stores what it was waiting for. Only then is it
// exported. A crash leaves it marked: repeating the move resumes from there; `moveBack` removes the mark. The mark also records
// whether the timeline may have arrived: one that has is never revived here, nor moved to a second place.
//
// Messages sent to the old place after the move wait there. A repeated move to the same store takes them with it. Messages that
// have left stay at the old place too, counted in the mark: the return of the timeline decides which of them were read.

import { randomUUID } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Coordinate, TimelineId } from '../../../core/coordinate.ts'
import { timelineId, toHex } from '../../../core/coordinate.ts'
import type { Duration } from '../../../core/duration.ts'
import { RepriseError } from '../../../core/errors.ts'
import { isWithin } from '../../../core/history/scope.ts'
import { epochGuardOf } from '../../../core/store/commit-guard.ts'
import type { Head } from '../../../core/store/ports.ts'
import { sleep } from '../../../lib/waiting.ts'
import { refusalError } from '../../base/refusal-error.ts'
import { checkpointAside } from '../../checkpoint/savepoint.ts'
import { storedPolicyOf } from '../../checkpoint/stored-policy.ts'
import { existing } from '../../history/locate.ts'
import { recover } from '../../history/recover.ts'
import type { Host } from '../../host/host.ts'
import type { Engine } from '../../model/definition.ts'
import { refuseOfStore } from '../../model/id-prefixes.ts'
import type { Model } from '../../model/model.ts'
import { takeTimeline } from '../../ownership/take-timeline.ts'
import { arrivingAt, knownForMs } from '../../storage/arriving-timeline.ts'
import { type Kernel, submit } from '../../storage/kernel.ts'
import { type Mark, markOf, movedAttribute, movedStatus } from '../../storage/moved-mark.ts'
import {
  type ChangeNote,
  type ChangeRequest,
  endNote,
  importedBy,
  importingStatus,
  underNote,
} from '../../storage/store-change.ts'
import { exportFamily, type Scheduling } from './export.ts'
import {
  type Arrival,
  type ArrivalOptions,
  type Imported,
  type ImportOptions,
  importTimelines,
  isSame,
  timelinesIn,
} from './import.ts'

export interface MoveOptions {
  /** Takes it also from a live owner that does not release it: its work in flight is repeated where the timeline arrives. */
  readonly takeover?: boolean
  /** How long to wait for a live owner to release it. Default: 10s. */
  readonly wait?: Duration
  /** An abort ends that wait. */
  readonly signal?: AbortSignal
}

export interface MoveBackOptions {
  /**
   * The store to which the timeline was moving, opened. Needed if the move was interrupted while the timeline arrived there.
   * After a move to a file: a store that may have imported the file.
   */
  readonly other?: Engine
}

export interface Moved {
  /** The timelines that moved together, as they are where they arrived. */
  readonly timelines: readonly Coordinate[]
  /** The size of the file. */
  readonly bytes: number
}

export async function move(engine: Host, id: TimelineId, to: string | Host, options: MoveOptions): Promise<Moved> {
  refuseOfStore(id)
  const head = await firstOf(engine, id)
  const model = engine.models.find(head.timeline)
  refuseUnknown(head, model)
  const ids = (await model?.family?.(engine, head)) ?? [head.timeline]
  const where = typeof to === 'string' ? resolve(to) : (await to.kernel.store.upkeep.facts()).location
  const namespace = typeof to === 'string' ? undefined : to.kernel.namespace
  for (const each of ids) refuseArrived(await existing(engine.kernel, timelineId(each)), where, namespace)
  const how = JSON.stringify({ takeover: options.takeover, wait: options.wait })
  if (typeof to === 'string') {
    return await leaveUnderNote(engine, head, ids, to, { to, file: resolve(to), how }, async (note) => {
      const { carried, ...moved } = await leave(engine, ids, model, to, to, options, note)
      await noteCarried(engine, carried)
      return moved
    })
  }
  const { kernel } = to
  for (const id of ids) await refuseTaken(engine, to, timelineId(id))
  const from = (await engine.kernel.store.upkeep.facts()).location
  const request: ChangeRequest = {
    kind: 'import',
    of: `${head.timeline} from ${from}`,
    detail: { move: head.timeline, from, to: where, namespace: engine.kernel.namespace, how },
    coming: ids,
    total: ids.length,
  }
  const path = join(tmpdir(), `reprise-${randomUUID()}.move`)
  return await leaveUnderNote(
    engine,
    head,
    ids,
    where,
    { to: where, namespace: kernel.namespace, how },
    async (note) => {
      // The note is written there before the timeline stops here: from then on no process creates another timeline there under
      // its id.
      return await underNote(kernel, request, async (arrival) => {
        try {
          // A process there that read the notes just before this one may still have created a timeline under the id.
          await sleep(kernel.clock, 2 * knownForMs)
          for (const id of ids) await refuseTaken(engine, to, timelineId(id))
          const { carried, ...moved } = await leave(engine, ids, model, where, path, options, note)
          // From here on it may have arrived: an abandoned move would duplicate it.
          await note.detail({ arriving: where })
          await noteArrival(engine, ids, { to: where, namespace: kernel.namespace, arrival: 'begun' })
          await importUnder(to, path, { orSame: true, takesLateMail: true }, arrival)
          await noteArrival(engine, ids, { to: where, namespace: kernel.namespace, arrival: 'done' }, carried)
          return moved
        } finally {
          await rm(path, { force: true })
        }
      })
    },
  )
}

async function leaveUnderNote<Result>(
  { kernel }: Host,
  { timeline }: Head,
  ids: readonly string[],
  to: string,
  detail: Readonly<Record<string, string>>,
  work: (note: ChangeNote) => Promise<Result>,
): Promise<Result> {
  const request: ChangeRequest = { kind: 'move', of: timeline, detail: { ...detail, to }, total: ids.length }
  return await underNote(kernel, request, work)
}

/** How many unread messages of each timeline have left. */
type CarriedMail = ReadonlyMap<string, number>

/** Stops all of them and exports them to the file. */
async function leave(
  engine: Host,
  ids: readonly string[],
  model: Model | null,
  to: string,
  path: string,
  options: MoveOptions,
  note: ChangeNote,
): Promise<Moved & { readonly carried: CarriedMail }> {
  const members: { head: Head; scheduling: Scheduling }[] = []
  for (const each of ids) {
    members.push(await stop(engine, timelineId(each), model, to, options))
    // None has arrived yet: they arrive together.
    await note.progress(0)
  }
  // Counted first: a message that is sent meanwhile is in the file or not, and stays unread here.
  const carried = new Map<string, number>()
  for (const { head } of members) carried.set(head.timeline, (await existing(engine.kernel, head.timeline)).mail)
  const bytes = await exportFamily(engine.kernel, members, path)
  const timelines = members.map(({ head: { timeline, seq, epoch, digest } }) => {
    return { timeline, seq, epoch, digest: toHex(digest) }
  })
  return { timelines, bytes, carried }
}

/**
 * Refuses if another timeline exists there under this id, before anything stops. The rest of an interrupted move is its own.
 */
async function refuseTaken(engine: Host, to: Host, id: TimelineId): Promise<void> {
  const [[here], [there]] = await Promise.all([engine.kernel.store.head([id]), to.kernel.store.head([id])])
  if (!there || there.status === importingStatus || there.status === movedStatus) return
  if (here && there.seq >= here.seq && (await isSame(to.kernel, id, here))) return
  throw new RepriseError(
    'EXISTS',
    `there is already a timeline ${id} in ${(await to.kernel.store.upkeep.facts()).location}`,
    {
      timeline: id,
    },
  )
}

/** Imports an exported or moved timeline here: its model may send messages about it in the same commit. */
export async function importHere(
  host: Host,
  path: string,
  options: ImportOptions,
  /** The origin of the file, for people and for a resume. */
  of = resolve(path),
): Promise<Imported> {
  const ids = await timelinesIn(host.kernel, path)
  const coming = options.as === undefined ? ids : [options.as]
  const same = options.as === undefined ? {} : { as: options.as }
  const request: ChangeRequest = { kind: 'import', of, options: same, coming, total: ids.length }
  return await underNote(host.kernel, request, (note) => importUnder(host, path, options, note))
}

async function importUnder(host: Host, path: string, options: ArrivalOptions, note: ChangeNote): Promise<Imported> {
  const arrive: Arrival = async (head, isCopy) => {
    const { arrives, headOfCopy, copiesMail } = host.models.find(head.timeline)?.transfer ?? {}
    const target = { engine: host, head }
    const send = (await arrives?.(target)) ?? []
    const changed = isCopy && (await headOfCopy?.(target))
    return { send, ...(changed && { head: changed }), takes: (kind) => !isCopy || (copiesMail?.(kind) ?? true) }
  }
  const admitted = (id: TimelineId, isSameAs: (head: Head) => Promise<boolean>) => admit(host, id, isSameAs)
  const stored = (timelines: number) => note.progress(timelines)
  const made = await importTimelines(host.kernel, path, options, arrive, admitted, note.id, false, stored).catch(
    async (error) => {
      // Timelines that a failed import removed again need not be abandoned.
      for await (const _ of importedBy(host.kernel, note.id)) note.began()
      throw error
    },
  )
  host.dispatcher.wake()
  return made[0]!
}

/** A copy under another id, beside its original, is a fork: models without forks refuse such an import. */
async function admit(host: Host, id: TimelineId, isSameAs: (head: Head) => Promise<boolean>): Promise<void> {
  const fork = host.models.find(id)?.actions?.fork
  if (!fork || typeof fork === 'function') return
  for await (const head of host.each({ prefix: id.slice(0, id.indexOf('/') + 1) })) {
    if (head.timeline === id || markOf(head) || !(await isSameAs(head))) continue
    const what = `${head.timeline} exists here and cannot also be ${id}: ${fork.instead}`
    throw new RepriseError('INVALID_ARGUMENT', what, { timeline: head.timeline, as: id })
  }
}

/** Throws CONFLICT for a timeline that continues elsewhere, and CHANGE_UNFINISHED for one that may, unless `other` lacks it. */
export async function moveBack(engine: Host, id: TimelineId, other: Host | null): Promise<void> {
  const { kernel } = engine
  const first = await firstOf(engine, id)
  const ids = (await engine.models.find(first.timeline)?.family?.(engine, first)) ?? [first.timeline]
  for (const each of ids) await refuseRevival(await existing(kernel, timelineId(each)), other)
  for (const each of ids) {
    const head = await existing(kernel, timelineId(each))
    const mark = markOf(head)
    if (!mark) continue
    const outcome = await submit(kernel, {
      guard: epochGuardOf(head),
      status: mark.was.status,
      queue: mark.was.queue,
      wakeup: mark.was.queue ? kernel.worker.now(head.timeline) : mark.was.wakeup,
      attributes: { [movedAttribute]: null },
    })
    if (!outcome.ok) throw refusalError(head.timeline, outcome)
  }
  await endNote(kernel, { kind: 'move', of: first.timeline })
  engine.dispatcher.wake()
}

async function noteArrival(
  { kernel }: Host,
  ids: readonly string[],
  place: Required<Pick<Mark, 'to' | 'namespace' | 'arrival'>>,
  carried?: CarriedMail,
): Promise<void> {
  for (const id of ids) {
    await noteInMark(kernel, id, (mark) => {
      // A repeated move carries late mail of a timeline that has arrived.
      const arrival = mark.arrival === 'done' ? mark.arrival : place.arrival
      const left = carried?.get(id)
      return { ...place, arrival, ...(left !== undefined && { carried: left }) }
    })
  }
}

/** Any of the files of a move may have been imported, and only the mail of the first file is in all of them. */
async function noteCarried({ kernel }: Host, carried: CarriedMail): Promise<void> {
  for (const [id, count] of carried) await noteInMark(kernel, id, (mark) => ({ carried: mark.carried ?? count }))
}

async function noteInMark(kernel: Kernel, id: string, change: (mark: Mark) => Partial<Mark>): Promise<void> {
  const head = await existing(kernel, timelineId(id))
  const mark = markOf(head)
  if (!mark) return
  const text = JSON.stringify({ ...mark, ...change(mark) })
  if (text === head.attributes[movedAttribute]) return
  const outcome = await submit(kernel, { guard: epochGuardOf(head), attributes: { [movedAttribute]: text } })
  if (!outcome.ok) throw refusalError(head.timeline, outcome)
}

/** A timeline that is, or may be, in one store is not moved to another one: both stores would execute it. */
function refuseArrived(head: Head, to: string, namespace: string | undefined): void {
  const mark = markOf(head)
  if (mark?.arrival === undefined || (mark.to === to && mark.namespace === namespace)) return
  throw livesThere(head, mark)
}

async function refuseRevival(head: Head, other: Host | null): Promise<void> {
  const { timeline } = head
  const mark = markOf(head)
  if (!mark) return
  if (mark.arrival === undefined) return await refuseImported(head, mark, other)
  if (mark.arrival === 'done') throw livesThere(head, mark)
  if (!other) {
    const what = `${timeline} may be in ${mark.to} by now: name that store (\`other\`, reprise move ${timeline} --back --to URL), or repeat the move`
    throw new RepriseError('CHANGE_UNFINISHED', what, { timeline, to: mark.to })
  }
  const { location } = await other.kernel.store.upkeep.facts()
  if (location !== mark.to || other.kernel.namespace !== mark.namespace) {
    const what = `${timeline} was moving to ${mark.to} (namespace ${mark.namespace}), not to ${location} (namespace ${other.kernel.namespace})`
    throw new RepriseError('INVALID_ARGUMENT', what, { timeline, to: mark.to, other: location })
  }
  const [there] = await other.kernel.store.head([timeline])
  if (there && there.status !== importingStatus && (await isSame(other.kernel, timeline, head))) {
    throw livesThere(head, mark)
  }
  const arriving = await arrivingAt(other.kernel, timeline)
  if (!arriving) return
  const what = `${timeline} is arriving in ${mark.to}: repeat the move, or abandon its import there (reprise changes ${arriving})`
  throw new RepriseError('CHANGE_UNFINISHED', what, { timeline, to: mark.to })
}

/** A file that a move wrote may have been imported anywhere: only a store that the caller names is searched. */
async function refuseImported(head: Head, mark: Mark, other: Host | null): Promise<void> {
  const [there] = other ? await other.kernel.store.head([head.timeline]) : []
  if (!other || !there || there.status === importingStatus || there.status === movedStatus) return
  if (!(await isSame(other.kernel, head.timeline, head))) return
  throw livesThere(head, { ...mark, to: (await other.kernel.store.upkeep.facts()).location })
}

function livesThere({ timeline }: Head, { to, at }: Mark): RepriseError {
  const what = `${timeline} continues in ${to}: move it from there (reprise move ${timeline} --url ${to} --to URL)`
  return new RepriseError('CONFLICT', what, { timeline, movedAt: at, to })
}

/** Models that cannot be moved, or only together with others, or with mail to waiting timelines: the models decide. */
const neverAlone = [
  'job/',
  'pipeline/',
  'process/',
  'projection/',
  'workflow/',
  'workflow-queue/',
  'workflow-schedule/',
]

function refuseUnknown({ timeline, attributes }: Head, model: Model | null): void {
  const needsModel =
    neverAlone.some((scope) => isWithin(scope, timeline)) || storedPolicyOf(attributes)?.kind === 'state-store'
  if (model || !needsModel) return
  const what = `the definition of ${timeline} is not known here: open it first, or name it with declare()`
  throw new RepriseError('INVALID_ARGUMENT', what, { timeline })
}

/** The timeline with this id or, where several timelines form one unit (shards, partitions), the first below it. */
async function firstOf(engine: Host, id: TimelineId): Promise<Head> {
  const head = await engine.head(id)
  if (head) return head
  const [below] = await engine.list({ prefix: `${id}/`, limit: 1 })
  const family = below && (await engine.models.find(below.timeline)?.family?.(engine, below))
  return family ? below : await existing(engine.kernel, id)
}

/** From here on no process writes to it. If it was stopped before, only its previous state is read. */
async function stop(
  engine: Host,
  id: TimelineId,
  model: Model | null,
  to: string,
  options: MoveOptions,
): Promise<{ head: Head; scheduling: Scheduling }> {
  const { kernel } = engine
  const before = await existing(kernel, id)
  const marked = markOf(before)
  if (marked) return { head: before, scheduling: marked.was }
  await refuseToLeave(engine, before, model)
  await model?.transfer?.stop?.({ engine, head: before })
  await engine.shutTimeline(id)
  const taken = await takeTimeline(kernel, id, { wait: '10s', ...options, mustExist: true })
  // The timeline is taken only to be released: its previous owner is fenced, and its queue and wakeup no longer change.
  const { status, queue } = taken
  const isDue = before.owner !== null && queue !== null
  const scheduling: Scheduling = { status, queue, wakeup: isDue ? kernel.worker.now(id) : taken.wakeup }
  const mark: Mark = { at: kernel.worker.now(), to, was: scheduling }
  const send = (await model?.transfer?.leaves?.({ engine, head: taken })) ?? []
  const outcome = await submit(kernel, {
    guard: { timeline: id, epoch: taken.epoch },
    status: movedStatus,
    queue: null,
    wakeup: null,
    attributes: { [movedAttribute]: JSON.stringify(mark) },
    ...(send.length > 0 && { send }),
    release: true,
  })
  if (!outcome.ok) throw refusalError(id, outcome)
  const fold = model?.fold
  // The timeline then starts there from a state, as it would here, and not from all of its history.
  if (fold && taken.seq > 0 && fold.authority !== 'state') {
    await checkpointAside(kernel, { timeline: id, seq: taken.seq }, fold, { pin: false })
  }
  return { head: await existing(kernel, id), scheduling }
}

async function refuseToLeave(engine: Host, head: Head, model: Model | null): Promise<void> {
  const { stays } = model?.transfer ?? {}
  if (!model || !stays) return
  const because =
    typeof stays === 'string' ? stays : stays((await recover(engine.kernel, head, model.fold!)).state.value, head)
  if (because === null) return
  throw new RepriseError('INVALID_ARGUMENT', `${head.timeline} cannot be moved: ${because}`, {
    timeline: head.timeline,
  })
}
