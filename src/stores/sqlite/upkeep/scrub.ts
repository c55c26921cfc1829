// Removes erased data from the files: first from rows shared with other data, then from the write-ahead log, which keeps every
// old page until it is emptied. `isWhole` rewrites the file, and with it removes everything deleted before.

import { realTime, sleep } from '../../../lib/waiting.ts'
import { retryBusy } from '../file/retry.ts'
import type { Writer } from '../writing/writer.ts'
import { sweep } from './sweep.ts'

const rowsPerStep = 1000
const lookMs = 50

export async function scrub(writer: Writer, isWhole: boolean, busyMs: number): Promise<readonly string[]> {
  // The last row of the log must not change until there is another one behind it: this adds that row.
  await writer.transact('scrub', (writing) => {
    writing.hasOtherChanges = true
  })
  const step = () => writer.transact('scrub', (writing) => sweep(writing, rowsPerStep, true), true)
  while ((await step()) > 0) {}
  if (isWhole) await writer.alone((connection) => retryBusy(busyMs, () => connection.exec('VACUUM')))
  for (let waitedMs = 0; ; waitedMs += lookMs) {
    if (await writer.alone(async (connection) => connection.truncateLog())) return []
    if (waitedMs >= busyMs) {
      return [
        'the write-ahead log of the file (-wal), which another process reads: it is emptied when that one ends, or by another scrub',
      ]
    }
    await sleep(realTime, lookMs)
  }
}
