// Decides by its checksum whether a row of one of our tables is unchanged. A row that fails is tried again with each of its
// bits flipped (source.ts): of a few thousand variants, one that matches a checksum of 32 bits is the original.

import type { SqlRow } from '../file/driver.ts'
import { columnNames as manifestColumns } from '../rows/catalog.ts'
import { columnNames as cursorColumns } from '../rows/cursors.ts'
import { headOf } from '../rows/head-state.ts'
import { isSoundMessage } from '../rows/mail.ts'
import { columnNames as pastColumns } from '../rows/past.ts'
import { isIntact } from '../rows/row-checksum.ts'
import { checkedColumns } from '../rows/row-counts.ts'
import { columnNames as timelineColumns } from '../rows/timeline-statements.ts'
import { columnNames as workerColumns } from '../rows/workers.ts'

export type SoundRow = (row: SqlRow) => boolean

const intactBy =
  (columns: readonly string[]): SoundRow =>
  (row) =>
    isIntact(row, columns)

/** A row without that column was written by an older version. */
export function isSoundWitness(row: SqlRow): boolean {
  return row.crc === undefined || isIntact(row, checkedColumns)
}

/** Tables without a checksum are derived from others, or their rows are identified by a digest. */
export const soundRows: Readonly<Record<string, SoundRow | undefined>> = {
  reprise_space: intactBy(['id', 'name']),
  reprise_timeline: intactBy(timelineColumns),
  reprise_head: ({ tid, state }) => headOf(tid, state) !== null,
  reprise_head_mark: ({ tid, state }) => state === undefined || headOf(tid, state) !== null,
  reprise_witness: isSoundWitness,
  reprise_manifest: intactBy(manifestColumns),
  reprise_inbox: isSoundMessage,
  reprise_cursor: intactBy(cursorColumns),
  reprise_worker: intactBy(workerColumns),
  reprise_past: intactBy(pastColumns),
}
