// Decides by its checksum whether a row of one of our tables is unchanged. A row that fails is tried again with each of its
// bits flipped (source.ts): of a few thousand variants, one that matches a checksum of 32 bits is the original.

import type { SqlRow } from '../file/driver.ts'
import { columnNames as manifestColumns } from '../rows/catalog.ts'
import { columnNames as cursorColumns } from '../rows/cursors.ts'
import { headOf } from '../rows/head-state.ts'
import { isSoundMessage } from '../rows/mail.ts'
import { columnNames as pastColumns } from '../rows/past.ts'
import { sealedColumns } from '../rows/row-counts.ts'
import { isSealed } from '../rows/seal.ts'
import { columnNames as timelineColumns } from '../rows/timeline-statements.ts'
import { columnNames as workerColumns } from '../rows/workers.ts'

export type SoundRow = (row: SqlRow) => boolean

const sealedBy =
  (columns: readonly string[]): SoundRow =>
  (row) =>
    isSealed(row, columns)

/** A row without that column is of an older version. */
export function isSoundWitness(row: SqlRow): boolean {
  return row.crc === undefined || isSealed(row, sealedColumns)
}

/** Tables without a checksum are derived from others, or their rows are identified by a digest. */
export const soundRows: Readonly<Record<string, SoundRow | undefined>> = {
  reprise_space: sealedBy(['id', 'name']),
  reprise_timeline: sealedBy(timelineColumns),
  reprise_head: ({ tid, state }) => headOf(tid, state) !== null,
  reprise_head_mark: ({ tid, state }) => state === undefined || headOf(tid, state) !== null,
  reprise_witness: isSoundWitness,
  reprise_manifest: sealedBy(manifestColumns),
  reprise_inbox: isSoundMessage,
  reprise_cursor: sealedBy(cursorColumns),
  reprise_worker: sealedBy(workerColumns),
  reprise_past: sealedBy(pastColumns),
}
