// The copies of requests (requests.ts). Any connection inserts them, so no checksum protects them: two indexes repeat every
// column except the taker, and SQLite maintains them for every connection. Two of the three places outvote the damaged one.

import { isDeepStrictEqual } from 'node:util'
import type { SqlRow } from '../file/driver.ts'

/** The columns of both copies, in their order. */
export const copiedColumns = 'number namespace verb target id topic data key options sent_at problem'.split(' ')
export const copyNames = ['reprise_request_copy_1', 'reprise_request_copy_2']
/** Since version 9. The order of the numbers keeps SQLite from using one instead of the other. */
export const requestCopies = `
CREATE INDEX reprise_request_copy_1 ON reprise_request (${copiedColumns.join(', ')});
CREATE INDEX reprise_request_copy_2 ON reprise_request (${copiedColumns.join(', ').replace('number', 'number DESC')});
`

/** The row that two of three places have; null: it is missing in two; undefined: all three differ. One place is trusted. */
export function agreed(rows: readonly (SqlRow | null)[]): SqlRow | null | undefined {
  if (rows.length === 1) return rows[0]!
  return rows.find((row, i) => rows.slice(i + 1).some((other) => isDeepStrictEqual(row, other)))
}
