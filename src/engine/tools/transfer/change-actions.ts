// Resumes or abandons an unfinished change of a store (store-change.ts), of any kind. A resume repeats the call that the note
// describes. An abandoned change leaves the store as it was before; the note is removed last, so that an interrupted abandon is
// repeated.

import { timelineId } from '../../../core/coordinate.ts'
import { ignoring, RepriseError } from '../../../core/errors.ts'
import { refusalError } from '../../base/refusal-error.ts'
import type { Host } from '../../host/host.ts'
import type { Engine } from '../../model/definition.ts'
import { isOfStore } from '../../model/id-prefixes.ts'
import { submit } from '../../storage/kernel.ts'
import { type Mark, movedAttribute, movedStatus } from '../../storage/moved-mark.ts'
import { changeOf, importedBy, importingAttribute, type NotedChange, removeNote } from '../../storage/store-change.ts'
import { deleteTimeline, forgetUnlessMail } from '../housekeeping/delete.ts'
import { putBack } from './backup.ts'
import { type MoveOptions, move, moveBack } from './move.ts'

export interface AbandonedChange {
  readonly id: string
  readonly kind: string
  /** The number of timelines that were removed, or returned. */
  readonly timelines: number
}

export interface ResumeOptions {
  /** The other store of a move, opened: a note has no credentials. */
  readonly other?: Engine
}

/** The verbs of the engine that a resume calls. */
export interface Resumable {
  restore(path: string, options: { readonly copy: boolean }): Promise<unknown>
  import(path: string, options: { readonly orSame: true; readonly as?: string }): Promise<unknown>
  move(timeline: string, to: string, options: MoveOptions): Promise<unknown>
  rekey(): Promise<unknown>
}

/** Throws NOT_FOUND, OWNED, INVALID_ARGUMENT. */
export async function resumeChange(host: Host, verbs: Resumable, id: string, other: Host | null): Promise<void> {
  const change = await interrupted(host, id)
  const { kind, of, options = {}, detail = {} } = change
  // Notes of older versions have `as` among the details, and no options of a move.
  const as = options.as ?? detail.as
  const how = JSON.parse(detail.how ?? '{}') as MoveOptions
  switch (kind) {
    case 'restore':
      return void (await verbs.restore(of, { copy: options.copy === true }))
    case 'import':
      if (detail.move !== undefined) {
        const from = await otherStore(other, change, detail.from, detail.move)
        return void (await move(from, timelineId(detail.move), host, how))
      }
      return void (await verbs.import(of, { orSame: true, ...(typeof as === 'string' && { as }) }))
    case 'move':
      if (detail.file === undefined) {
        const to = await otherStore(other, change, detail.to, of)
        return void (await move(host, timelineId(of), to, how))
      }
      return void (await verbs.move(of, detail.file, how))
    case 'rekey':
      return void (await verbs.rekey())
    case 'rescale':
      throw elsewhere(change, `call rescale(rp) of the state store ${of} again: its definition is needed`)
    case 'shards': {
      const { worker, store } = host.kernel
      await store.shards!.grow({ worker: await worker.register(), waitMs: 10_000 })
      await removeNote(host.kernel, id)
    }
  }
}

/** Throws NOT_FOUND, OWNED, CONFLICT, INVALID_ARGUMENT. */
export async function abandonChange(host: Host, id: string): Promise<AbandonedChange> {
  const change = await interrupted(host, id)
  const timelines = await undo(host, change)
  await removeNote(host.kernel, id)
  return { id, kind: change.kind, timelines }
}

async function undo(host: Host, change: NotedChange): Promise<number> {
  const { kind, of, detail = {} } = change
  switch (kind) {
    case 'restore':
      return await undoRestore(host, change)
    case 'import':
      return await undoImport(host, change)
    case 'move':
      if (detail.arriving !== undefined)
        throw elsewhere(
          change,
          `${of} may be in ${detail.arriving} by now: ${repeatedMove(of, detail)}; or abandon its import there, then reprise move ${of} --back --to URL`,
        )
      await moveBack(host, timelineId(of), null)
      return 1
    case 'rekey':
      // Each record names its key: a store with several keys is complete.
      return 0
    case 'rescale':
      await abandonOf(host, change)(host, of)
      return 0
    case 'shards': {
      const shards = (await host.kernel.store.shards?.list()) ?? []
      if (String(shards.length) === detail.shards && !shards.some(({ isJoining }) => isJoining)) return 0
      throw elsewhere(change, 'the shard has joined the set, and timelines may be there: resume it')
    }
  }
}

