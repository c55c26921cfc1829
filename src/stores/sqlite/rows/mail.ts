// The inbox. A consumed message stays without its data, so that a repeated id is dropped; tidy removes it later. Mail to a
// timeline that does not exist waits under a stub of it.

import type { MessageId, TimelineId } from '../../../core/coordinate.ts'
import type { RepriseError } from '../../../core/errors.ts'
import type { Change, Message, OutgoingMessage, Rewritten } from '../../../core/store/ports.ts'
import type { Connection } from '../file/connection.ts'
import type { SqlRow, SqlValue } from '../file/driver.ts'
import { damaged } from '../file/failure.ts'
import type { Writing } from '../writing/writing.ts'
import type { HeadState } from './head-state.ts'
import { checksumOf, isIntact } from './row-checksum.ts'
import { addTo, takeFrom } from './row-counts.ts'
import type { Timeline, TimelineRow } from './timelines.ts'

const columnNames = ['tid', 'id', 'kind', 'data', 'sent_at', 'consumed_at']

export function send(writing: Writing, messages: readonly OutgoingMessage[]): void {
  for (const { id, to, kind, data } of messages) {
    const timeline = writing.timelines.find(to) ?? makeStub(writing, to)
    const values: SqlValue[] = [timeline.tid, id, kind, data, writing.now, null]
    const sql =
      'INSERT INTO reprise_inbox (tid, id, kind, data, sent_at, consumed_at, crc) VALUES (?, ?, ?, ?, ?, ?, ?)'
    const crc = checksumOf(values)
    writing.connection.run(sql, ...values, crc)
    countMail(writing, timeline.tid, 1, (sum) => addTo(sum, crc))
  }
}

export function consume(writing: Writing, timeline: Timeline, ids: readonly MessageId[]): void {
  const nothing = new Uint8Array()
  for (const id of ids) {
    const row = find(writing.connection, timeline, id)!
    const crc = checksumOf([timeline.tid, id, row.kind!, nothing, row.sent_at!, writing.now])
    const sql = 'UPDATE reprise_inbox SET data = ?, consumed_at = ?, crc = ? WHERE number = ?'
    writing.connection.run(sql, nothing, writing.now, crc, row.number!)
    countMail(writing, timeline.tid, -1, (sum) => takeFrom(sum, row.crc as number))
  }
}

export function findMessage(connection: Connection, timeline: Timeline, id: MessageId): 'unread' | 'consumed' | null {
  const row = find(connection, timeline, id)
  if (!row) return null
  return row.consumed_at === null ? 'unread' : 'consumed'
}

function find(connection: Connection, timeline: Timeline, id: MessageId): SqlRow | undefined {
  const row = connection.get('SELECT * FROM reprise_inbox WHERE tid = ? AND id = ?', timeline.tid, id)
  if (!row) return undefined
  checkMessage(row, timeline.name)
  if (row.id !== id || row.tid !== timeline.tid) throw damaged(`message ${id} leads to ${row.id}`)
  return row
}

/** Ordered by their bytes. */
export function consumedIds(
  connection: Connection,
  { tid, name }: Timeline,
  after: MessageId | null,
  limit: number,
): MessageId[] {
  const sql = 'SELECT * FROM reprise_inbox WHERE tid = ? AND id > ? AND consumed_at IS NOT NULL ORDER BY id LIMIT ?'
  return connection.all(sql, tid, after ?? '', Math.max(0, limit)).map((row) => {
    checkMessage(row, name)
    return row.id as MessageId
  })
}

/** Inbox sizes at the last complete count, by timeline: a large inbox is counted again when it has halved or doubled. */
export type CountedInboxes = Map<number, number>

const alwaysCounted = 500
const countedMax = 1000

export function readInbox(
  connection: Connection,
  timeline: Timeline,
  limit: number,
  counted: CountedInboxes = new Map(),
): Message[] {
  const sql = 'SELECT * FROM reprise_inbox WHERE tid = ? AND consumed_at IS NULL ORDER BY number LIMIT ?'
  const rows = connection.all(sql, timeline.tid, Math.max(0, limit))
  const { tid, row } = timeline
  const before = counted.get(tid) ?? 0
  if (row.mail <= alwaysCounted || row.mail <= before / 2 || row.mail > before * 2) {
    checkComplete(connection, timeline)
    if (counted.size >= countedMax) counted.clear()
    counted.set(tid, row.mail)
  } else if (rows.length < Math.min(limit, row.mail)) throw incomplete(timeline, rows.length)
  return rows.map((row) => {
    checkMessage(row, timeline.name)
    if (row.tid !== tid || row.consumed_at !== null) throw incomplete(timeline, rows.length)
    return {
      id: row.id as MessageId,
      to: timeline.name,
      kind: row.kind as string,
      data: row.data as Uint8Array,
      sentAt: row.sent_at as number,
    }
  })
}

