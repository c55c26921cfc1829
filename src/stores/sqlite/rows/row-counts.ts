// The expected rows of a timeline, stored elsewhere in the file. SQLite trusts a page that lost cells, was zeroed, swapped, or
// never written: a row is then missing, or is an old version with a matching checksum. So each row and each head has a witness
// in a B-tree of its own, written in the same transaction:
//
//   witness    by name: the number and the checksum of the timeline's row, and sums over the rows that belong to it. It is also
//              the second index of names: a list must be the same in both, and a name is missing only if both lack it
//   head_mark  by number: the checksum of the head, and a copy of it
//
// If a row and its witness disagree, their checksums show which is damaged: a damaged witness is recomputed from its rows, a
// damaged head is read from its copy. If both are intact, one of them is from an older state of the file: for heads, the newer
// one is used, since nothing in them ever decreases; for rows the order is unknown, and that is damage.

import { equalBytes } from '../../../core/coordinate.ts'
import type { Connection } from '../file/connection.ts'
import type { SqlRow, SqlValue } from '../file/driver.ts'
import { damaged } from '../file/failure.ts'
import { type HeadState, headOf } from './head-state.ts'
import { checksumOf } from './row-checksum.ts'

/** Sums of the checksums of rows (mail: unread ones), and the number of forks. */
export interface Sums {
  readonly mail: number
  readonly checkpoints: number
  readonly cursors: number
  readonly forks: number
}

/** The columns of a witness, in the order of its checksum. */
export const checkedColumns = ['space', 'name', 'tid', 'row', 'mail', 'checkpoints', 'cursors', 'forks']

export const noSums: Sums = { mail: 0, checkpoints: 0, cursors: 0, forks: 0 }

/** A sum does not depend on the order in which rows are added and removed. */
export function addTo(sum: number, crc: number): number {
  return (sum + crc) % 2 ** 32
}

export function takeFrom(sum: number, crc: number): number {
  return (sum + 2 ** 32 - crc) % 2 ** 32
}

export function sumOf(rows: readonly SqlRow[]): number {
  return rows.reduce((sum, { crc }) => addTo(sum, crc as number), 0)
}

/** For a join with timeline `t`. */
export const witnessColumns = `w.tid AS w_tid, w.name AS w_name, w.row AS w_row, w.mail AS w_mail, w.checkpoints AS w_checkpoints,
  w.cursors AS w_cursors, w.forks AS w_forks, w.space AS w_space, w.crc AS w_crc, m.crc AS w_head, m.state AS w_state`

const write = `REPLACE INTO reprise_witness (space, name, tid, row, mail, checkpoints, cursors, forks, crc)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`

export function writeWitness(
  connection: Connection,
  space: number,
  { tid, name, sums }: { readonly tid: number; readonly name: string; readonly sums: Sums },
  rowCrc: number,
): void {
  const { mail, checkpoints, cursors, forks } = sums
  const values: SqlValue[] = [space, name, tid, rowCrc, mail, checkpoints, cursors, forks]
  connection.run(write, space, name, tid, rowCrc, mail, checkpoints, cursors, forks, checksumOf(values))
}

/** For changes that leave the row itself unchanged. */
export function writeWitnessSums(
  connection: Connection,
  space: number,
  timeline: { readonly tid: number; readonly name: string; readonly sums: Sums },
): void {
  const { tid, name } = timeline
  const row =
    connection.get('SELECT row FROM reprise_witness WHERE space = ? AND name = ? AND tid = ?', space, name, tid) ??
    connection.get('SELECT crc AS row FROM reprise_timeline WHERE tid = ?', tid)
  if (!row) throw damaged(`timeline ${name} is missing`, { timeline: name })
  writeWitness(connection, space, timeline, row.row as number)
}

export function removeWitness(connection: Connection, space: number, tid: number, name: string): void {
  connection.run('DELETE FROM reprise_witness WHERE space = ? AND name = ?', space, name)
  connection.run('DELETE FROM reprise_head_mark WHERE tid = ?', tid)
}

/**
 * The sums for a timeline row with `witnessColumns` and a matching checksum of its own, which proves that the row is the
 * newest. Throws STORE_DAMAGED if the row is from an older state of the file.
 */
export function witnessedSums(connection: Connection, row: SqlRow): Sums {
  const { w_tid, w_name, w_row } = row
  if (w_tid === row.tid && w_name === row.name && w_row === row.crc && isWitnessSound(connection, row))
    return sumsOf(row)
  if (isWitnessSound(connection, row)) {
    throw damaged(`timeline ${row.name} differs from its last write`, { timeline: row.name })
  }
  // The witness is damaged or missing. A removed timeline has no head either.
  if (row.w_head === null && row.state === null) {
    throw damaged(`timeline ${row.name} differs from its last write`, { timeline: row.name })
  }
  return sumsOf(connection.get(`SELECT ${sumColumns} FROM reprise_timeline t WHERE t.tid = ?`, row.tid!)!)
}

/** Verifies a row with `witnessColumns` and all of its copies, including damage that reads tolerate. */
export function checkWitness(connection: Connection, row: SqlRow): void {
  const { name, state, w_state, w_head } = row
  const isRow = row.w_tid === row.tid && row.w_name === name && row.w_row === row.crc
  if (!isRow || !isWitnessSound(connection, row)) {
    throw damaged(`the row counts of timeline ${name} is damaged`, { timeline: name })
  }
  const isSame = (bytes: unknown) =>
    bytes instanceof Uint8Array && state instanceof Uint8Array && equalBytes(bytes, state)
  if (!headOf(row.tid, state) || headCrc(state as Uint8Array) !== w_head || (w_state !== null && !isSame(w_state))) {
    throw damaged(`the head of ${name}, or the copy of it, differs from its last write`, { timeline: name })
  }
}

