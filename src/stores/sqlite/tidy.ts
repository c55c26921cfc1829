// Housekeeping: forgets what nobody asks for any more and gives its space back, in transactions short enough that
// others get their turn.

import { assert } from '../../core/assert.ts'
import { emptyRowsFrom } from './feed.ts'
import { forgetConsumed } from './mail.ts'
import { sweep } from './sweep.ts'
import type { Writer } from './writer.ts'
import type { Writing } from './writing.ts'

const rowsPerStep = 1000
const pagesPerStep = 2000

export async function tidy(writer: Writer, before: number): Promise<{ messages: number; workers: number }> {
  const counts = await writer.transact('tidy', (writing) => {
    const messages = forgetConsumed(writing.connection, writing.space, before)
    const workers = writing.workers.forgetRetired(before)
    writing.hasAside = messages + workers > 0
    return { messages, workers }
  })
  while ((await writer.transact('sweep', (writing) => sweep(writing, rowsPerStep))) > 0) {}
  while ((await writer.transact('shorten the log of', dropEmptyRows)) > 0) {}
  await writer.transact('give back space of', (writing) => {
    writing.connection.exec(`PRAGMA incremental_vacuum(${pagesPerStep})`)
    writing.hasAside = true
  })
  return counts
}

/**
 * Empty rows at the start of the log go; where it starts now is written down, so that this is not taken for damage. The
 * last row stays, empty or not: no position may be used twice (log-end.ts).
 */
function dropEmptyRows(writing: Writing): number {
  const { connection } = writing
  const start = writing.log.firstPosition()
  const last = writing.position - 1
  const rows = emptyRowsFrom(connection, start, last, rowsPerStep)
  if (rows === 0) return 0
  assert(start + rows <= last, 'the last row of the log stays')
  // Nothing below the start: a row that an older release placed there is evidence, and verify tells of it.
  connection.run('DELETE FROM reprise_log WHERE position >= ? AND position < ?', start, start + rows)
  connection.run(`INSERT OR REPLACE INTO reprise_meta (key, value) VALUES ('log_start', ?)`, start + rows)
  writing.hasAside = true
  return rows
}
