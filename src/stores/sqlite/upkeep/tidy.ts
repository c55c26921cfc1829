// Housekeeping: removes data that is no longer needed and frees its space, in transactions short enough that other writers are
// not delayed.

import { dropEmptyRows, emptiedFrom, forgetEmptied, joinEmptyRows } from '../log/empty-rows.ts'
import { forgetConsumed } from '../rows/mail.ts'
import { tidyPasts } from '../rows/past.ts'
import type { Writer } from '../writing/writer.ts'
import { sweep } from './sweep.ts'

const rowsPerStep = 1000
const pagesPerStep = 2000

export async function tidy(writer: Writer, before: number): Promise<{ messages: number; workers: number }> {
  const counts = await writer.transact('tidy', (writing) => {
    const messages = forgetConsumed(writing.connection, writing.space, before)
    const workers = writing.workers.forgetRetired(before)
    const pasts = tidyPasts(writing.connection, writing.space, before)
    writing.hasAside = messages + workers + pasts > 0
    return { messages, workers }
  })
  while ((await writer.transact('sweep', (writing) => sweep(writing, rowsPerStep))) > 0) {}
  while ((await writer.transact('shorten the log of', dropEmptyRows)) > 0) {}
  await joinAll(writer)
  await writer.transact('give back space of', (writing) => {
    writing.connection.exec(`PRAGMA incremental_vacuum(${pagesPerStep})`)
    writing.hasAside = true
  })
  return counts
}

async function joinAll(writer: Writer): Promise<void> {
  const from = await writer.transact('look at the log of', emptiedFrom)
  for (let at = from; at !== null; ) {
    const start = at
    at = await writer.transact('join empty rows of', (writing) => joinEmptyRows(writing, start))
  }
  if (from !== null) await writer.transact('join empty rows of', (writing) => forgetEmptied(writing, from))
}
