// Applies a decided commit to the world. The rules are in core/commit; nothing here can be refused.

import { assert } from '../../core/assert.ts'
import type { Changes } from '../../core/commit/changes.ts'
import { mergeAttributes } from '../../core/commit/decide.ts'
import type { HeadFacts } from '../../core/commit/view.ts'
import type { MessageId, TimelineId } from '../../core/coordinate.ts'
import type {
  EntryRun,
  Hash,
  ManifestMark,
  ManifestRecord,
  NewManifest,
  OutgoingMessage,
} from '../../core/store/ports.ts'
import { Log } from './copy-on-write.ts'
import { rememberForgotten } from './past.ts'
import { copyRun } from './view.ts'
import { type MessageRow, messageKey, type Space, type TimelineRow } from './world.ts'

export function apply(space: Space, hash: Hash, changes: Changes, now: number): void {
  const { timeline, head, cursors } = changes
  const found = space.timelines.get(timeline)
  if (changes.forget) {
    rememberForgotten(space, hash, timeline, found!, changes.forget, now)
    forget(space, found!)
    return
  }
  let row = changes.made ? makeRow(space, timeline, changes.made) : found
  assert(row, 'a timeline that a commit changes exists, or is created by it')
  if (changes.archived) row = archive(space, row, changes.archived, now)
  if (changes.run) row = append(space, row, changes.run)
  if (changes.published.length > 0) row = publish(space, row, changes.published)
  for (const mark of changes.marked) row = { ...row, catalog: marked(row.catalog, mark) }
  for (const id of changes.dropped) space.manifests.delete(id)
  const catalog = row.catalog.filter(({ id }) => !changes.dropped.includes(id))
  const { trimmedTo } = changes
  const runs = trimmedTo === null ? row.runs : row.runs.dropFirst(row.runs.search((run) => run.first > trimmedTo))
  consume(space, timeline, changes.consumed, now)
  send(space, changes.sent, now)
  for (const { name, position } of cursors) {
    if (position === null) space.cursors.delete(name)
    else space.cursors.set(name, { name, owner: timeline, position, movedAt: now })
  }
  space.serials.set(row.serial, timeline)
  space.timelines.set(timeline, {
    ...row,
    ...head,
    runs,
    catalog,
    wakeup: changes.wakeup === undefined ? row.wakeup : changes.wakeup,
    queue: changes.queue === undefined ? row.queue : changes.queue,
    priority: changes.priority ?? row.priority,
    status: changes.status ?? row.status,
    attributes: changes.attributes ? mergeAttributes(row.attributes, changes.attributes) : row.attributes,
  })
}

export function send(space: Space, messages: readonly OutgoingMessage[], now: number): void {
  for (const { id, to, kind, data } of messages) {
    const row: MessageRow = { id, to, kind, data: new Uint8Array(data), sentAt: now, consumedAt: null }
    space.messages.set(messageKey(to, id), row)
    space.unread.set(to, [...(space.unread.get(to) ?? []), row])
  }
}

export function copyRecord({ chunksSince: _, ...record }: NewManifest): ManifestRecord {
  return {
    ...record,
    digest: new Uint8Array(record.digest),
    body: new Uint8Array(record.body),
    bodyDigest: new Uint8Array(record.bodyDigest),
  }
}

function makeRow(space: Space, id: TimelineId, head: HeadFacts): TimelineRow {
  return {
    ...head,
    serial: space.nextSerial++,
    id,
    queue: null,
    priority: 0,
    status: '',
    wakeup: null,
    attributes: {},
    createdAt: head.updatedAt,
    runs: new Log(),
    catalog: [],
  }
}

function archive(
  space: Space,
  row: TimelineRow,
  { as, head, goesOnFrom }: NonNullable<Changes['archived']>,
  now: number,
): TimelineRow {
  const nobodys = { status: 'archived', wakeup: null, queue: null, priority: 0, attributes: {} }
  space.timelines.set(as, { ...row, ...head, ...nobodys, id: as })
  space.serials.set(row.serial, as)
  for (const { id } of row.catalog) space.manifests.set(id, as)
  for (const fork of [...space.timelines.values()]) {
    if (fork.base?.timeline === row.id) {
      space.timelines.set(fork.id, { ...fork, base: { ...fork.base, timeline: as } })
    }
  }
  return { ...row, ...goesOnFrom, serial: space.nextSerial++, runs: new Log(), catalog: [], updatedAt: now }
}

function append(space: Space, row: TimelineRow, given: EntryRun): TimelineRow {
  assert(given.first === row.seq + 1, 'history has no gap')
  const run = { ...copyRun(given), number: space.nextFeedNumber++ }
  space.feed = space.feed.append({ serial: row.serial, run })
  return { ...row, runs: row.runs.append(run) }
}

function publish(space: Space, row: TimelineRow, records: readonly NewManifest[]): TimelineRow {
  for (const { id } of records) space.manifests.set(id, row.id)
  return { ...row, catalog: [...row.catalog, ...records.map(copyRecord)] }
}

function marked(catalog: readonly ManifestRecord[], { id, ...notes }: ManifestMark): readonly ManifestRecord[] {
  const given = Object.fromEntries(Object.entries(notes).filter(([, value]) => value !== undefined))
  return catalog.map((record) => (record.id === id ? { ...record, ...given } : record))
}

function consume(space: Space, timeline: TimelineId, ids: readonly MessageId[], now: number): void {
  if (ids.length === 0) return
  for (const id of ids) {
    const key = messageKey(timeline, id)
    space.messages.set(key, { ...space.messages.get(key)!, data: new Uint8Array(), consumedAt: now })
  }
  const rest = (space.unread.get(timeline) ?? []).filter(({ id }) => !ids.includes(id))
  if (rest.length === 0) space.unread.delete(timeline)
  else space.unread.set(timeline, rest)
}

function forget(space: Space, row: TimelineRow): void {
  for (const { id } of row.catalog) space.manifests.delete(id)
  for (const cursor of [...space.cursors.values()]) if (cursor.owner === row.id) space.cursors.delete(cursor.name)
  for (const [key, { to }] of [...space.messages.entries()]) if (to === row.id) space.messages.delete(key)
  space.unread.delete(row.id)
  space.serials.delete(row.serial)
  space.timelines.delete(row.id)
}
