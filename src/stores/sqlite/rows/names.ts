// The readable names of timelines: from the row counts, the index of names and the rows. Damage to one of the three leaves the
// others. Each is read around an unreadable page, by bisecting the range of names.

import type { TimelineId } from '../../../core/coordinate.ts'
import type { Connection } from '../file/connection.ts'
import { isDamage } from '../file/failure.ts'

const pageRows = 500

export function legibleNames(connection: Connection, space: number): readonly TimelineId[] {
  const names = new Set<string>()
  for (const source of [
    'reprise_witness',
    'reprise_timeline INDEXED BY sqlite_autoindex_reprise_timeline_1',
    'reprise_timeline NOT INDEXED',
  ]) {
    readNames(connection, source, space, names)
  }
  return [...names] as TimelineId[]
}

/** Reads up to the damage from below, and down to it from above. */
function readNames(connection: Connection, source: string, space: number, names: Set<string>): void {
  for (const [order, compare, start] of [
    ['ASC', '>', ''],
    ['DESC', '<', '\u{10ffff}'],
  ] as const) {
    const sql = `SELECT name FROM ${source} WHERE space = ? AND name ${compare} ? ORDER BY name ${order} LIMIT ${pageRows}`
    try {
      for (let at: string = start, count = pageRows; count === pageRows; ) {
        const rows = connection.all(sql, space, at)
        for (const { name } of rows) if (typeof name === 'string') names.add(name)
        count = rows.length
        at = String(rows.at(-1)?.name ?? '')
      }
      return
    } catch (error) {
      if (!isDamage(error)) throw error
    }
  }
}
