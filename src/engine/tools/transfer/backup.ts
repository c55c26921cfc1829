// A backup of a whole store as one file, and its restore into an empty store of any kind. Both resume after an interruption.
// All timelines are exported as of one moment, with their heads and their unread mail; from a set of databases, which has no
// such moment, each as of the moment when it is read. Timelines with a position in the feed of this very store (consumers,
// projections) are excluded and listed: they start over in the other store.

import { open as openFile, rm } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { timelineId, toHex } from '../../../core/coordinate.ts'
import type { Duration } from '../../../core/duration.ts'
import { isReprise, RepriseError } from '../../../core/errors.ts'
import { isWithin } from '../../../core/history/scope.ts'
import type { Head, LossRecord, PastLife, RequestRow } from '../../../core/store/ports.ts'
import { syncFolder } from '../../../lib/durable-file.ts'
import { warnOnReject } from '../../../lib/warn-on-reject.ts'
import { throwIfAborted } from '../../base/abortable-wait.ts'
import { isOfStore } from '../../model/id-prefixes.ts'
import type { Kernel } from '../../storage/kernel.ts'
import { copyLosses, dropLosses, storeLosses } from '../../storage/losses.ts'
import { headsOf } from '../../storage/sound-page.ts'
import { type ChangeNote, type ChangeRequest, importingStatus, underNote } from '../../storage/store-change.ts'
import { type BackupRecord, BackupWriter, readRecords } from './backup-file.ts'
import { exportTimeline } from './export.ts'
import { importTimelines } from './import.ts'

export interface BackupOptions {
  readonly onProgress?: (progress: { readonly timeline: string; readonly timelines: number }) => void
  readonly signal?: AbortSignal
  /** An existing object, or one that is written concurrently, is not replaced: EXISTS. An interrupted file is resumed. */
  readonly onlyNew?: boolean
  /**
   * The greatest age of the newest backup of this store. Stored with the store: `reprise doctor` and the metrics report an
   * older one. Default: the bound that an earlier backup stated.
   */
  readonly loseAtMost?: Duration
}

export interface RestoreOptions extends Omit<BackupOptions, 'loseAtMost'> {
  /**
   * The restored store lives beside the original: it gets an identity of its own, so that its idempotency keys differ. Default:
   * false, the restored store replaces the original, and the same intents keep their keys.
   */
  readonly copy?: boolean
}

export interface BackupReport {
  readonly file: string
  readonly bytes: number
  readonly timelines: number
  /** The number of those that were in the file when this attempt began. */
  readonly before: number
  readonly leftOut: readonly { readonly timeline: string; readonly why: string }[]
  /** The time of the data in the backup. Null: the store is several databases, and each timeline has its own moment. */
  readonly moment: number | null
}

export interface RestoreReport {
  readonly timelines: number
  /** The number of those that existed when this attempt began. */
  readonly before: number
  readonly leftOut: BackupReport['leftOut']
  /** The time of the data in the backup. Null: each timeline has its own moment, or the file is of an older version. */
  readonly moment: number | null
}

type Description =
  | {
      readonly timeline: string
      readonly seq: number
      readonly digest: string
      /** The store, and the rest of the state (head and unread mail). Missing in older files. */
      readonly store?: string
      readonly state?: string
    }
  | {
      readonly isEnd: true
      readonly timelines: number
      readonly leftOut: BackupReport['leftOut']
      /** As in the report. Missing in older files. */
      readonly moment?: number | null
      /** The id of the store, and the lives of its forgotten ids. Missing in older files. */
      readonly store?: string
      /** The namespace from which its identities are derived. */
      readonly namespace?: string
      readonly pasts?: readonly PastLife[]
      /** Losses of the store that were not accepted. */
      readonly losses?: readonly LossRecord[]
      /** Requests of applications that were not carried out. Bytes are written in base64. */
      readonly requests?: readonly StoredRequest[]
    }

type StoredRequest = Omit<RequestRow, 'data'> & { readonly json: string | null; readonly bytes: string | null }

/** @example await rp.backup('store.rpb') */
export async function backup(kernel: Kernel, path: string, options: BackupOptions = {}): Promise<BackupReport> {
  const frozen = await kernel.freeze()
  const moment = frozen ? kernel.clock.now() : null
  try {
    return { ...(await backupFrom(frozen ?? kernel, path, options, moment)), moment }
  } finally {
    await frozen?.store.close()
  }
}

