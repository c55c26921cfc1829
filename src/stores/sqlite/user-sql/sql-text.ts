// The SQL that users may send to SQLite: one statement that reads, writes or defines. In SQLite's grammar the first word
// determines the kind of a statement, so the list of allowed words is exact; everything else (BEGIN, COMMIT, PRAGMA, ATTACH,
// VACUUM, …) is refused. SQLite itself would run the first of several statements and silently ignore the rest.

import { RepriseError } from '../../../core/errors.ts'

const tokens =
  /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|'(?:[^']|'')*(?:'|$)|"(?:[^"]|"")*(?:"|$)|`(?:[^`]|``)*(?:`|$)|\[[^\]]*(?:\]|$)|[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*|[^\s]/g
const kinds = [
  'SELECT',
  'INSERT',
  'UPDATE',
  'DELETE',
  'REPLACE',
  'WITH',
  'VALUES',
  'CREATE',
  'ALTER',
  'DROP',
  'REINDEX',
]
const allowed = new Set([...kinds, 'ANALYZE'])

/** Throws SQL_REFUSED. */
export function checkSqlText(text: string): void {
  if (typeof text !== 'string') throw refused('the statement must be text')
  const found = tokensOf(text)
  let at = found.findIndex((token) => token !== ';')
  if (at === -1) throw refused('there is no statement in the text')
  if (found[at] === 'EXPLAIN') at += found[at + 1] === 'QUERY' ? 3 : 1
  const word = found[at] ?? ''
  if (!allowed.has(word)) {
    throw refused(`${word} cannot run inside a commit: its transaction and its connection belong to the store`)
  }
  if (word === 'ANALYZE' && /^;?$/.test(found[at + 1] ?? ''))
    throw refused('ANALYZE needs the name of one of your tables')
  if (word === 'CREATE' && (found[at + 1] === 'TEMP' || found[at + 1] === 'TEMPORARY')) throw refused(noTemporary)
  // OR ROLLBACK, ON CONFLICT ROLLBACK, RAISE(ROLLBACK, …): they would end the transaction of the commit.
  if (found.includes('ROLLBACK'))
    throw refused('ROLLBACK cannot be part of a statement inside a commit: use ABORT or FAIL')
  const end = endOf(found, at, word === 'CREATE' && found[at + 1] === 'TRIGGER')
  if (found.slice(end).some((token) => token !== ';')) throw refused('only one statement per call')
}

/** Throws SQL_REFUSED for more than one statement. SQLite itself would run the first and silently ignore the rest. */
export function oneStatement(text: string): void {
  const found = tokensOf(text)
  const start = found.findIndex((token) => token !== ';')
  if (found.slice(endOf(found, Math.max(start, 0), false)).some((token) => token !== ';'))
    throw refused('only one statement per call')
}

export const noTemporary = 'temporary tables, views and triggers stay in the connection, which other callers use next'

/** Words in capitals, quoted pieces unchanged, without comments. */
function tokensOf(text: string): string[] {
  const found: string[] = []
  for (const [token] of text.matchAll(tokens)) {
    if (token.startsWith('--') || token.startsWith('/*')) continue
    found.push(/^[A-Za-z_]/.test(token) ? token.toUpperCase() : token)
  }
  return found
}

/** The end of the first statement. A trigger ends with END after a semicolon, as in SQLite's own parser. */
function endOf(found: readonly string[], start: number, isTrigger: boolean): number {
  for (let at = start; at < found.length; at++) {
    if (found[at] !== ';') continue
    if (!isTrigger || (found[at - 1] === 'END' && found[at - 2] === ';')) return at
  }
  return found.length
}

export function refused(message: string): RepriseError {
  return new RepriseError('SQL_REFUSED', message)
}
