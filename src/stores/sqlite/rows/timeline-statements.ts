// The statements that read and write the rows of timelines.

import { witnessColumns } from './row-counts.ts'

const columns = `tid, space, name, key, is_stub, parent, owner, queue, priority, status, wakeup, mail, due, checkpoints,
  cursors, attributes, created_at`
export const columnNames = columns.split(',').map((name) => name.trim())
const joined = `LEFT JOIN reprise_head h ON h.tid = t.tid LEFT JOIN reprise_head_mark m ON m.tid = t.tid`
export const select = `SELECT t.*, h.state, ${witnessColumns} FROM reprise_timeline t ${joined}
  LEFT JOIN reprise_witness w ON w.space = t.space AND w.name = t.name`
/** Both copies of a head. */
export const headCopies = `SELECT (SELECT state FROM reprise_head WHERE tid = ?) AS state, m.crc AS w_head, m.state AS w_state
  FROM (SELECT 1) LEFT JOIN reprise_head_mark m ON m.tid = ?`
/** In order of names, by the witnesses. */
export const selectByWitness = `SELECT t.*, h.state, ${witnessColumns} FROM reprise_witness w
  LEFT JOIN reprise_timeline t ON t.tid = w.tid ${joined}`
export const insert = `INSERT INTO reprise_timeline (${columns}, crc) VALUES (${'?, '.repeat(columnNames.length)}?)`
export const update = `UPDATE reprise_timeline SET ${settings(columnNames.slice(1))}, crc = ? WHERE tid = ?`
/** Without the name, which never changes: SQLite rewrites an index for each column that is set, changed or not. */
export const firstChanging = columnNames.indexOf('is_stub')
const changing = columnNames.slice(firstChanging)
export const change = `UPDATE reprise_timeline SET ${settings(changing)}, crc = ? WHERE tid = ?`
/** For changes that leave the status alone, which most do. */
export const atStatus = changing.indexOf('status')
export const changeWithoutStatus = `UPDATE reprise_timeline SET ${settings(changing.toSpliced(atStatus, 1))}, crc = ? WHERE tid = ?`
export const lastGiven = `SELECT max((SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'reprise_timeline'),
  (SELECT coalesce(max(tid), 0) FROM reprise_timeline)) AS tid`

function settings(names: readonly string[]): string {
  return names.map((name) => `${name} = ?`).join(', ')
}
