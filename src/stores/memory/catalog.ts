// Checkpoints and trimming: what may be published, dropped and cut off, and what stands in the way.

import type { ManifestId } from '../../core/coordinate.ts'
import type { Commit, ManifestMark, ManifestRecord } from '../../core/ports.ts'
import { type Change, Refused } from './change.ts'
import { forkNeeding } from './lineage.ts'
import { toPosition } from './view.ts'
import type { RunRow, Space, TimelineRow } from './world.ts'

export function publish(change: Change, row: TimelineRow, records: readonly ManifestRecord[]): TimelineRow {
  const { manifests } = change.space
  for (const { id, seq, baseId } of records) {
    if (seq > row.seq)
      throw new Refused('OUT_OF_RANGE', `checkpoint ${id} is at ${seq}, the head of ${row.id} at ${row.seq}`)
    if (manifests.has(id)) throw new Refused('EXISTS', `there is a checkpoint ${id} already`)
    if (baseId !== null && !manifests.has(baseId)) {
      throw new Refused('BASE_GONE', `checkpoint ${id} builds on ${baseId}, which is not in the catalog`)
    }
    change.put(manifests, id, row.id)
  }
  return { ...row, catalog: [...row.catalog, ...records.map(copyRecord)] }
}

export function copyRecord(record: ManifestRecord): ManifestRecord {
  return {
    ...record,
    digest: new Uint8Array(record.digest),
    body: new Uint8Array(record.body),
    bodyDigest: new Uint8Array(record.bodyDigest),
  }
}

export function mark(row: TimelineRow, marks: readonly ManifestMark[]): TimelineRow {
  let { catalog } = row
  for (const { id, ...notes } of marks) {
    const given = Object.fromEntries(Object.entries(notes).filter(([, value]) => value !== undefined))
    catalog = catalog.map((record) => (record.id === id ? { ...record, ...given } : record))
  }
  return { ...row, catalog }
}

export function drop(change: Change, row: TimelineRow, ids: readonly ManifestId[]): TimelineRow {
  const going = row.catalog.filter((record) => ids.includes(record.id))
  if (going.length === 0) return row
  const pinned = going.find((record) => record.isPinned)
  if (pinned) throw new Refused('PINNED', `checkpoint ${pinned.id} of ${row.id} is pinned`)
  const catalog = row.catalog.filter((record) => !ids.includes(record.id))
  if (row.floor > 0 && !catalog.some((record) => canRestore(record, row.floor))) {
    throw new Refused('PINNED', `history of ${row.id} is trimmed to ${row.floor}, no verified checkpoint would remain`)
  }
  for (const { id } of going) change.remove(change.space.manifests, id)
  return { ...row, catalog }
}

function canRestore(record: ManifestRecord, floor: number): boolean {
  return record.seq >= floor && record.verifiedAt !== null && record.invalid === null
}

export function trim(space: Space, row: TimelineRow, to: NonNullable<Commit['trim']>): TimelineRow {
  if (to.seq <= row.floor) return row
  const count = row.runs.search((run) => run.first > to.seq)
  const last = row.runs.at(count - 1)
  const isRunEnd = last !== undefined && last.first + last.count - 1 === to.seq
  if (!isRunEnd && row.base?.seq !== to.seq) {
    throw new Refused('OUT_OF_RANGE', `sequence ${to.seq} of ${row.id} is not the end of a run`)
  }
  for (const id of to.restsOn) {
    const record = row.catalog.find((candidate) => candidate.id === id)
    if (!record || !canRestore(record, to.seq)) {
      throw new Refused('PINNED', `checkpoint ${id} is not a verified, valid one at or above ${to.seq}`)
    }
  }
  const fork = forkNeeding(space, row.id, to.seq)
  if (fork) throw new Refused('PINNED', `the fork ${fork.id} needs history of ${row.id} above ${fork.floor}`)
  if (last) checkCursors(space, row, last)
  return { ...row, floor: to.seq, floorDigest: new Uint8Array(to.digest), runs: row.runs.dropFirst(count) }
}

/** The last run that goes is the newest in the feed: a cursor that passed it passed the others. */
function checkCursors(space: Space, row: TimelineRow, last: RunRow): void {
  const position = toPosition(last.number)
  for (const cursor of space.cursors.values()) {
    if (cursor.position < position) {
      throw new Refused('PINNED', `cursor ${cursor.name} has not passed sequence ${last.first} of ${row.id}`)
    }
  }
}
