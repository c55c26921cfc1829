// Restores a file from shipped records: the newest intact base, and the records after it, in order, as long as each
// follows the previous one. The first missing or damaged record ends it, and the losses are reported. The file gets its
// name when it is complete. A repeated call resumes an interrupted restore, and does not fetch existing parts again.

import { type FileHandle, open as openFile, rename } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { fromHex } from '../../../core/coordinate.ts'
import type { Time } from '../../../core/duration.ts'
import { isReprise, RepriseError } from '../../../core/errors.ts'
import type { PartRow, RecordHead } from '../../../core/shipping/record.ts'
import { syncFolder } from '../../../lib/durable-file.ts'
import { type FoundRecord, readOr, type ShipLog, whyUnfit } from './log.ts'
import { basesFrom } from './retention.ts'
import { findTarget, pointOf, type ShipPoint } from './target.ts'

export interface ShippedRestore {
  readonly file: string
  /** The last record in the file. */
  readonly record: number
  /** Everything acknowledged before this time is in the file. */
  readonly at: number
  readonly position: number
  readonly base: number
  readonly records: number
  readonly bytes: number
  /** Records that exist, or existed, and could not be used. Null: nothing is lost. */
  readonly lost: { readonly from: number; readonly to: number; readonly why: string } | null
  /** The requested moment is after the last record: this is the newest state. */
  readonly isLater: boolean
  /** Bases that could not be used. */
  readonly skipped: readonly { readonly base: number; readonly why: string }[]
  readonly ms: number
}

export interface ShippedRestoreOptions {
  /** A time (a Date, ISO text, or milliseconds since 1970), a position or a record. Default: the newest record. */
  readonly at?: ShipPoint | Time
  readonly onProgress?: (progress: { readonly bytes: number; readonly bytesAll: number }) => void
}

const atOnce = 8

/** Throws NOT_FOUND, UNRECOVERABLE, KEY_MISSING. */
export async function restorePages(
  log: ShipLog,
  file: string,
  options: ShippedRestoreOptions = {},
  /** Changes the complete file before it gets its name: a kill leaves it unfinished. */
  complete: (part: string) => Promise<void> = async () => undefined,
): Promise<ShippedRestore> {
  const startedAt = performance.now()
  const numbers = await log.numbers()
  const newest = await log.newest(numbers)
  if (newest === 0) throw new RepriseError('NOT_FOUND', `nothing was shipped to ${log.objects.name}`, {})
  const oldest = numbers[0] ?? newest
  const target = await findTarget(log, oldest, newest, options.at === undefined ? undefined : pointOf(options.at))
  const skipped: { base: number; why: string }[] = []
  const part = `${file}.part`
  const handle = await openFile(part, 'r+').catch(() => openFile(part, 'w+'))
  try {
    for await (const { number, whole } of basesFrom(log, newest, oldest)) {
      if ((whole.isGap ? number : whole.asOf) > target.number) continue
      const state = new FileState(handle, log, options.onProgress)
      try {
        const base = (await log.read(number))!
        const reached = await state.bring(base, target.number)
        await handle.truncate(reached.head.pageBytes * reached.head.pageCount)
        await handle.sync()
        await complete(part)
        await rename(part, file)
        await syncFolder(dirname(resolve(file)))
        const { at, position } = reached.head
        const lost = whatIsLost(reached.number, target, state.why)
        const { records, bytes } = state
        const ms = performance.now() - startedAt
        const { isLater } = target
        return { file, record: reached.number, at, position, base: number, records, bytes, lost, isLater, skipped, ms }
      } catch (error) {
        if (!isReprise(error, 'UNRECOVERABLE', 'MALFORMED', 'DECRYPT_FAILED')) throw error
        skipped.push({ base: number, why: error.message })
      }
    }
  } finally {
    await handle.close()
  }
  const why =
    skipped.map((each) => `base ${each.base}: ${each.why}`).join('; ') || 'there is no base at or before that point'
  throw new RepriseError('UNRECOVERABLE', `${log.objects.name} cannot be restored: ${why}`, { skipped })
}