/** Backups of this process so far: two of them may have the same name. */
let attempts = 0

async function backupFrom(
  kernel: Kernel,
  path: string,
  options: BackupOptions,
  moment: number | null,
): Promise<Omit<BackupReport, 'moment'>> {
  const part = `${path}.part`
  const one = `${part}.${process.pid}-${++attempts}.one`
  const { id: store } = await kernel.identity.load()
  const { writer, kept } = await BackupWriter.open<Description>(part, (record) => applies(kernel, store, part, record))
  const done = new Set(kept.flatMap((description) => ('timeline' in description ? [description.timeline] : [])))
  const before = done.size
  const leftOut: { timeline: string; why: string }[] = []
  try {
    const owners = new Map((await kernel.store.cursors()).map((cursor) => [cursor.owner as string, cursor.name]))
    for await (const head of headsOf(kernel)) {
      throwIfAborted(options.signal, 'backup')
      const why = whyLeftOut(kernel, head, owners)
      if (why !== null) leftOut.push({ timeline: head.timeline, why })
      if (why !== null || done.has(head.timeline)) continue
      const added = await addTimeline(kernel, writer, head, one, store)
      if (!added) continue
      done.add(head.timeline)
      warnOnReject(options.onProgress?.({ timeline: head.timeline, timelines: done.size }), 'onProgress')
    }
    const { namespace } = kernel.identity
    const pasts = await allPasts(kernel)
    const losses = await storeLosses(kernel)
    const requests = await waitingRequests(kernel)
    const rest = { store, namespace, pasts, losses, ...(requests.length > 0 && { requests }) }
    await writer.add({ isEnd: true, timelines: done.size, leftOut, moment, ...rest }, null)
    await writer.give(path)
  } finally {
    await writer.close()
    await rm(one, { force: true })
  }
  // A reported backup survives a power loss: each record was synced, and so is its name.
  await syncFolder(dirname(resolve(path)))
  return { file: path, bytes: writer.bytes, timelines: done.size, before, leftOut }
}

const requestsMax = 1_000_000

async function waitingRequests({ store }: Kernel): Promise<StoredRequest[]> {
  const rows = (await store.requests?.list({ limit: requestsMax })) ?? []
  return rows.map(({ data, ...row }) => ({
    ...row,
    json: typeof data === 'string' ? data : null,
    bytes: data instanceof Uint8Array ? Buffer.from(data).toString('base64') : null,
  }))
}

/** Requests may be there from an earlier attempt with the same file. */
async function checkNoRequests({ store }: Kernel, [first]: readonly StoredRequest[]): Promise<void> {
  const [found] = (await store.requests?.list({ limit: 1 })) ?? []
  const isOurs = found?.verb === first?.verb && found?.id === first?.id && found?.sentAt === first?.sentAt
  if (!found || isOurs) return
  throw new RepriseError('EXISTS', 'the store is not empty: it has requests that are not in this backup', {})
}

/** After the timelines: a request may be for one of them. */
async function fillRequests({ store }: Kernel, stored: readonly StoredRequest[]): Promise<void> {
  const rows = stored.map(({ json, bytes, ...row }) => ({
    ...row,
    data: bytes === null ? json : new Uint8Array(Buffer.from(bytes, 'base64')),
  }))
  if (rows.length > 0) await store.requests!.fill(rows)
}

/** Whether a record of an interrupted backup shows the timeline as it is at this backup's moment. Throws CONFLICT. */
async function applies(kernel: Kernel, store: string, part: string, record: Description): Promise<boolean> {
  if (!('timeline' in record) || record.state === undefined) return false
  if (record.store !== store) {
    const what = `${part} is the unfinished backup of another store: remove that file, or choose another name`
    throw new RepriseError('CONFLICT', what, { file: part })
  }
  const [head] = await kernel.store.head([timelineId(record.timeline)])
  return head !== null && head !== undefined && (await stateOf(kernel, head)) === record.state
}

