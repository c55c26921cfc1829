// What a timeline must have, written down in another place of the file. SQLite takes a page that lost cells, was zeroed,
// swapped, or never written for the truth: a row is then "not there", or is as it was long ago, with a checksum that fits.
// So each row and each head has a witness in a B-tree of its own, in the same transaction:
//
//   witness    by name: the number and the checksum of the timeline's row, and sums over what belongs to it. It is also
//              the second index of names: a list must read the same from both, and "not there" is believed if both say so
//   head_mark  by number: the checksum of the head. Small and dense, since every head that is written changes it
//
// Nothing here is sealed: whatever is wrong in it disagrees with what it is the witness of, and that is damage.

import type { Connection } from './connection.ts'
import type { SqlRow, SqlValue } from './driver.ts'
import { damaged } from './failure.ts'

/** Sums of the checksums of rows (mail: unread ones), and how many forks it has. */
export interface Sums {
  readonly mail: number
  readonly checkpoints: number
  readonly cursors: number
  readonly forks: number
}

export const noSums: Sums = { mail: 0, checkpoints: 0, cursors: 0, forks: 0 }

/** A sum does not depend on the order in which rows come and go. */
export function addTo(sum: number, crc: number): number {
  return (sum + crc) % 2 ** 32
}

export function takeFrom(sum: number, crc: number): number {
  return (sum + 2 ** 32 - crc) % 2 ** 32
}

export function sumOf(rows: readonly SqlRow[]): number {
  return rows.reduce((sum, { crc }) => addTo(sum, crc as number), 0)
}

/** To be joined to timeline `t`. */
export const witnessColumns = `w.tid AS w_tid, w.name AS w_name, w.row AS w_row, w.mail AS w_mail, w.checkpoints AS w_checkpoints,
  w.cursors AS w_cursors, w.forks AS w_forks, m.crc AS w_head`

const write = `REPLACE INTO reprise_witness (space, name, tid, row, mail, checkpoints, cursors, forks)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
const writeSums = `UPDATE reprise_witness SET mail = ?, checkpoints = ?, cursors = ?, forks = ?
  WHERE space = ? AND name = ? AND tid = ?`

export function writeWitness(
  connection: Connection,
  space: number,
  { tid, name, sums }: { readonly tid: number; readonly name: string; readonly sums: Sums },
  rowCrc: number,
): void {
  connection.run(write, space, name, tid, rowCrc, ...valuesOf(sums))
}

/** Where the row itself stays as it is. */
export function writeWitnessSums(
  connection: Connection,
  space: number,
  { tid, name, sums }: { readonly tid: number; readonly name: string; readonly sums: Sums },
): void {
  const changed = connection.run(writeSums, ...valuesOf(sums), space, name, tid)
  if (changed !== 1) throw damaged(`timeline ${name} has no witness`, { timeline: name })
}

export function removeWitness(connection: Connection, space: number, tid: number, name: string): void {
  connection.run('DELETE FROM reprise_witness WHERE space = ? AND name = ?', space, name)
  connection.run('DELETE FROM reprise_head_mark WHERE tid = ?', tid)
}

/** A row of a timeline with `witnessColumns`: what was written last is what is here. */
export function checkWitness(row: SqlRow): void {
  const isRow = row.w_tid === row.tid && row.w_name === row.name && row.w_row === row.crc
  if (!isRow) throw damaged(`timeline ${row.name} is not as it was last written`, { timeline: row.name })
  if (!(row.state instanceof Uint8Array) || row.state.length < 4) {
    throw damaged(`timeline ${row.name} has no head`, { timeline: row.name })
  }
  if (row.w_head !== headCrc(row.state)) {
    throw damaged(`the head of ${row.name} is not as it was last written`, { timeline: row.name })
  }
}

export function sumsOf(row: SqlRow): Sums {
  return {
    mail: row.w_mail as number,
    checkpoints: row.w_checkpoints as number,
    cursors: row.w_cursors as number,
    forks: row.w_forks as number,
  }
}

/** The checksum that a packed head starts with (head-state.ts). */
export function headCrc(state: Uint8Array): number {
  return new DataView(state.buffer, state.byteOffset, 4).getUint32(0, true)
}

function valuesOf({ mail, checkpoints, cursors, forks }: Sums): SqlValue[] {
  return [mail, checkpoints, cursors, forks]
}

/** For a file of an older version: whatever is there now is taken for the truth. */
export function witnessAll(connection: Connection): void {
  const sum = (table: string, where = '') =>
    `(SELECT coalesce(sum(crc), 0) & 4294967295 FROM reprise_${table} x WHERE x.tid = t.tid ${where})`
  connection.exec(`INSERT INTO reprise_witness (space, name, tid, row, mail, checkpoints, cursors, forks)
    SELECT t.space, t.name, t.tid, t.crc, ${sum('inbox', 'AND x.consumed_at IS NULL')}, ${sum('manifest')}, ${sum('cursor')},
      (SELECT count(*) FROM reprise_timeline x WHERE x.parent = t.tid) FROM reprise_timeline t`)
  const heads = 'SELECT tid, state FROM reprise_head WHERE tid > ? ORDER BY tid LIMIT 1000'
  for (let after = 0, rows = connection.all(heads, after); rows.length > 0; rows = connection.all(heads, after)) {
    for (const { tid, state } of rows) {
      if (!(state instanceof Uint8Array) || state.length < 4) throw damaged(`timeline ${tid} has no head`)
      connection.run('INSERT INTO reprise_head_mark (tid, crc) VALUES (?, ?)', tid!, headCrc(state))
      after = tid as number
    }
  }
}
