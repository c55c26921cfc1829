// Rows of the tables as the port's values.

import type { ManifestId, MessageId, OperationId, TimelineId, WorkerId } from '../../core/coordinate.ts'
import type {
  Attribute,
  CursorRow,
  EntryRun,
  Head,
  Inbox,
  ManifestRecord,
  Message,
  WorkerRow,
} from '../../core/store/ports.ts'
import { fromByteaText } from './driver.ts'
import { isAlive, nowMs, operationOf } from './functions.ts'
import { unescapeAttributes, unescapeText } from './text.ts'

/** The columns of a head: `t` is the timeline, `r` its last run if that is above, `b` its base, `w` its owner's worker. */
export const headColumns = `t.id, coalesce(r.last, t.seq) AS seq, t.epoch, coalesce(r.digest, t.digest) AS digest, t.owner,
  coalesce(${isAlive(nowMs)}, false) AS is_owner_alive, t.floor, t.floor_digest, coalesce(b.id, t.base_id) AS base_id,
  t.base_seq, t.base_digest, t.queue, t.priority, t.status, t.wakeup, t.mail, t.attributes,
  coalesce(r.operation, t.operation) AS operation, t.created_at, greatest(t.updated_at, r.written_at) AS updated_at, t.life`

/** Looked up one by one: a join might be planned over the whole tables. */
export function headTables(s: string, timelines = `${s}.timeline`): string {
  return `${timelines} t
    LEFT JOIN LATERAL (SELECT l.last, l.digest, l.written_at, ${operationOf('l')} AS operation FROM ${s}.run l
      WHERE l.tid = t.tid AND l.first > t.seq ORDER BY l.first DESC LIMIT 1) r ON true
    LEFT JOIN LATERAL (SELECT p.id FROM ${s}.timeline p WHERE p.tid = t.base_tid LIMIT 1) b ON true
    LEFT JOIN LATERAL (SELECT o.* FROM ${s}.worker o WHERE o.ns = t.ns AND o.id = t.owner LIMIT 1) w ON true`
}

/** The types of headColumns, for a function that returns records. */
export const headRecord = `id text, seq bigint, epoch bigint, digest bytea, owner text, is_owner_alive boolean, floor bigint,
  floor_digest bytea, base_id text, base_seq bigint, base_digest bytea, queue text, priority double precision, status text,
  wakeup double precision, mail integer, attributes jsonb, operation text, created_at double precision, updated_at double precision, life bigint`

export interface HeadRow {
  readonly id: TimelineId
  readonly seq: number
  readonly epoch: number
  readonly digest: Uint8Array
  readonly owner: string | null
  readonly is_owner_alive: boolean
  readonly floor: number
  readonly floor_digest: Uint8Array
  readonly base_id: TimelineId | null
  readonly base_seq: number
  readonly base_digest: Uint8Array
  readonly queue: string | null
  readonly priority: number
  readonly status: string
  readonly wakeup: number | null
  readonly mail: number
  readonly attributes: Record<string, Attribute>
  readonly operation: string | null
  readonly created_at: number
  readonly updated_at: number
  readonly life: number
}

export function toHead(row: HeadRow): Head {
  return {
    timeline: row.id,
    seq: row.seq,
    life: row.life,
    epoch: row.epoch,
    digest: row.digest,
    owner: maybe(row.owner) as WorkerId | null,
    isOwnerAlive: row.is_owner_alive,
    floor: row.floor,
    floorDigest: row.floor_digest,
    base: row.base_id === null ? null : { timeline: row.base_id, seq: row.base_seq, digest: row.base_digest },
    queue: maybe(row.queue),
    priority: row.priority,
    status: unescapeText(row.status),
    wakeup: row.wakeup,
    mail: row.mail,
    attributes: unescapeAttributes(row.attributes),
    operation: maybe(row.operation) as OperationId | null,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }
}

