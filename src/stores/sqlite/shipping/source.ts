// A SQLite file as a source of pages: read from the file and its write-ahead log while other connections write.
//
// The index of the log determines the committed part (wal-index.ts). SQLite updates it after the sync, so all shipped pages
// are durable here. An open read transaction keeps the log from starting over before its frames were shipped: SQLite starts it
// over only when all of it was moved into the file and no connection reads from it. `advance` ends the transaction for a
// moment, moves the log into the file, and begins the next one. If the log did start over in between, frames that were not
// overwritten yet still continue from our position, and the commit counter in the index proves that none is missing.
//
// The handles on the file and on the index are never closed: POSIX drops every lock of a process on a file when any of its
// handles is closed, including SQLite's.

import { randomUUID } from 'node:crypto'
import { closeSync, existsSync, openSync, readSync } from 'node:fs'
import { RepriseError } from '../../../core/errors.ts'
import type { LogPlace, Moment, PageBatch, PageSource } from '../../../core/shipping/page-source.ts'
import type { Hash } from '../../../core/store/ports.ts'
import { AckMark } from '../file/ack-mark.ts'
import { Connection } from '../file/connection.ts'
import { type Driver, loadDriver } from '../file/driver.ts'
import { toStoreError } from '../file/failure.ts'
import { checkBeforeUse } from '../file/open.ts'
import { realPath } from '../file/real-path.ts'
import { retryBusy } from '../file/retry.ts'
import { InPlace } from '../file/same-file.ts'
import { readVersion } from '../schema.ts'
import { type FramePlace, hasFrame, logSize, soundFrames } from './wal-frames.ts'
import { readWalIndex } from './wal-index.ts'

/** From this many frames, `advance` moves the log into the file; the store does so itself from 2000. */
const checkpointFrames = 1000
const busyMs = 10_000

/** @example const source = await openPageSource('.reprise/reprise.db') */
export async function openPageSource(location: string, hash: Hash): Promise<PageSource> {
  const file = realPath(location)
  const driver = await loadDriver()
  if (!existsSync(file)) throw new RepriseError('NOT_FOUND', `there is no store at ${file}`, { file })
  try {
    return await retryBusy(busyMs, () => {
      const ack = new AckMark(file)
      // Opening makes SQLite clean up: report damage before that.
      checkBeforeUse(driver, file, hash, ack, ack.read())
      return SqlitePages.open(driver, file)
    })
  } catch (error) {
    throw toStoreError(error, 'ship', file)
  }
}

class SqlitePages implements PageSource {
  readonly storeId: string
  readonly file: string
  readonly #run = randomUUID()
  /** Holds the read transaction that keeps the log. */
  readonly #holder: Connection
  /** Reads the current end of the feed. */
  readonly #reader: Connection
  readonly #fileHandle: number
  readonly #indexHandle: number
  readonly #pageBytes: number
  readonly #inPlace: InPlace
  #isHeld = false
  #isClosed = false

  private constructor(file: string, holder: Connection, reader: Connection, storeId: string) {
    this.file = file
    this.storeId = storeId
    this.#holder = holder
    this.#reader = reader
    this.#hold()
    this.#fileHandle = openSync(file, 'r')
    this.#indexHandle = openSync(`${file}-shm`, 'r')
    this.#pageBytes = Number(holder.get('PRAGMA page_size')?.page_size)
    this.#inPlace = new InPlace(file)
  }

  static open(driver: Driver, file: string): SqlitePages {
    const opened: Connection[] = []
    const connect = () => {
      const connection = new Connection(driver, file, false)
      opened.push(connection)
      connection.exec('PRAGMA wal_autocheckpoint = 0')
      return connection
    }
    try {
      const holder = connect()
      if (readVersion(holder) === 0) throw new RepriseError('NOT_FOUND', `${file} is not a Reprise store`, { file })
      holder.requireDurability()
      return new SqlitePages(file, holder, connect(), ownId(holder))
    } catch (error) {
      for (const each of opened) each.close()
      throw error
    }
  }