/** In a file of an older version a witness has no checksum, and is trusted. */
function isWitnessSound({ isOlder }: Connection, row: SqlRow): boolean {
  const { w_space, w_name, w_tid, w_row, w_mail, w_checkpoints, w_cursors, w_forks, w_crc } = row
  if (w_tid === null || w_tid === undefined) return false
  if (isOlder && w_crc === null) return true
  return checksumOf([w_space!, w_name!, w_tid, w_row!, w_mail!, w_checkpoints!, w_cursors!, w_forks!]) === w_crc
}

/**
 * The head of a row with `witnessColumns`: its intact copy, or the newer one if both are intact. Throws STORE_DAMAGED if
 * neither is intact, or their order is unknown.
 */
export function witnessedHead(row: SqlRow): HeadState {
  const { tid, name, state, w_head, w_state } = row
  if (state instanceof Uint8Array && state.length >= 4 && headCrc(state) === w_head) {
    const head = headOf(tid, state)
    if (head) return head
  }
  const copies = [headOf(tid, state), headOf(tid, w_state)]
  const [first, second] = copies
  const found = first && second ? newerOf(first, second) : (first ?? second)
  // Without a copy, in an older file, a mark that disagrees may be right.
  const isAlone = first && !second && w_state === null && w_head !== null
  if (found && !isAlone) return found
  throw damaged(`the head of ${name} differs from its last write`, { timeline: name })
}

/** Nothing in the head of a timeline ever decreases. Null: they differ, and neither is newer. */
export function newerOf(a: HeadState, b: HeadState): HeadState | null {
  const order = [
    a.epoch - b.epoch,
    a.seq - b.seq,
    a.position - b.position,
    a.floor - b.floor,
    a.updatedAt - b.updatedAt,
  ]
  if (order.every((difference) => difference === 0)) return equalHeads(a, b) ? a : null
  if (order.every((difference) => difference >= 0)) return a
  return order.every((difference) => difference <= 0) ? b : null
}

function equalHeads(a: HeadState, b: HeadState): boolean {
  return JSON.stringify(a) === JSON.stringify(b)
}

function sumsOf(row: SqlRow): Sums {
  return {
    mail: row.w_mail as number,
    checkpoints: row.w_checkpoints as number,
    cursors: row.w_cursors as number,
    forks: row.w_forks as number,
  }
}

/** The checksum that a packed head starts with (head-state.ts). */
export function headCrc(state: Uint8Array): number {
  return (state[0]! | (state[1]! << 8) | (state[2]! << 16) | (state[3]! << 24)) >>> 0
}

const sumOfRows = (table: string, where = '') =>
  `(SELECT coalesce(sum(crc), 0) & 4294967295 FROM reprise_${table} x WHERE x.tid = t.tid ${where})`
const sumColumns = `${sumOfRows('inbox', 'AND x.consumed_at IS NULL')} AS w_mail, ${sumOfRows('manifest')} AS w_checkpoints,
  ${sumOfRows('cursor')} AS w_cursors, (SELECT count(*) FROM reprise_timeline x WHERE x.parent = t.tid) AS w_forks`

/** Trusts all existing rows: for a file of an older version (in its own format), and for a new one. */
export function witnessAll(connection: Connection, isOfVersion2 = false): void {
  connection.exec(`INSERT INTO reprise_witness (space, name, tid, row, mail, checkpoints, cursors, forks)
    SELECT t.space, t.name, t.tid, t.crc, ${sumColumns} FROM reprise_timeline t`)
  const heads = 'SELECT tid, state FROM reprise_head WHERE tid > ? ORDER BY tid LIMIT 1000'
  for (let after = 0, rows = connection.all(heads, after); rows.length > 0; rows = connection.all(heads, after)) {
    for (const { tid, state } of rows) {
      if (!(state instanceof Uint8Array) || state.length < 4) throw damaged(`timeline ${tid} has no head`)
      connection.run('INSERT INTO reprise_head_mark (tid, crc) VALUES (?, ?)', tid!, headCrc(state))
      after = tid as number
    }
  }
  if (!isOfVersion2) copyAndChecksum(connection)
}

/** Adds copies of heads and checksums of witnesses, which version 6 introduced. */
export function copyAndChecksum(connection: Connection): void {
  connection.exec(
    'UPDATE reprise_head_mark SET state = (SELECT h.state FROM reprise_head h WHERE h.tid = reprise_head_mark.tid)',
  )
  const sql = `SELECT ${checkedColumns.join(', ')} FROM reprise_witness WHERE (space, name) > (?, ?) ORDER BY space, name LIMIT 1000`
  for (let rows = connection.all(sql, -1, ''); rows.length > 0; ) {
    for (const row of rows) {
      const crc = checksumOf(checkedColumns.map((column) => row[column]!))
      connection.run('UPDATE reprise_witness SET crc = ? WHERE space = ? AND name = ?', crc, row.space!, row.name!)
    }
    const { space, name } = rows.at(-1)!
    rows = connection.all(sql, space!, name!)
  }
}
