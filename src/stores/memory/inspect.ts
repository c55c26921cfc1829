// The memory world's own check: rows that contradict each other, and bytes that do not match their digest.

import { equalBytes } from '../../core/coordinate.ts'
import { isWrapped } from '../../core/history/wrapped.ts'
import { isRedundancy } from '../../core/store/blobs.ts'
import type { Hash, StoreFault } from '../../core/store/ports.ts'
import type { Space, TimelineRow } from './world.ts'

export function inspect(space: Space, hash: Hash): StoreFault[] {
  const faults: StoreFault[] = []
  for (const row of space.timelines.values()) {
    inspectRuns(row, faults)
    for (const { id, body, bodyDigest } of row.catalog) {
      if (!isWrapped(body) && !equalBytes(hash(body), bodyDigest)) {
        faults.push({ where: `checkpoint ${id} of ${row.id}`, what: 'the manifest does not match its digest' })
      }
    }
  }
  for (const [name, { digest, bytes }] of space.chunks.entries()) {
    // A wrapped chunk is named by its content; parity and copies contain their own digest.
    if (isWrapped(bytes) || isRedundancy(digest)) continue
    if (!equalBytes(hash(bytes), digest)) faults.push({ where: `chunk ${name}`, what: 'it does not match its digest' })
  }
  return faults
}

function inspectRuns(row: TimelineRow, faults: StoreFault[]): void {
  let next = Math.max(row.floor, row.base?.seq ?? 0) + 1
  for (const run of row.runs) {
    if (run.first !== next) faults.push({ where: `${row.id}@${next}`, what: `the next run starts at ${run.first}` })
    next = run.first + run.count
  }
  if (row.runs.length > 0 && next !== row.seq + 1) {
    faults.push({ where: row.id, what: `history ends at ${next - 1}, the head says ${row.seq}` })
  }
}
