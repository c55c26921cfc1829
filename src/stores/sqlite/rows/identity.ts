// What a namespace is known by outside of the store, in two places: a line of `reprise_meta` and a table of its own. Damage to
// one page leaves the other, and the next change of the identity writes both.

import type { Connection } from '../file/connection.ts'
import { damaged } from '../file/failure.ts'
import { seal } from './seal.ts'

export const identityTable = `
CREATE TABLE reprise_identity (space INTEGER PRIMARY KEY, value TEXT NOT NULL);
`

export function readIdentity(connection: Connection, space: number): string | null {
  // A file of an older version that is only read.
  if (!connection.get(`SELECT 1 FROM sqlite_schema WHERE name = 'reprise_identity'`)) return null
  const texts = [
    connection.get('SELECT value FROM reprise_identity WHERE space = ?', space)?.value,
    connection.get('SELECT value FROM reprise_meta WHERE key = ?', nameOf(space))?.value,
  ]
  for (const text of texts) {
    const found = typeof text === 'string' ? opened(space, text) : null
    if (found !== null) return found
  }
  if (texts.every((text) => text === undefined)) return null
  throw damaged('the identity of the store matches its checksum in neither of its places')
}

/** Inside a write transaction. */
export function writeIdentity(connection: Connection, space: number, identity: string): void {
  const text = `${seal([space, identity])} ${identity}`
  connection.run('INSERT OR REPLACE INTO reprise_identity (space, value) VALUES (?, ?)', space, text)
  connection.run('INSERT OR REPLACE INTO reprise_meta (key, value) VALUES (?, ?)', nameOf(space), text)
}

/** The first proposal becomes it, and `replaces` any. */
export function identify(connection: Connection, space: number, proposed: string, replaces: boolean): string {
  const there = readIdentity(connection, space)
  if (there !== null && !replaces) return there
  writeIdentity(connection, space, proposed)
  return proposed
}

/** Null: damaged. */
export function opened(space: number, text: string): string | null {
  const at = text.indexOf(' ')
  const identity = text.slice(at + 1)
  return Number(text.slice(0, at)) === seal([space, identity]) ? identity : null
}

function nameOf(space: number): string {
  return `identity ${space}`
}