  look(): Moment {
    this.#inPlace.check()
    if (!this.#isHeld) this.#hold()
    const position = Number(this.#reader.get('SELECT max(position) AS last FROM reprise_log')?.last ?? 0)
    const head = readWalIndex(this.#indexHandle)
    const { salts = '0/0', lastFrame: frame = 0, sum = [0, 0] as const, change = 0 } = head ?? {}
    const pageCount = head && frame > 0 ? head.pageCount : this.#pageCount()
    const place: LogPlace = { run: this.#run, salts, frame, sum, change }
    return { place, pageBytes: this.#pageBytes, pageCount, position, at: Date.now() }
  }

  changes(since: LogPlace, until: Moment, pagesMax: number): Generator<PageBatch> | null {
    const ranges = this.#rangesOf(since, until.place)
    return ranges && this.#batches(ranges, since, until, pagesMax)
  }

  /** Null: there is no proof that nothing is missing. */
  #rangesOf(since: LogPlace, until: LogPlace): Range[] | null {
    if (since.salts === until.salts && since.frame <= until.frame && hasFrame(this.file, since, this.#pageBytes)) {
      return [{ after: since, last: until.frame }]
    }
    // The counter of another connection may have started over since.
    if (since.run !== this.#run || since.salts === until.salts) return null
    const rest = this.#commitsIn(since)
    const fresh: FramePlace = { salts: until.salts, frame: 0, sum: [0, 0] }
    const begun = this.#commitsIn(fresh, until.frame)
    const commits = (until.change - since.change) >>> 0
    if (begun.frame !== until.frame || rest.commits + begun.commits !== commits) return null
    return [
      { after: since, last: rest.frame },
      { after: fresh, last: until.frame },
    ]
  }

  /** The number of transactions that follow, and the end of the last one. */
  #commitsIn(after: FramePlace, last?: number): { readonly commits: number; readonly frame: number } {
    let commits = 0
    let ended = after.frame
    for (const { frame, pagesAfter } of soundFrames(this.file, after, this.#pageBytes, last)) {
      if (pagesAfter === 0) continue
      commits += 1
      ended = frame
    }
    return { commits, frame: ended }
  }

  *#batches(ranges: readonly Range[], since: LogPlace, until: Moment, pagesMax: number): Generator<PageBatch> {
    const isOwn = since.run === this.#run
    let pages = new Map<number, Uint8Array>()
    let change = since.change
    let pageCount = until.pageCount
    for (const { after, last } of ranges) {
      let reached = after.frame
      for (const { frame, page, pagesAfter, sum, content } of soundFrames(this.file, after, this.#pageBytes, last)) {
        reached = frame
        pages.set(page, new Uint8Array(content))
        const isCommit = pagesAfter > 0
        if (isCommit) {
          change = (change + 1) >>> 0
          pageCount = pagesAfter
        }
        const isEnd = frame === last && after.salts === until.place.salts
        // A transaction that is too large is shipped in pieces, of which only the last completes a state.
        const isFull = pages.size >= pagesMax && (isCommit || pages.size >= 4 * pagesMax)
        if (!isFull && !isEnd) continue
        const run = isEnd || isOwn ? this.#run : 'another'
        const place = isEnd ? until.place : { run, salts: after.salts, frame, sum, change }
        yield { place, pageCount, isWhole: isCommit, pages }
        pages = new Map()
      }
      if (reached !== last) throw slipped(this.file)
    }
  }

  whole(pagesPerPart: number): ReturnType<PageSource['whole']> {
    this.#unhold()
    const moment = this.look()
    const { place, pageCount, pageBytes } = moment
    const inLog = new Map<number, number>()
    let reached = 0
    const all: FramePlace = { salts: place.salts, frame: 0, sum: [0, 0] }
    for (const { frame, page, offset } of soundFrames(this.file, all, pageBytes, place.frame)) {
      inLog.set(page, offset)
      reached = frame
    }
    if (reached !== place.frame) throw slipped(this.file)
    const end = () => {
      // While the transaction was open, the log started over at most once, and before anything was moved into the file.
      if (place.frame > 0 && readWalIndex(this.#indexHandle)?.salts !== place.salts) throw slipped(this.file)
      this.#inPlace.check()
    }
    return { moment, parts: () => this.#parts(pagesPerPart, pageCount, inLog), end }
  }

  /** Pages in the log are read from there: those in the file may be overwritten at this moment. */
  *#parts(perPart: number, pageCount: number, inLog: ReadonlyMap<number, number>): Generator<Uint8Array> {
    const log = inLog.size > 0 ? openSync(`${this.file}-wal`, 'r') : null
    try {
      for (let first = 1; first <= pageCount; first += perPart) {
        const count = Math.min(perPart, pageCount - first + 1)
        const part = new Uint8Array(count * this.#pageBytes)
        readFully(this.#fileHandle, part, (first - 1) * this.#pageBytes)
        for (let page = first; page < first + count; page++) {
          const offset = inLog.get(page)
          if (offset === undefined || log === null) continue
          const at = (page - first) * this.#pageBytes
          readFully(log, part.subarray(at, at + this.#pageBytes), offset)
        }
        yield part
      }
    } finally {
      if (log !== null) closeSync(log)
    }
  }

  isBehind({ salts, frame, change }: LogPlace): boolean {
    const head = readWalIndex(this.#indexHandle)
    return !head || head.salts !== salts || head.lastFrame !== frame || head.change !== change
  }

  advance(): void {
    this.#unhold()
    const head = readWalIndex(this.#indexHandle)
    if (head && head.lastFrame >= checkpointFrames) {
      try {
        this.#holder.exec('PRAGMA wal_checkpoint(PASSIVE)')
      } catch {
        // The disk is full or busy: the log stays as it is, and is just as durable.
      }
    }
    this.#hold()
  }

  release(): void {
    this.#unhold()
  }

  logBytes(): number {
    return logSize(this.file)
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#unhold()
    this.#holder.close()
    this.#reader.close()
  }

  #hold(): void {
    this.#holder.run('BEGIN')
    // A transaction begins to read with its first statement.
    this.#holder.get('SELECT count(*) FROM reprise_meta')
    this.#isHeld = true
  }

  #unhold(): void {
    if (this.#isHeld) this.#holder.rollback()
    this.#isHeld = false
  }

  #pageCount(): number {
    return Number(this.#reader.get('PRAGMA page_count')?.page_count)
  }
}

interface Range {
  readonly after: FramePlace
  readonly last: number
}

/** The id is stored in the database, so that a copy of it is recognised. */
function ownId(connection: Connection): string {
  const find = () => connection.get(`SELECT value FROM reprise_meta WHERE key = 'store_id'`)?.value
  const found = find()
  if (typeof found === 'string') return found
  connection.run(`INSERT OR IGNORE INTO reprise_meta (key, value) VALUES ('store_id', ?)`, randomUUID())
  return String(find())
}

/** Bytes beyond the end of the file stay zero. */
function readFully(handle: number, into: Uint8Array, from: number): void {
  for (let at = 0; at < into.length; ) {
    const got = readSync(handle, into, at, into.length - at, from + at)
    if (got === 0) return
    at += got
  }
}

function slipped(file: string): RepriseError {
  return new RepriseError('STORE_BUSY', `the write-ahead log of ${file} restarted while it was read`, { file })
}
