// The catalog: the existing checkpoints, their marks, and which of them may be removed.

import { type Digest, equalBytes, type ManifestId } from '../../../core/coordinate.ts'
import type { Change, ManifestMark, ManifestRecord, Rewritten } from '../../../core/store/ports.ts'
import type { Connection } from '../file/connection.ts'
import type { SqlRow, SqlValue } from '../file/driver.ts'
import { damaged } from '../file/failure.ts'
import { sweepLater } from '../upkeep/sweep.ts'
import type { Writing } from '../writing/writing.ts'
import { checkRow, checksumOf, isIntact } from './row-checksum.ts'
import { addTo, sumOf, takeFrom } from './row-counts.ts'
import type { Timeline } from './timelines.ts'

export const columnNames = `space id tid seq epoch digest body body_digest base_id created_at trigger label is_pinned
  fold_version total_bytes added_bytes verified_at invalid drilled_at drill`.split(/\s+/)
const insert = `INSERT INTO reprise_manifest (${columnNames.join(', ')}, crc) VALUES (${'?, '.repeat(20)}?)`
const update = `UPDATE reprise_manifest SET ${columnNames.map((name) => `${name} = ?`).join(', ')}, crc = ? WHERE id = ?
  AND space = ?`

export function publish(writing: Writing, timeline: Timeline, records: readonly ManifestRecord[]): Timeline {
  let sum = timeline.sums.checkpoints
  for (const record of records) {
    const values = valuesOf(writing.space, timeline.tid, record)
    const crc = checksumOf(values)
    writing.connection.run(insert, ...values, crc)
    sum = addTo(sum, crc)
  }
  return countCheckpoints(timeline, records.length, sum)
}

export function mark(writing: Writing, timeline: Timeline, marks: readonly ManifestMark[]): Timeline {
  let sum = timeline.sums.checkpoints
  for (const { id, ...notes } of marks) {
    const row = writing.connection.get(selectOne, writing.space, id)
    const record = row && row.tid === timeline.tid ? toRecordOrInvalid(row) : undefined
    // A damaged row is invalid regardless of its marks; it is kept unchanged for diagnosis.
    if (!record || isBroken(record)) continue
    const given = Object.fromEntries(Object.entries(notes).filter(([, value]) => value !== undefined))
    const values = valuesOf(writing.space, timeline.tid, { ...record, ...given })
    const crc = checksumOf(values)
    sum = addTo(takeFrom(sum, row!.crc as number), crc)
    writing.connection.run(update, ...values, crc, id, writing.space)
  }
  return countCheckpoints(timeline, 0, sum)
}

/** The checksum of a line in the file. */
function crcOf({ connection, space }: Writing, id: ManifestId): number {
  return connection.get('SELECT crc FROM reprise_manifest WHERE space = ? AND id = ?', space, id)?.crc as number
}

export function drop(writing: Writing, timeline: Timeline, ids: readonly ManifestId[]): Timeline {
  const damaged = new Set(catalogOf(writing.connection, timeline).flatMap((line) => (isBroken(line) ? line.id : [])))
  let sum = timeline.sums.checkpoints
  for (const id of ids) {
    sum = takeFrom(sum, crcOf(writing, id))
    writing.connection.run('DELETE FROM reprise_manifest WHERE space = ? AND id = ?', writing.space, id)
  }
  // The checksum of a damaged line differs from the one that was added, so the remaining lines are summed again.
  if (ids.some((id) => damaged.has(id))) sum = sumOf(writing.connection.all(select, timeline.tid))
  return countCheckpoints(timeline, -ids.length, sum)
}

/** The next run may depend on the digest here (log.ts): unless the floor has the same, the run with that digest is kept. */
export function trim(writing: Writing, timeline: Timeline, seq: number, digest: Digest): void {
  const run = writing.log.runEndingAt(timeline, seq)
  if (run && equalBytes(writing.log.digestOf(timeline, run), digest)) sweepLater(writing, timeline, seq, run.position)
}

function isBroken({ invalid }: ManifestRecord): boolean {
  return invalid === brokenLine
}

/** Replaces the bodies of manifests (Upkeep.rewrite). Damaged lines stay unchanged. */
export function rewriteBodies(writing: Writing, change: Change, after: string | null, limit: number): Rewritten {
  const { connection, space } = writing
  const sql = 'SELECT * FROM reprise_manifest WHERE space = ? AND number > ? ORDER BY number LIMIT ?'
  const rows = connection.all(sql, space, Number(after ?? 0), Math.max(1, limit))
  let changed = 0
  for (const row of rows) {
    const body = isIntact(row, columnNames) ? change(row.body as Uint8Array) : null
    if (!body) continue
    const crc = checksumOf(columnNames.map((name) => (name === 'body' ? body : (row[name] ?? null))))
    connection.run('UPDATE reprise_manifest SET body = ?, crc = ? WHERE number = ?', body, crc, row.number!)
    const timeline = writing.timelines.byTid(row.tid as number)!
    const checkpoints = addTo(takeFrom(timeline.sums.checkpoints, row.crc as number), crc)
    writing.timelines.put({ ...timeline, sums: { ...timeline.sums, checkpoints } })
    changed += 1
  }
  const next = rows.length >= Math.max(1, limit) ? String(rows.at(-1)!.number) : null
  return { next, seen: rows.length, changed, left: 0 }
}

