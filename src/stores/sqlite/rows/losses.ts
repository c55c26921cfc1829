// Losses of a repair (LossRecord): one line of `reprise_meta` for each repair and namespace, with a checksum. A repair writes
// it to the new file in the same transaction as everything else, so that no crash separates the two.
//
//   loss SPACE ID = CRC JSON of { at, kept, lost, left }

import type { LossRecord, StoreLoss } from '../../../core/store/store-facts.ts'
import type { Connection } from '../file/connection.ts'
import type { Writing } from '../writing/writing.ts'
import { checksumOf } from './row-checksum.ts'

/** Further losses are counted, not named. */
const namedMax = 1000

export function readLosses(connection: Connection, space: number): LossRecord[] {
  const lines = connection.all(
    `SELECT key, value FROM reprise_meta WHERE key >= ? AND key < ? ORDER BY key`,
    nameOf(space, ''),
    nameOf(space, '\uffff'),
  )
  return lines.map(({ key, value }) => {
    const id = String(key).slice(nameOf(space, '').length)
    return read(id, String(value), space) ?? illegible(id)
  })
}

export function writeLosses(connection: Connection, space: number, { id, at, kept, lost }: LossRecord): void {
  const named = lost.slice(0, namedMax)
  const text = JSON.stringify({ at, kept, lost: named, left: lost.length - named.length })
  const value = `${checksumOf([space, id, text])} ${text}`
  connection.run('INSERT OR REPLACE INTO reprise_meta (key, value) VALUES (?, ?)', nameOf(space, id), value)
}

export function removeLoss(writing: Writing, id: string): void {
  writing.connection.run('DELETE FROM reprise_meta WHERE key = ?', nameOf(writing.space, id))
  writing.hasAside = true
}

function read(id: string, value: string, space: number): LossRecord | null {
  const end = value.indexOf(' ')
  const text = value.slice(end + 1)
  if (checksumOf([space, id, text]) !== Number(value.slice(0, end))) return null
  const { at, kept, lost, left } = JSON.parse(text) as Omit<LossRecord, 'id'> & { readonly left: number }
  return { id, at, kept, lost: left > 0 ? [...lost, more(left)] : lost }
}

function more(left: number): StoreLoss {
  return { timeline: null, where: 'file', what: `${left} more losses that are not listed here` }
}

/** A damaged record still shows that there was a loss, which a person must still accept. */
function illegible(id: string): LossRecord {
  const what = 'the record of what an earlier repair lost does not match its checksum'
  return { id, at: 0, kept: null, lost: [{ timeline: null, where: 'reprise_meta', what }] }
}

function nameOf(space: number, id: string): string {
  return `loss ${space} ${id}`
}
