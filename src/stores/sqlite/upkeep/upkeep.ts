// The upkeep of the SQLite store: the calls of tools and housekeeping, and those that read around damage.

import type { MessageId, TimelineId } from '../../../core/coordinate.ts'
import type {
  Change,
  Inspection,
  LegibleRun,
  LossRecord,
  ManifestRecord,
  PastLife,
  PastRepair,
  Renewal,
  Rewritable,
  Rewritten,
  RunChange,
  Salvage,
  Scrubbing,
  StoreFacts,
  StoreFault,
  Upkeep,
} from '../../../core/store/ports.ts'
import { realTime, sleep } from '../../../lib/waiting.ts'
import type { Reading } from '../file/reading.ts'
import { retryBusy } from '../file/retry.ts'
import { dropEmptyRows, emptiedFrom, forgetEmptied, joinEmptyRows } from '../log/empty-rows.ts'
import { replaceRuns, rewriteRuns } from '../log/rewrite.ts'
import { legibleRuns } from '../log/scan-runs.ts'
import { hasManifests, mendLines, rewriteBodies } from '../rows/catalog.ts'
import { readLosses, removeLoss } from '../rows/losses.ts'
import { consumedIds, forgetConsumed, rewriteMail } from '../rows/mail.ts'
import { legibleNames } from '../rows/names.ts'
import { listPasts, recall, tidyPasts } from '../rows/past.ts'
import { listSpaces } from '../schema.ts'
import type { Writer } from '../writing/writer.ts'
import type { Writing } from '../writing/writing.ts'
import { sweep } from './sweep.ts'

/** The open file, as the store has it: every call waits while the file is rewritten. */
export interface FileAccess {
  readonly busyMs: number
  read<Result>(work: (reading: Reading) => Result): Promise<Result>
  transact<Result>(doing: string, work: (writing: Writing) => Result): Promise<Result>
  /** Throws STORE_READ_ONLY. */
  writer(): Promise<Writer>
  facts(): Promise<StoreFacts>
  inspect(inspection: Inspection): Promise<StoreFault[]>
  renew(): Promise<Renewal>
}

export class SqliteUpkeep implements Upkeep {
  readonly salvage: Salvage
  readonly #file: FileAccess

  constructor(file: FileAccess) {
    this.#file = file
    this.salvage = new SqliteSalvage(file)
  }

  async facts(): Promise<StoreFacts> {
    return await this.#file.facts()
  }

  async inspect(inspection: Inspection = {}): Promise<StoreFault[]> {
    return await this.#file.inspect(inspection)
  }

  async namespaces(): Promise<readonly string[]> {
    return this.#file.read(({ connection }) => listSpaces(connection))
  }