/** The store was empty when the restore began: all timelines since are removed, and the store has its former identity again. */
async function undoRestore(host: Host, { startedAt, detail }: NotedChange): Promise<number> {
  const before: string[] = []
  const restored: string[] = []
  for await (const { timeline, createdAt } of host.each()) {
    if (isOfStore(timeline)) continue
    ;(createdAt < startedAt ? before : restored).push(timeline)
  }
  if (before.length > 0) {
    const what = `${before[0]} existed before the restore: delete it, or move it to another store, before the restore is abandoned`
    throw new RepriseError('CONFLICT', what, { timelines: before.slice(0, 100) })
  }
  for (const timeline of restored) {
    // It was removed together with another timeline.
    await deleteTimeline(host.kernel, timeline, { forks: true, savepoints: true, unfinished: true }).catch(
      ignoring('NOT_FOUND'),
    )
  }
  await putBack(host.kernel, detail?.before)
  return restored.length
}

/**
 * Timelines that had been moved away and came back are moved away again. So is a timeline that has mail by now: senders rely
 * on the message, and it waits for the next import of the timeline.
 */
async function undoImport({ kernel }: Host, { id, of, detail }: NotedChange): Promise<number> {
  let timelines = 0
  for await (const head of importedBy(kernel, id)) {
    timelines += 1
    const { [movedAttribute]: before } = head.attributes
    if (before === undefined && (await forgetUnlessMail(kernel, head))) continue
    const place = { to: detail?.from ?? of, namespace: detail?.namespace ?? kernel.namespace, arrival: 'done' as const }
    const mark: Mark = { at: kernel.worker.now(), was: { status: 'open', queue: null, wakeup: null }, ...place }
    const outcome = await submit(kernel, {
      guard: { timeline: head.timeline, epoch: head.epoch },
      status: movedStatus,
      attributes: { [importingAttribute]: null, [movedAttribute]: before ?? JSON.stringify(mark) },
      release: true,
    })
    if (!outcome.ok) throw refusalError(head.timeline, outcome)
  }
  return timelines
}

/** A change that no process executes: processes of this host that are gone are detected at once. */
async function interrupted(host: Host, id: string): Promise<NotedChange> {
  await host.deadWorkers.retireGone()
  const change = await changeOf(host.kernel, id)
  if (!change.isRunning) return change
  throw new RepriseError(
    'OWNED',
    `worker ${change.by} is executing the ${change.kind}: stop it first, or wait for it`,
    { id },
  )
}

function abandonOf(host: Host, change: NotedChange): (engine: Host, of: string) => Promise<void> {
  const found = host.models.all().find(({ abandons }) => abandons?.[change.kind])?.abandons?.[change.kind]
  if (found) return found
  throw elsewhere(change, `the definition of ${change.of} is not known here: declare it, or name its module`)
}

/** The store that the note names, and no other: a timeline that arrived there must not arrive twice. */
async function otherStore(other: Host | null, change: NotedChange, at: string | undefined, of: string): Promise<Host> {
  const option = change.kind === 'import' ? '--from' : '--to'
  const how = `name the other store, reprise changes ${change.id} --resume ${option} URL, or ${repeatedMove(of, change.detail ?? {})}`
  if (!other) throw elsewhere(change, how)
  const { location } = await other.kernel.store.upkeep.facts()
  const { namespace } = other.kernel
  const expected = change.detail?.namespace ?? namespace
  if (location === at && namespace === expected) return other
  const named = (place: string | undefined, space: string) => `${place} (namespace ${space})`
  throw elsewhere(change, `the other store is ${named(at, expected)}, and not ${named(location, namespace)}`)
}

/** The command for a repeated move: it needs both stores, and a note has no credentials. */
function repeatedMove(timeline: string, { from, to }: Readonly<Record<string, string>>): string {
  const url = from === undefined ? '' : ` --url ${from}`
  return `repeat the move, reprise move ${timeline} --to ${to}${url}`
}

function elsewhere({ id, kind, of }: NotedChange, why: string): RepriseError {
  return new RepriseError('INVALID_ARGUMENT', `the ${kind} of ${of} (${id}) cannot be ended here: ${why}`, { id })
}
