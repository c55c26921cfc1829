// The inbox. A message stays after it was consumed, without its data, so that a repeated id is dropped; tidy forgets it.
// Mail to a timeline that does not exist waits under a stub of it.

import type { MessageId, TimelineId } from '../../core/coordinate.ts'
import type { Message, OutgoingMessage } from '../../core/ports.ts'
import type { Connection } from './connection.ts'
import type { SqlValue } from './driver.ts'
import { damaged } from './failure.ts'
import type { HeadState } from './head-state.ts'
import { Refused } from './refused.ts'
import { checkSeal, checkText, seal } from './seal.ts'
import type { Timeline, TimelineRow } from './timelines.ts'
import type { Writing } from './writing.ts'

const columnNames = ['tid', 'id', 'kind', 'data', 'sent_at', 'consumed_at']

/** Says whether any of the messages was new. */
export function send(writing: Writing, messages: readonly OutgoingMessage[]): boolean {
  let isNew = false
  for (const { id, to, kind, data } of messages) {
    for (const text of [id, to, kind]) checkText(text, 'a message')
    const timeline = writing.timelines.find(to) ?? makeStub(writing, to)
    const values: SqlValue[] = [timeline.tid, id, kind, data, writing.now, null]
    const sql = `INSERT INTO reprise_inbox (tid, id, kind, data, sent_at, consumed_at, crc) VALUES (?, ?, ?, ?, ?, ?, ?)
      ON CONFLICT DO NOTHING`
    if (writing.connection.run(sql, ...values, seal(values)) === 0) continue
    isNew = true
    addMail(writing, timeline.tid, 1)
  }
  return isNew
}

export function consume(writing: Writing, timeline: Timeline, ids: readonly MessageId[]): void {
  const nothing = new Uint8Array()
  for (const id of ids) {
    const row = writing.connection.get('SELECT * FROM reprise_inbox WHERE tid = ? AND id = ?', timeline.tid, id)
    if (row) checkSeal(row, columnNames, `message ${id} to ${timeline.name}`)
    if (!row || row.consumed_at !== null) {
      throw new Refused('CONFLICT', `no unread message ${id} to ${timeline.name}`)
    }
    const crc = seal([timeline.tid, id, row.kind!, nothing, row.sent_at!, writing.now])
    const sql = 'UPDATE reprise_inbox SET data = ?, consumed_at = ?, crc = ? WHERE number = ?'
    writing.connection.run(sql, nothing, writing.now, crc, row.number!)
    addMail(writing, timeline.tid, -1)
  }
}

export function readInbox(connection: Connection, timeline: Timeline, limit: number): Message[] {
  const sql = 'SELECT * FROM reprise_inbox WHERE tid = ? AND consumed_at IS NULL ORDER BY number LIMIT ?'
  const rows = connection.all(sql, timeline.tid, Math.max(0, limit))
  if (rows.length < Math.min(limit, timeline.row.mail)) {
    throw damaged(`${timeline.name} has ${timeline.row.mail} unread messages, ${rows.length} are there`, {
      timeline: timeline.name,
    })
  }
  return rows.map((row) => {
    checkSeal(row, columnNames, `message ${row.id} to ${timeline.name}`)
    return {
      id: row.id as MessageId,
      to: timeline.name,
      kind: row.kind as string,
      data: row.data as Uint8Array,
      sentAt: row.sent_at as number,
    }
  })
}

/** The mail, read and unread, goes on to another timeline: seals name the timeline, so they are made anew. */
export function moveMail(connection: Connection, from: number, to: number): void {
  for (const row of connection.all('SELECT * FROM reprise_inbox WHERE tid = ?', from)) {
    checkSeal(row, columnNames, `message ${row.id}`)
    const crc = seal([to, ...columnNames.slice(1).map((name) => row[name] ?? null)])
    connection.run('UPDATE reprise_inbox SET tid = ?, crc = ? WHERE number = ?', to, crc, row.number!)
  }
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

function addMail({ timelines }: Writing, tid: number, count: number): void {
  const timeline = timelines.byTid(tid)!
  timelines.put({ ...timeline, row: { ...timeline.row, mail: timeline.row.mail + count } })
}