/** Equal texts: the same history, head and unread mail. Its owner and its checkpoints may differ. */
async function stateOf({ store, hash, codec }: Kernel, head: Head): Promise<string> {
  const { timeline, seq, life, digest, floor, status, queue, priority, wakeup, attributes, owner } = head
  const { messages } = head.mail > 0 ? await store.inbox(timeline, head.mail) : { messages: [] }
  const mail = messages.map(({ id }) => id)
  const state = { seq, life, digest, floor, status, queue, priority, wakeup, attributes, isOwned: owner !== null, mail }
  return toHex(hash(codec.encode(state)))
}

const pastsAtOnce = 10_000

async function allPasts({ store }: Kernel): Promise<PastLife[]> {
  const all: PastLife[] = []
  for (let after: string | null = null; ; after = all.at(-1)!.name) {
    const page = await store.upkeep.pasts(after, pastsAtOnce)
    all.push(...page)
    if (page.length < pastsAtOnce) return all
  }
}

/** The reason why its model keeps it in its store: a position in the feed has a meaning only there. */
function whyLeftOut(kernel: Kernel, head: Head, owners: ReadonlyMap<string, string>): string | null {
  if (isOfStore(head.timeline)) return 'it contains records of that store about itself'
  const stays = kernel.models.find(head.timeline)?.transfer?.stays
  if (typeof stays === 'string') return stays
  const cursor = owners.get(head.timeline)
  if (cursor !== undefined) return `its cursor ${cursor} is a position in the feed of that store`
  return isWithin('projection/', head.timeline) ? 'a projection has a position in the feed of that store' : null
}

/** False: the timeline was removed meanwhile. */
async function addTimeline(
  kernel: Kernel,
  writer: BackupWriter,
  listed: Head,
  one: string,
  store: string,
): Promise<boolean> {
  const [head] = await kernel.store.head([listed.timeline])
  if (!head) return false
  const { coordinate } = await exportTimeline(kernel, { timeline: head.timeline, seq: head.seq }, one).catch(
    (error) => {
      // Without a common moment, the timeline may have been rolled back or trimmed since: export its new state.
      if (!isReprise(error, 'NOT_ON_BRANCH', 'OUT_OF_RANGE')) throw error
      return exportTimeline(kernel, { timeline: head.timeline, seq: listed.seq }, one)
    },
  )
  const { seq, digest } = coordinate
  const state = await stateOf(kernel, head)
  const description: Description = { timeline: head.timeline, seq, digest: String(digest), store, state }
  await writer.add(description, one)
  return true
}

/** @example await rp.restore('store.rpb') */
export async function restoreBackup(
  kernel: Kernel,
  path: string,
  options: RestoreOptions = {},
  /** The origin of the file, for people and for a resume. */
  of = resolve(path),
): Promise<RestoreReport> {
  const file = await openFile(path, 'r').catch((error) => {
    throw new RepriseError('NOT_FOUND', `there is no file ${path}`, { file: path }, error)
  })
  try {
    // 1. Verify the whole file before any of it is used.
    const records: BackupRecord<Description>[] = []
    for await (const record of readRecords<Description>(file, path)) records.push(record)
    const last = records.pop()?.description
    if (!last || !('isEnd' in last) || last.timelines !== records.length) {
      throw new RepriseError('NOT_A_SAVEPOINT', `${path} is damaged or incomplete: repeat the backup`, { path })
    }
    const { requests = [] } = last
    if (requests.length > 0 && !kernel.store.requests) {
      const what = `${path} has ${requests.length} requests of applications, which this kind of store cannot hold: restore into SQLite or PostgreSQL`
      throw new RepriseError('STORE_UNSUPPORTED', what, { requests: requests.length })
    }
    // 2. Restore only into an empty store, or one that an earlier attempt with this very file has begun to fill.
    await checkEmpty(kernel, records)
    await checkNoRequests(kernel, requests)
    // 3. Once the note is written, no process opens the store until it is whole; a write just before the note is detected here.
    const isCopy = options.copy ?? false
    const request: ChangeRequest = {
      ...{ kind: 'restore', of, mark: markOf(kernel, records), options: isCopy ? { copy: true } : {} },
      detail: { before: await stateBefore(kernel) },
    }
    return await underNote(kernel, request, async (note) => {
      await checkEmpty(kernel, records)
      note.began()
      const { store, namespace, pasts = [], losses = [] } = last
      await kernel.identity.reincarnate({ isCopy, namespace, ...(store !== undefined && { id: store }) })
      for (let from = 0; from < pasts.length; from += pastsAtOnce) {
        await kernel.store.upkeep.recall(pasts.slice(from, from + pastsAtOnce))
      }
      await copyLosses(kernel, losses)
      const { timelines, before } = await restoreAll(kernel, path, records, note, options)
      await fillRequests(kernel, requests)
      return { timelines, before, leftOut: last.leftOut, moment: last.moment ?? null }
    })
  } finally {
    await file.close()
  }
}

