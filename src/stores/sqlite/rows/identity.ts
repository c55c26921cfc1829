// The external identity of a namespace, stored twice: in a row of `reprise_meta` and in a table of its own. After damage to
// one page, the other copy is read. Verify and the facts of the store report the damage, and a repair writes both.

import type { Connection } from '../file/connection.ts'
import { damaged, isDamage } from '../file/failure.ts'
import { checksumOf } from './row-checksum.ts'

export const identityTable = `
CREATE TABLE reprise_identity (space INTEGER PRIMARY KEY, value TEXT NOT NULL);
`

export function readIdentity(connection: Connection, space: number): string | null {
  const copies = copiesOf(connection, space)
  for (const copy of copies) if (typeof copy === 'string') return copy
  if (copies.every((copy) => copy === undefined)) return null
  throw damaged('the identity of the store matches its checksum in neither of its places')
}

/** Verifies both copies, including damage that reads tolerate. Throws STORE_DAMAGED. */
export function checkIdentity(connection: Connection, space: number): void {
  readIdentity(connection, space)
  const [inTable, inMeta] = copiesOf(connection, space)
  if (inTable === inMeta) return
  const isOld = typeof inTable === 'string' && typeof inMeta === 'string'
  const which = typeof inTable === 'string' ? 'the row in reprise_meta' : 'the row in reprise_identity'
  const what = isOld ? 'its two copies are not the same' : `one of its two copies is damaged or missing (${which})`
  throw damaged(`the identity of the store: ${what}; reprise verify --repair rewrites both from the one in use`)
}

/** For the facts of the store. */
export function identityDamage({ connection, space }: { readonly connection: Connection; readonly space: number }): {
  readonly damage?: readonly string[]
} {
  try {
    checkIdentity(connection, space)
    return {}
  } catch (error) {
    if (!isDamage(error)) throw error
    return { damage: [(error as Error).message] }
  }
}

/** The copy that is read comes first. Undefined: missing; null: damaged. */
function copiesOf(connection: Connection, space: number): (string | null | undefined)[] {
  // A file of an older version that is only read does not have the table.
  if (!connection.get(`SELECT 1 FROM sqlite_schema WHERE name = 'reprise_identity'`)) return []
  const texts = [
    connection.get('SELECT value FROM reprise_identity WHERE space = ?', space)?.value,
    connection.get('SELECT value FROM reprise_meta WHERE key = ?', nameOf(space))?.value,
  ]
  return texts.map((text) => (typeof text === 'string' ? opened(space, text) : text === undefined ? undefined : null))
}

/** Call inside a write transaction. */
export function writeIdentity(connection: Connection, space: number, identity: string): void {
  const text = `${checksumOf([space, identity])} ${identity}`
  connection.run('INSERT OR REPLACE INTO reprise_identity (space, value) VALUES (?, ?)', space, text)
  connection.run('INSERT OR REPLACE INTO reprise_meta (key, value) VALUES (?, ?)', nameOf(space), text)
}

/** The first proposal becomes the identity; `replaces` overwrites any. */
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
  return Number(text.slice(0, at)) === checksumOf([space, identity]) ? identity : null
}

function nameOf(space: number): string {
  return `identity ${space}`
}