/** A head from JSON, where bytes are still text. */
export function fromJsonHead(row: Readonly<Record<string, unknown>>): Head {
  const bytes = (name: string) => (row[name] === null ? null : fromByteaText(row[name] as string))
  const binary = { digest: bytes('digest'), floor_digest: bytes('floor_digest'), base_digest: bytes('base_digest') }
  return toHead({ ...row, ...binary } as unknown as HeadRow)
}

export interface RunRow {
  readonly first: number
  readonly last: number
  readonly digest: Uint8Array
  readonly bytes: Uint8Array
}

export function toRun({ first, last, digest, bytes }: RunRow): EntryRun {
  return { first, count: last - first + 1, digest, bytes }
}

/** An empty inbox is one row, without a message. */
export interface InboxRow {
  readonly now: number
  readonly id: string | null
  readonly kind: string
  readonly data: Uint8Array
  readonly sent_at: number
}

export function toInbox(rows: readonly InboxRow[], to: TimelineId): Inbox {
  const messages: Message[] = []
  for (const { id, kind, data, sent_at: sentAt } of rows) {
    if (id !== null) messages.push({ id: unescapeText(id) as MessageId, to, kind: unescapeText(kind), data, sentAt })
  }
  return { messages, now: rows[0]!.now }
}

/** A row of the function catalogs (sql/read-functions.sql). */
export interface ManifestRow {
  readonly id: string
  readonly seq: number
  readonly epoch: number
  readonly digest: Uint8Array
  readonly body: Uint8Array
  readonly body_digest: Uint8Array
  readonly base_id: string | null
  readonly created_at: number
  readonly trigger: string
  readonly label: string | null
  readonly is_pinned: boolean
  readonly fold_version: string
  readonly total_bytes: number
  readonly added_bytes: number
  readonly verified_at: number | null
  readonly invalid: string | null
  readonly drilled_at: number | null
  readonly drill: string | null
}

export function toManifest(row: ManifestRow): ManifestRecord {
  return {
    id: unescapeText(row.id) as ManifestId,
    seq: row.seq,
    epoch: row.epoch,
    digest: row.digest,
    body: row.body,
    bodyDigest: row.body_digest,
    baseId: maybe(row.base_id) as ManifestId | null,
    createdAt: row.created_at,
    trigger: unescapeText(row.trigger),
    label: maybe(row.label),
    isPinned: row.is_pinned,
    foldVersion: unescapeText(row.fold_version),
    totalBytes: row.total_bytes,
    addedBytes: row.added_bytes,
    verifiedAt: row.verified_at,
    invalid: maybe(row.invalid),
    drilledAt: row.drilled_at,
    drill: maybe(row.drill),
  }
}

export interface CursorDbRow {
  readonly name: string
  readonly owner: TimelineId
  readonly position: string
  readonly moved_at: number
}

export function toCursor(row: CursorDbRow): CursorRow {
  return { name: unescapeText(row.name), owner: row.owner, position: row.position, movedAt: row.moved_at }
}

export interface WorkerDbRow {
  readonly id: string
  readonly name: string
  readonly host: string
  readonly process: string
  readonly lease_ms: number
  readonly info: Record<string, Attribute>
  readonly progress: number
  readonly started_at: number
  readonly beat_at: number
  readonly progress_at: number
  readonly is_alive: boolean
  readonly is_retired: boolean
  readonly is_gone: boolean
}

export function toWorker(row: WorkerDbRow): WorkerRow {
  return {
    id: unescapeText(row.id) as WorkerId,
    name: unescapeText(row.name),
    host: unescapeText(row.host),
    process: unescapeText(row.process),
    leaseMs: row.lease_ms,
    info: unescapeAttributes(row.info),
    progress: row.progress,
    startedAt: row.started_at,
    beatAt: row.beat_at,
    progressAt: row.progress_at,
    isAlive: row.is_alive,
    isRetired: row.is_retired,
    isGone: row.is_gone,
  }
}

function maybe(text: string | null): string | null {
  return text === null ? null : unescapeText(text)
}
