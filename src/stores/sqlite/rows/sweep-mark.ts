// The sweep mark of a namespace (ports.ts): one line of `reprise_meta`, with a checksum. A publication reads it in its own
// transaction, and there is one writer at a time, so either the publication sees the raised mark or the collector sees the
// publication.

import type { Connection } from '../file/connection.ts'
import { damaged } from '../file/failure.ts'
import { checksumOf } from './row-checksum.ts'

export function readSweepMark(connection: Connection, space: number): number {
  const text = connection.get('SELECT value FROM reprise_meta WHERE key = ?', nameOf(space))?.value
  if (text === undefined) return 0
  const [mark, crc] = String(text).split(' ').map(Number)
  if (mark === undefined || checksumOf([space, mark]) !== crc)
    throw damaged('the sweep mark does not match its checksum')
  return mark
}

/** Call inside a write transaction. */
export function raiseSweepMark(connection: Connection, space: number, raiseTo: number): number {
  const before = readSweepMark(connection, space)
  if (raiseTo <= before) return before
  const text = `${raiseTo} ${checksumOf([space, raiseTo])}`
  connection.run('INSERT OR REPLACE INTO reprise_meta (key, value) VALUES (?, ?)', nameOf(space), text)
  return raiseTo
}

function nameOf(space: number): string {
  return `sweep_mark ${space}`
}