function whatIsLost(reached: number, target: { number: number; of: number }, why: string): ShippedRestore['lost'] {
  if (reached >= target.number && target.of === target.number) return null
  const from = reached + 1
  return { from, to: target.of, why: reached < target.number ? why : 'it is damaged, or part of a transaction' }
}

interface Reached {
  readonly number: number
  readonly head: RecordHead
}

/** A file while it is being restored. */
class FileState {
  readonly #handle: FileHandle
  readonly #log: ShipLog
  readonly #onProgress: NonNullable<ShippedRestoreOptions['onProgress']>
  records = 0
  bytes = 0
  bytesAll = 0
  /** Why it stopped. */
  why = ''

  constructor(handle: FileHandle, log: ShipLog, onProgress: ShippedRestoreOptions['onProgress']) {
    this.#handle = handle
    this.#log = log
    this.#onProgress = onProgress ?? (() => undefined)
  }

  async bring(base: FoundRecord, target: number): Promise<Reached> {
    const { asOf, asOfDigest, isGap, at, position } = base.head.whole!
    await this.#writeParts(base)
    const start: Reached = { number: isGap ? base.number : asOf, head: { ...base.head, at, position } }
    const digest = isGap ? base.digest : fromHex(asOfDigest)
    const whole = await this.#apply(start, digest, target)
    if (whole.isEnd) return whole.reached
    // The last records are a part of a transaction that has no end: repeat, stopping before it.
    await this.#writeParts(base)
    const { why } = this
    const again = await this.#apply(start, digest, whole.reached.number)
    this.why = why || 'it is part of a transaction whose end is missing'
    return again.reached
  }

  async #writeParts({ head }: FoundRecord): Promise<void> {
    const { parts, pagesPerPart } = head.whole!
    this.bytesAll = parts.reduce((sum, { bytes }) => sum + bytes, 0)
    let next = 0
    const work = async () => {
      while (next < parts.length) {
        const index = next++
        await this.#writePart(parts[index]!, index, pagesPerPart * head.pageBytes)
      }
    }
    await Promise.all(Array.from({ length: atOnce }, work))
  }

  async #writePart(row: PartRow, index: number, partBytes: number): Promise<void> {
    const there = Buffer.alloc(partBytes)
    const { bytesRead } = await this.#handle.read(there, 0, partBytes, index * partBytes)
    const isThere = bytesRead > 0 && this.#log.digestOf(there.subarray(0, bytesRead)) === row.plain
    if (!isThere) {
      const pages = await this.#log.readPart(row)
      await this.#handle.write(pages, 0, pages.length, index * partBytes)
    }
    this.bytes += row.bytes
    this.#onProgress({ bytes: this.bytes, bytesAll: this.bytesAll })
  }

  async #apply(start: Reached, digest: Uint8Array, target: number): Promise<{ reached: Reached; isEnd: boolean }> {
    let reached = start
    let before = { digest }
    let isEnd = true
    const ahead = new Map<number, Promise<FoundRecord | string>>()
    const fetch = (number: number) => {
      const found = readOr(this.#log, number)
      found.catch(() => undefined)
      ahead.set(number, found)
    }
    for (let number = start.number + 1; number <= target; number++) {
      for (let next = number; next <= Math.min(target, number + atOnce); next++) if (!ahead.has(next)) fetch(next)
      const found = await ahead.get(number)!
      ahead.delete(number)
      const why = typeof found === 'string' ? found : whyUnfit(before, found)
      if (why !== null || typeof found === 'string') {
        this.why = `record ${number}: ${why}`
        break
      }
      before = found
      if (found.head.whole?.isGap) {
        this.why = `record ${number} is a base that does not follow from the records before it`
        break
      }
      if (found.head.whole) {
        // The record changes nothing: the state reached is also its state, or a later one.
        if (isEnd) reached = { number, head: reached.head }
        continue
      }
      for (const [page, bytes] of found.pages) {
        await this.#handle.write(bytes, 0, bytes.length, (page - 1) * found.head.pageBytes)
      }
      this.records += 1
      this.bytes += found.bytes
      this.bytesAll += found.bytes
      this.#onProgress({ bytes: this.bytes, bytesAll: this.bytesAll })
      isEnd = found.head.isWhole
      if (isEnd) reached = { number, head: found.head }
    }
    return { reached, isEnd }
  }
}