/** Restores lines from their copies (Upkeep.mendCatalog). Returns how many are still missing; these no longer count. */
export function mendLines(writing: Writing, timeline: Timeline, lines: readonly ManifestRecord[]): number {
  const { connection, space } = writing
  for (const line of [...lines].reverse()) {
    connection.run('DELETE FROM reprise_manifest WHERE space = ? AND id = ?', space, line.id)
    const values = valuesOf(space, timeline.tid, line)
    connection.run(insert, ...values, checksumOf(values))
  }
  const rows = connection.all(select, timeline.tid)
  const missing = timeline.row.checkpoints - rows.length
  writing.timelines.put(countCheckpoints(timeline, -missing, sumOf(rows)))
  return Math.max(0, missing)
}

const brokenLine = 'its row in the catalog does not match its checksum'
const selectOne = 'SELECT * FROM reprise_manifest WHERE space = ? AND id = ?'
const select = 'SELECT * FROM reprise_manifest WHERE tid = ? ORDER BY seq DESC, number DESC'

/** Highest sequence first; among equal ones, the last published first. A damaged line is an invalid checkpoint (A1.3). */
export function catalogOf(connection: Connection, timeline: Timeline): ManifestRecord[] {
  return connection.all(select, timeline.tid).map(toRecordOrInvalid)
}

function toRecordOrInvalid(row: SqlRow): ManifestRecord {
  return isIntact(row, columnNames) ? toRecord(row) : toInvalid(row)
}

/** Throws STORE_DAMAGED if a line of the catalog is damaged or missing. */
export function checkCatalog(connection: Connection, timeline: Timeline): void {
  for (const row of connection.all(select, timeline.tid)) {
    checkRow(row, columnNames, `checkpoint ${row.id} of ${timeline.name}`)
  }
  readCatalog(connection, timeline)
}

export function hasManifests(connection: Connection, space: number): boolean {
  return connection.get('SELECT 1 FROM reprise_manifest WHERE space = ? LIMIT 1', space) !== undefined
}

/** A missing checkpoint is damage, so checkpoints are counted. Not inside a commit, which may add more. */
export function readCatalog(connection: Connection, timeline: Timeline): ManifestRecord[] {
  const { name, row, sums } = timeline
  const rows = connection.all(select, timeline.tid)
  if (rows.length !== row.checkpoints) {
    throw damaged(`${name} has ${row.checkpoints} checkpoints, but ${rows.length} are in the catalog`, {
      timeline: name,
    })
  }
  // A line that does not match its checksum is an invalid checkpoint; the other lines are counted.
  if (
    rows.every((row) => isIntact(row, columnNames)) &&
    (sumOf(rows) !== sums.checkpoints || rows.some(({ tid }) => tid !== timeline.tid))
  ) {
    throw damaged(`the catalog of ${name} differs from its last write`, { timeline: name })
  }
  return rows.map(toRecordOrInvalid)
}

export function isInCatalog({ connection, space }: Writing, id: ManifestId): boolean {
  return connection.get('SELECT 1 FROM reprise_manifest WHERE space = ? AND id = ?', space, id) !== undefined
}

function countCheckpoints(timeline: Timeline, count: number, sum: number): Timeline {
  const { row, sums } = timeline
  return {
    ...timeline,
    row: count === 0 ? row : { ...row, checkpoints: row.checkpoints + count },
    sums: { ...sums, checkpoints: sum },
  }
}

function valuesOf(space: number, tid: number, record: ManifestRecord): SqlValue[] {
  return [
    space,
    record.id,
    tid,
    record.seq,
    record.epoch,
    record.digest,
    record.body,
    record.bodyDigest,
    record.baseId,
    record.createdAt,
    record.trigger,
    record.label,
    record.isPinned ? 1 : 0,
    record.foldVersion,
    record.totalBytes,
    record.addedBytes,
    record.verifiedAt,
    record.invalid,
    record.drilledAt,
    record.drill,
  ]
}

/** Recovery continues without it, so only its identity is trusted; types follow the port. */
function toInvalid(row: SqlRow): ManifestRecord {
  const nothing = new Uint8Array()
  return {
    ...toRecord(row),
    id: String(row.id) as ManifestId,
    seq: Number.isSafeInteger(row.seq) ? (row.seq as number) : 0,
    epoch: 0,
    digest: nothing,
    body: nothing,
    bodyDigest: nothing,
    baseId: null,
    createdAt: 0,
    trigger: '',
    label: null,
    foldVersion: String(row.fold_version),
    totalBytes: 0,
    addedBytes: 0,
    verifiedAt: null,
    invalid: brokenLine,
    drilledAt: null,
    drill: null,
  }
}

function toRecord(row: SqlRow): ManifestRecord {
  return {
    id: row.id as ManifestId,
    seq: row.seq as number,
    epoch: row.epoch as number,
    digest: row.digest as Uint8Array,
    body: row.body as Uint8Array,
    bodyDigest: row.body_digest as Uint8Array,
    baseId: row.base_id as ManifestId | null,
    createdAt: row.created_at as number,
    trigger: row.trigger as string,
    label: row.label as string | null,
    isPinned: row.is_pinned === 1,
    foldVersion: row.fold_version as string,
    totalBytes: row.total_bytes as number,
    addedBytes: row.added_bytes as number,
    verifiedAt: row.verified_at as number | null,
    invalid: row.invalid as string | null,
    drilledAt: row.drilled_at as number | null,
    drill: row.drill as string | null,
  }
}