/** The data of the store that an abandoned restore puts back. */
interface StateBefore {
  readonly id: string
  /** The namespace from which identities are derived. */
  readonly namespace: string
  /** Losses that were not accepted. */
  readonly losses: readonly string[]
  /** When the restore began: older requests are of the backup. Missing in older notes. */
  readonly at?: number
}

async function stateBefore(kernel: Kernel): Promise<string> {
  const { id } = await kernel.identity.load()
  const losses = (await storeLosses(kernel)).map((loss) => loss.id)
  const { namespace } = kernel.identity
  return JSON.stringify({ id, namespace, losses, at: kernel.clock.now() } satisfies StateBefore)
}

/**
 * Removes everything that a restore added besides timelines: the identity of the original, which may still be in use, and its
 * losses. Without a text (a note of an older version) the store gets an identity of its own.
 */
export async function putBack(kernel: Kernel, text: string | undefined): Promise<void> {
  if (text === undefined) return void (await kernel.identity.reincarnate({ isCopy: true }))
  const { id, namespace, losses, at = 0 } = JSON.parse(text) as StateBefore
  await kernel.identity.reincarnate({ id, namespace })
  await dropLosses(kernel, new Set(losses))
  for (const { number, sentAt } of (await kernel.store.requests?.list({ limit: requestsMax })) ?? []) {
    if (sentAt < at) await kernel.store.requests!.mark(number, 'removed')
  }
}

async function restoreAll(
  kernel: Kernel,
  path: string,
  records: readonly BackupRecord<Description>[],
  note: ChangeNote,
  options: RestoreOptions,
): Promise<{ timelines: number; before: number }> {
  let before = 0
  let timelines = 0
  for (const record of records) {
    throwIfAborted(options.signal, 'restore')
    const { description } = record
    if ('isEnd' in description || isOfStore(description.timeline)) continue
    if (!(await restoreOne(kernel, path, record, description, options.copy ?? false))) before += 1
    timelines += 1
    await note.progress(timelines, records.length)
    warnOnReject(options.onProgress?.({ timeline: description.timeline, timelines }), 'onProgress')
  }
  return { timelines, before }
}

/** Identifies a backup, wherever its file is. */
function markOf({ hash }: Kernel, records: readonly BackupRecord<Description>[]): string {
  const text = JSON.stringify(records.map(({ description }) => description))
  return toHex(hash(new TextEncoder().encode(`reprise/1 backup ${text}`)))
}

async function checkEmpty(kernel: Kernel, records: readonly BackupRecord<Description>[]): Promise<void> {
  const expected = new Map(
    records.flatMap(({ description }) => ('timeline' in description ? [[description.timeline, description]] : [])),
  )
  for await (const head of headsOf(kernel)) {
    if (isOfStore(head.timeline)) continue
    const known = expected.get(head.timeline)
    const isOurs =
      known && (head.status === importingStatus || (known.seq === head.seq && known.digest === toHex(head.digest)))
    if (isOurs) continue
    const what = `the store is not empty: ${head.timeline} is not in this backup, or was written to since`
    throw new RepriseError('EXISTS', what, { timeline: head.timeline })
  }
}

/** False: the timeline existed already. */
async function restoreOne(
  kernel: Kernel,
  path: string,
  { from, bytes }: Pick<BackupRecord<Description>, 'from' | 'bytes'>,
  description: Extract<Description, { timeline: string }>,
  isCopy: boolean,
): Promise<boolean> {
  const id = timelineId(description.timeline)
  const [there] = await kernel.store.head([id])
  const isThere = there !== undefined && there !== null && there.status !== importingStatus
  if (isThere) return false
  const source = { path, start: from, end: from + bytes - 1 }
  // Nothing is sent, and all mail arrives: all timelines that know of it are restored too.
  await importTimelines(kernel, source, {}, async () => ({ send: [], takes: () => true }), undefined, 'restore', isCopy)
  return true
}
