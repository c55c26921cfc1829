// The SQLite store: one file, no server, any number of processes on one machine. This file connects the parts to the Store
// port; the work is done in the files beside it.

import { statSync } from 'node:fs'
import type { TimelineId, WorkerId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type {
  Blobs,
  ClaimRequest,
  Commit,
  CursorRow,
  DueQuery,
  EntryRun,
  FeedFilter,
  FeedPage,
  FeedPosition,
  Hash,
  Head,
  Inbox,
  Inspection,
  ManifestRecord,
  Outcome,
  PastLife,
  Renewal,
  RequestBox,
  Store,
  StoreFacts,
  StoreFault,
  TimelineQuery,
  Upkeep,
  WorkerRecord,
} from '../../core/store/ports.ts'
import type { SqlQuery } from '../../core/store/sql.ts'
import { AckMark, dropMarkAside } from './file/ack-mark.ts'
import { type Driver, loadDriver } from './file/driver.ts'
import { toStoreError } from './file/failure.ts'
import { closedOnFailure, connectReader, inspectEnd, type OpenedFile, openFile } from './file/open.ts'
import { Reader, type Reading } from './file/reading.ts'
import { realPath } from './file/real-path.ts'
import { retryBusy } from './file/retry.ts'
import { InPlace } from './file/same-file.ts'
import { asideOf } from './file/scan-thread.ts'
import { Listeners } from './listeners.ts'
import { readFeed } from './log/feed.ts'
import { SqliteBlobs } from './rows/blobs.ts'
import { readCatalog } from './rows/catalog.ts'
import { listCursors } from './rows/cursors.ts'
import { DueCheck, nextDue } from './rows/due.ts'
import { toHead } from './rows/heads.ts'
import { identify, identityDamage, readIdentity } from './rows/identity.ts'
import { findTimelines } from './rows/list.ts'
import { readInbox } from './rows/mail.ts'
import { pastOf } from './rows/past.ts'
import { claim, retire } from './rows/query.ts'
import { SqliteRequests } from './rows/requests.ts'
import { raiseSweepMark, readSweepMark } from './rows/sweep-mark.ts'
import { renewFile } from './salvage/renew.ts'
import { schemaVersion } from './schema.ts'
import { inspect } from './upkeep/inspect.ts'
import { SqliteUpkeep } from './upkeep/upkeep.ts'
import { queryUser } from './user-sql/user-query.ts'
import { Writer } from './writing/writer.ts'
import type { Writing } from './writing/writing.ts'

export interface SqliteOptions {
  readonly namespace: string
  readonly hash: Hash
  /** Never writes, and reads a damaged file as far as possible. */
  readonly readOnly?: boolean
  /** With readOnly: refuses damage, as an open for writing does. */
  readonly refusesDamage?: boolean
  /** A person has put an older copy in place: entries that it lacks are not damage. Ends with `acceptPutBack`. */
  readonly isPutBack?: boolean
  /** How long to wait for another process's write lock before STORE_BUSY. */
  readonly busyMs?: number
  /** The store's clock, in milliseconds since 1970, for leases and wakeups. */
  readonly clock?: () => number
  /** For simulations: a driver that decides when a statement runs. */
  readonly driver?: Driver
}

/** @example const store = await openSqlite('.reprise/reprise.db', { namespace: 'shop', hash }) */
export async function openSqlite(location: string, options: SqliteOptions): Promise<Store> {
  const { namespace, hash, readOnly: isReadOnly = false, busyMs = 10_000, clock = Date.now } = options
  const driver = options.driver ?? (await loadDriver())
  const { refusesDamage = false, isPutBack = false } = options
  const open = () => openFile(driver, location, { namespace, hash, isReadOnly, refusesDamage, isPutBack, busyMs })
  const isStrict = !isReadOnly || refusesDamage
  const opened = await open()
  const settings = { namespace, hash, busyMs, clock, isReadOnly, isStrict }
  const make = () => new SqliteStore(driver, opened, open, settings)
  return await closedOnFailure(opened, make, async (store) => void (isReadOnly && (await store.upkeep.facts())))
}

/** After each namespace of an older copy has a new incarnation: from here on every process may open the file. */
export function acceptPutBack(location: string): void {
  dropMarkAside(realPath(location))
}

interface StoreOptions {
  readonly namespace: string
  readonly hash: Hash
  readonly busyMs: number
  readonly clock: () => number
  readonly isReadOnly: boolean
  /** True: damage is refused, not read around. */
  readonly isStrict: boolean
}

class SqliteStore implements Store {
  readonly countsCheckpoints = true
  readonly lanes = 1
  readonly shards = null
  readonly blobs: Blobs
  readonly upkeep: Upkeep
  readonly requests: RequestBox
  readonly #file: string
  readonly #clock: () => number
  readonly #busyMs: number
  readonly #driver: Driver
  readonly #options: StoreOptions
  readonly #reopen: () => Promise<OpenedFile>
  #opened: OpenedFile
  #inPlace: InPlace
  readonly #ack: AckMark | null
  readonly #reader: Reader
  #writer: Writer | null
  /** While the file is rewritten, all operations wait. */
  #renewing: Promise<void> | null = null
  readonly #listeners: Listeners
  readonly #dueCheck = new DueCheck()
  readonly #isForReading: boolean
  readonly #inspectEnd: () => StoreFault[]
  #isClosed = false

  constructor(driver: Driver, opened: OpenedFile, reopen: () => Promise<OpenedFile>, options: StoreOptions) {
    const { file } = opened
    this.#file = file
    this.#driver = driver
    this.#options = options
    this.#reopen = reopen
    this.#clock = options.clock
    this.#busyMs = options.busyMs
    this.#opened = opened
    // A reader does not control when the log beside the file is created and removed.
    this.#inPlace = opened.writer?.inPlace ?? new InPlace(file, false)
    this.#isForReading = options.isReadOnly
    this.#inspectEnd = () => inspectEnd(driver, file, options.hash)
    this.#ack = options.isStrict ? new AckMark(file) : null
    this.#reader = new Reader({ ...options, file, ack: this.#ack, connect: () => connectReader(driver, file) })
    this.#listeners = new Listeners(() => this.#version())
    this.#writer = this.#newWriter(opened)
    this.blobs = new SqliteBlobs({
      read: (work) => this.#read(({ connection, space }) => work(connection, space)),
      write: (work) => this.#transact('write chunks to', work),
    })
    this.requests = new SqliteRequests({
      namespace: options.namespace,
      read: (work) => this.#read(work),
      transact: (doing, work) => this.#transact(doing, work),
    })
    this.upkeep = new SqliteUpkeep({
      busyMs: options.busyMs,
      read: (work) => this.#read(work),
      transact: (doing, work) => this.#transact(doing, work),
      writer: async () => {
        if (this.#renewing) await this.#renewing
        return this.#write()
      },
      facts: () => this.#facts(),
      inspect: (inspection) => this.#inspect(inspection),
      renew: () => this.#renew(),
    })
  }

  #newWriter({ file, writer }: OpenedFile): Writer | null {
    const onChange = (mayBeDue: boolean) => this.#listeners.notify(mayBeDue)
    return writer && new Writer({ ...this.#options, ...writer, file, onChange })
  }

  /** Synchronous where possible: a promise costs more than the rest of the work here. */
  commit(commits: readonly Commit[]): Outcome[] | Promise<Outcome[]> {
    if (this.#renewing) return this.#renewing.then(() => this.commit(commits))
    try {
      return this.#write().commit(commits)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  async read(timeline: TimelineId, after: number, bytesMax: number): Promise<EntryRun[]> {
    return this.#reread(({ timelines, log }) => {
      const found = timelines.find(timeline)
      return found && !found.row.isStub ? log.read(found, after, bytesMax) : []
    })
  }

  async head(names: readonly TimelineId[]): Promise<(Head | null)[]> {
    return this.#reread(({ timelines, workers, now }) =>
      names.map((name) => toHead(timelines.find(name), workers, now)),
    )
  }

  async past(timelines: readonly TimelineId[]): Promise<PastLife[]> {
    return this.#read(({ connection, space }) => timelines.map((id) => pastOf(connection, space, id)))
  }

  async identity(proposed?: string, replaces = false): Promise<string | null> {
    const found = await this.#read(({ connection, space }) => readIdentity(connection, space))
    if (proposed === undefined || (found !== null && !replaces)) return found
    return await this.#transact('identify', (writing) => {
      writing.hasAside = true
      return identify(writing.connection, writing.space, proposed, replaces)
    })
  }

  async query(query: SqlQuery): Promise<Record<string, unknown>[]> {
    return this.#read(({ connection }) => queryUser(connection, query))
  }

  async inbox(timeline: TimelineId, limit: number): Promise<Inbox> {
    // Read before the snapshot, which then contains everything durable so far.
    const now = this.#clock()
    const messages = await this.#read(({ timelines, connection, inboxes }) => {
      const found = timelines.find(timeline)
      return found ? readInbox(connection, found, limit, inboxes) : []
    })
    return { messages, now }
  }

  async claim(request: ClaimRequest): Promise<Head[]> {
    if (this.#renewing) await this.#renewing
    const writer = this.#write()
    // Most polls find nothing: check first, without the write lock.
    const hasDue = await this.#read((reading) => this.#dueCheck.hasDue(reading, request))
    return hasDue ? writer.transact('claim from', (writing) => claim(writing, request)) : []
  }

  async nextDue(query: DueQuery): Promise<number | null> {
    return this.#read((reading) => nextDue(reading, query))
  }

  async feed(after: FeedPosition, filter: FeedFilter, limit: number): Promise<FeedPage> {
    return this.#read((reading) => readFeed(reading, after, filter, limit))
  }

  async timelines(query: TimelineQuery): Promise<Head[]> {
    return this.#read((reading) => findTimelines(reading, query))
  }

  async checkpoints(timeline: TimelineId): Promise<ManifestRecord[]> {
    return this.#read(({ timelines, connection }) => {
      const found = timelines.find(timeline)
      return found ? readCatalog(connection, found) : []
    })
  }

  async cursors(): Promise<CursorRow[]> {
    return this.#read(({ connection, space, timelines }) => listCursors(connection, space, timelines))
  }

  readonly workers = async () => this.#read(({ workers, now }) => workers.list(now))

  async beat(worker: WorkerRecord): Promise<{ readonly ok: boolean; readonly now: number }> {
    return this.#transact('beat in', (writing) => {
      writing.hasAside = writing.workers.beat(worker, writing.now)
      return { ok: writing.hasAside, now: writing.now }
    })
  }

  async retire(workers: readonly WorkerId[]): Promise<void> {
    await this.#transact('retire workers in', (writing) => retire(writing, workers))
    this.#listeners.notify(true)
  }

  listen(wake: (mayBeDue?: boolean, mayHaveRequests?: boolean) => void): () => void {
    this.#checkOpen()
    return this.#listeners.add(wake)
  }

  async sweepMark(raiseTo?: number): Promise<number> {
    if (raiseTo === undefined) return this.#read(({ connection, space }) => readSweepMark(connection, space))
    return this.#transact('raise the sweep mark of', (writing) => {
      writing.hasAside = true
      return raiseSweepMark(writing.connection, writing.space, raiseTo)
    })
  }

  /** STORE_MOVED: the path leads to another file, or to none. */
  async #facts(): Promise<StoreFacts> {
    if (this.#renewing) await this.#renewing
    this.#inPlace.check()
    const read = await this.#read((at) => ({ durability: { ...this.#reader.durability() }, ...identityDamage(at) }))
    return {
      kind: 'sqlite',
      location: `sqlite:${this.#file}`,
      schemaVersion,
      ...read,
      isReadOnly: this.#writer === null,
      sizeBytes: sizeOf(this.#file) + sizeOf(`${this.#file}-wal`),
      keepsErased: [
        'the write-ahead log of the file (-wal), if another process reads it then, until that process ends',
      ],
    }
  }

  /** On a connection of its own: the write-ahead log keeps growing until it is closed. */
  async freeze(): Promise<Store> {
    if (this.#renewing) await this.#renewing
    this.#checkOpen()
    const opened = { file: this.#file, writer: null }
    const frozen = new SqliteStore(this.#driver, opened, async () => opened, { ...this.#options, isReadOnly: true })
    try {
      await frozen.#reader.freeze()
    } catch (error) {
      await frozen.close()
      throw error
    }
    return frozen
  }

  async #inspect(inspection: Inspection): Promise<StoreFault[]> {
    if (this.#renewing) await this.#renewing
    this.#checkOpen()
    const faults = await retryBusy(this.#busyMs, this.#inspectEnd)
    return [
      ...faults,
      ...(await inspect((work) => this.#read(work), inspection, asideOf(this.#driver, this.#file, this.#reader))),
    ]
  }

  async #renew(): Promise<Renewal> {
    if (this.#renewing) await this.#renewing
    // A read-only store refuses here.
    this.#write()
    let isDone = () => {}
    this.#renewing = new Promise((resolve) => {
      isDone = resolve
    })
    const { namespace, hash } = this.#options
    try {
      await this.#write().idle()
      this.#closeConnections()
      return await renewFile(this.#driver, this.#file, { namespace, hash, busyMs: this.#busyMs, now: this.#clock() })
    } catch (error) {
      throw toStoreError(error, 'renew', this.#file)
    } finally {
      try {
        this.#opened = await this.#reopen()
        this.#writer = this.#newWriter(this.#opened)
        this.#inPlace = this.#opened.writer?.inPlace ?? new InPlace(this.#file, false)
      } finally {
        this.#renewing = null
        isDone()
        this.#listeners.notify(true)
      }
    }
  }

  async close(): Promise<void> {
    if (this.#renewing) await this.#renewing
    if (this.#isClosed) return
    this.#isClosed = true
    this.#listeners.end()
    await this.#writer?.idle()
    this.#reader.close()
    this.#opened.writer?.connection.checkpoint()
    this.#closeConnections()
  }

  /** References are dropped as well: some drivers end a connection when its statements are collected. */
  #closeConnections(): void {
    this.#reader.close()
    this.#ack?.close()
    this.#opened.writer?.connection.close()
    this.#opened.writer?.ack.close()
    this.#writer = null
    this.#opened = { file: this.#file, writer: null }
  }

  /** For small reads that are often repeated. */
  #reread<Result>(work: (reading: Reading) => Result): Result | Promise<Result> {
    const kept = this.#renewing || this.#isClosed ? null : this.#reader.reread(work)
    return kept ? kept.result : this.#read(work)
  }

  async #read<Result>(work: (reading: Reading) => Result): Promise<Result> {
    if (this.#renewing) await this.#renewing
    this.#checkOpen()
    return this.#reader.read(work)
  }

  /** In the order of calls: nothing is awaited before it. */
  async #transact<Result>(doing: string, work: (writing: Writing) => Result): Promise<Result> {
    if (this.#renewing) await this.#renewing
    return this.#write().transact(doing, work)
  }

  #write(): Writer {
    this.#checkOpen()
    if (!this.#writer) {
      const why = this.#isForReading ? 'was opened with readOnly and cannot be written' : 'cannot be written'
      throw new RepriseError('STORE_READ_ONLY', `${this.#file} ${why}`, { file: this.#file })
    }
    return this.#writer
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new RepriseError('CLOSED', 'the SQLite store is closed', { file: this.#file })
  }

  /** Uses the writing connection: for another one, this process's own transactions would count as foreign. */
  #version(): number | null {
    if (this.#renewing) return null
    try {
      return this.#writer?.dataVersion() ?? this.#reader.dataVersion()
    } catch {
      return null
    }
  }
}

/** The size of a file in bytes; 0 if it does not exist. */
function sizeOf(file: string): number {
  try {
    return statSync(file).size
  } catch {
    return 0
  }
}