  async rewrite(kind: Rewritable, change: Change, after: string | null, limit: number): Promise<Rewritten> {
    return this.#file.transact('rewrite', (writing) => {
      // Replaced bytes must not remain in free space.
      writing.connection.exec('PRAGMA secure_delete = ON')
      const rewriting = { runs: rewriteRuns, checkpoints: rewriteBodies, messages: rewriteMail }
      return rewriting[kind](writing, change, after, limit)
    })
  }

  async replace(timeline: TimelineId, runs: readonly RunChange[]): Promise<Pick<Rewritten, 'changed' | 'left'>> {
    return this.#file.transact('replace runs in', (writing) => {
      writing.connection.exec('PRAGMA secure_delete = ON')
      return replaceRuns(writing, timeline, runs)
    })
  }

  async mendCatalog(name: TimelineId, lines: readonly ManifestRecord[]): Promise<{ readonly missing: number }> {
    return this.#file.transact('mend the catalog of', (writing) => {
      const timeline = writing.timelines.find(name)
      return { missing: timeline ? mendLines(writing, timeline, lines) : 0 }
    })
  }

  async hasCheckpoints(): Promise<boolean> {
    return this.#file.read(({ connection, space }) => hasManifests(connection, space))
  }

  async consumed(timeline: TimelineId, after: MessageId | null, limit: number): Promise<MessageId[]> {
    return await this.#file.read(({ timelines, connection }) => {
      const found = timelines.find(timeline)
      return found ? consumedIds(connection, found, after, limit) : []
    })
  }

  async pasts(after: string | null, limit: number): Promise<PastLife[]> {
    return this.#file.read(({ connection, space }) => listPasts(connection, space, after, limit))
  }

  async recall(pasts: readonly PastLife[]): Promise<void> {
    await this.#file.transact('remember lives in', (writing) => {
      for (const past of pasts) recall(writing.connection, writing.space, past)
      writing.hasAside = true
    })
  }

  async mendPasts(): Promise<PastRepair> {
    return { mended: [], lost: [] }
  }

  async tidy(before: number): Promise<{ readonly messages: number; readonly workers: number }> {
    return tidy(await this.#file.writer(), before)
  }

  async scrub(how: Scrubbing = {}): Promise<readonly string[]> {
    return scrub(await this.#file.writer(), how.whole ?? false, this.#file.busyMs)
  }
}

class SqliteSalvage implements Required<Salvage> {
  readonly #file: FileAccess

  constructor(file: FileAccess) {
    this.#file = file
  }

  async names(): Promise<readonly TimelineId[]> {
    return this.#file.read(({ connection, space }) => legibleNames(connection, space))
  }

  async legible(timeline: TimelineId, after: number): Promise<readonly LegibleRun[]> {
    return this.#file.read(({ connection, timelines }) => {
      const found = timelines.find(timeline)
      return found ? legibleRuns(connection, found, after) : []
    })
  }

  async losses(accepted?: string): Promise<LossRecord[]> {
    if (accepted !== undefined)
      await this.#file.transact('give up a loss of', (writing) => removeLoss(writing, accepted))
    return this.#file.read(({ connection, space }) => readLosses(connection, space))
  }

  async renew(): Promise<Renewal> {
    return await this.#file.renew()
  }
}

const rowsPerStep = 1000
const pollMs = 50

/**
 * Removes erased data from the files: first from rows shared with other data, then from the write-ahead log, which
 * keeps every old page until it is emptied. `isWhole` rewrites the file, and with it removes everything deleted
 * before.
 */
async function scrub(writer: Writer, isWhole: boolean, busyMs: number): Promise<readonly string[]> {
  // The last row of the log must not change until there is another one behind it: this adds that row.
  await writer.transact('scrub', (writing) => {
    writing.hasOtherChanges = true
  })
  const step = () => writer.transact('scrub', (writing) => sweep(writing, rowsPerStep, true), true)
  while ((await step()) > 0) {}
  if (isWhole) await writer.alone((connection) => retryBusy(busyMs, () => connection.exec('VACUUM')))
  for (let waitedMs = 0; ; waitedMs += pollMs) {
    if (await writer.alone(async (connection) => connection.truncateLog())) return []
    if (waitedMs >= busyMs) {
      return [
        'the write-ahead log of the file (-wal), which another process reads: it is emptied when that process ends, or by another scrub',
      ]
    }
    await sleep(realTime, pollMs)
  }
}

const pagesPerStep = 2000

/**
 * Housekeeping: removes data that is no longer needed and frees its space, in transactions short enough that other
 * writers are not delayed.
 */
async function tidy(writer: Writer, before: number): Promise<{ messages: number; workers: number }> {
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
  await writer.transact('free space of', (writing) => {
    writing.connection.exec(`PRAGMA incremental_vacuum(${pagesPerStep})`)
    writing.hasAside = true
  })
  return counts
}

async function joinAll(writer: Writer): Promise<void> {
  const from = await writer.transact('inspect the log of', emptiedFrom)
  for (let at = from; at !== null; ) {
    const start = at
    at = await writer.transact('join empty rows of', (writing) => joinEmptyRows(writing, start))
  }
  if (from !== null) await writer.transact('join empty rows of', (writing) => forgetEmptied(writing, from))
}