/** An older release put a numeric id or kind into the checksum as a number, and SQLite stores it as text: both are accepted. */
export function isSoundMessage(row: SqlRow): boolean {
  if (isIntact(row, columnNames)) return true
  const [id, kind] = [Number(row.id), Number(row.kind)]
  return [{ id }, { kind }, { id, kind }].some((given) => isIntact({ ...row, ...given }, columnNames))
}

function checkMessage(row: SqlRow, to: string): void {
  if (!isSoundMessage(row)) throw damaged(`message ${row.id} to ${to} does not match its checksum`)
}

function checkComplete(connection: Connection, timeline: Timeline): void {
  const sql = `SELECT count(*) AS count, coalesce(sum(crc), 0) & 4294967295 AS sum FROM reprise_inbox
    WHERE tid = ? AND consumed_at IS NULL`
  const found = connection.get(sql, timeline.tid)!
  if (found.count !== timeline.row.mail || found.sum !== timeline.sums.mail) {
    throw incomplete(timeline, found.count as number)
  }
}

function incomplete({ name, row }: Timeline, count: number): RepriseError {
  return damaged(`${name} should have ${row.mail} unread messages; it has ${count}, or different ones`, {
    timeline: name,
  })
}

/**
 * Moves all mail, read and unread, to another timeline: checksums cover the timeline, so they are computed again. Returns the
 * sum of the checksums of unread messages.
 */
export function moveMail(connection: Connection, from: number, to: number): number {
  let sum = 0
  for (const row of connection.all('SELECT * FROM reprise_inbox WHERE tid = ?', from)) {
    checkMessage(row, `timeline ${from}`)
    const crc = checksumOf([to, ...columnNames.slice(1).map((name) => row[name] ?? null)])
    connection.run('UPDATE reprise_inbox SET tid = ?, crc = ? WHERE number = ?', to, crc, row.number!)
    if (row.consumed_at === null) sum = addTo(sum, crc)
  }
  return sum
}

/** Replaces the bytes of unread mail (Upkeep.rewrite). Damaged rows stay unchanged. */
export function rewriteMail(writing: Writing, change: Change, after: string | null, limit: number): Rewritten {
  const { connection, space } = writing
  const sql = `SELECT i.* FROM reprise_inbox i JOIN reprise_timeline t ON t.tid = i.tid
    WHERE t.space = ? AND i.consumed_at IS NULL AND i.number > ? ORDER BY i.number LIMIT ?`
  const rows = connection.all(sql, space, Number(after ?? 0), Math.max(1, limit))
  let changed = 0
  for (const row of rows) {
    const data = isIntact(row, columnNames) ? change(row.data as Uint8Array) : null
    if (!data) continue
    const crc = checksumOf(columnNames.map((name) => (name === 'data' ? data : (row[name] ?? null))))
    connection.run('UPDATE reprise_inbox SET data = ?, crc = ? WHERE number = ?', data, crc, row.number!)
    const timeline = writing.timelines.byTid(row.tid as number)!
    const mail = addTo(takeFrom(timeline.sums.mail, row.crc as number), crc)
    writing.timelines.put({ ...timeline, sums: { ...timeline.sums, mail } })
    changed += 1
  }
  const next = rows.length >= Math.max(1, limit) ? String(rows.at(-1)!.number) : null
  return { next, seen: rows.length, changed, left: 0 }
}

export function forgetConsumed(connection: Connection, space: number, before: number): number {
  const sql = `DELETE FROM reprise_inbox WHERE consumed_at IS NOT NULL AND consumed_at < ?
    AND tid IN (SELECT tid FROM reprise_timeline WHERE space = ?)`
  return connection.run(sql, before, space)
}

export const emptyRow: Omit<TimelineRow, 'createdAt'> = {
  isStub: false,
  parent: null,
  queue: null,
  priority: 0,
  status: '',
  wakeup: null,
  mail: 0,
  checkpoints: 0,
  cursors: 0,
  attributes: {},
}

function makeStub({ timelines, now }: Writing, name: TimelineId): Timeline {
  const noDigest = new Uint8Array(32)
  const head: HeadState = {
    seq: 0,
    life: 1,
    epoch: 0,
    digest: noDigest,
    position: 0,
    floor: 0,
    floorDigest: noDigest,
    base: null,
    owner: null,
    operation: null,
    updatedAt: now,
  }
  return timelines.insert(name, head, { ...emptyRow, isStub: true, createdAt: now })
}

function countMail({ timelines }: Writing, tid: number, count: number, change: (sum: number) => number): void {
  const timeline = timelines.byTid(tid)!
  const { row, sums } = timeline
  timelines.put({ ...timeline, row: { ...row, mail: row.mail + count }, sums: { ...sums, mail: change(sums.mail) } })
}
