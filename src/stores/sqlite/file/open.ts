// Opens the file in this order: check the write-ahead log, check the version and the acknowledged mark without writing, and
// only then open it for writing, which makes SQLite recover and clean up.

import { existsSync, readdirSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { RepriseError } from '../../../core/errors.ts'
import type { Hash, StoreFault } from '../../../core/store/ports.ts'
import { makeFolders, syncNow } from '../../../lib/durable-file.ts'
import { checkNote } from '../salvage/renew.ts'
import { findSpace, makeSpace, migrate, readVersion, schemaVersion } from '../schema.ts'
import { AckMark, type Mark } from './ack-mark.ts'
import { checkAcknowledged } from './acknowledged.ts'
import { Connection } from './connection.ts'
import type { Driver } from './driver.ts'
import { damaged, isUnopenable, misplaced, toStoreError } from './failure.ts'
import { showAsNow } from './older-version.ts'
import { canWrite, connectToRead, type ReadingConnection } from './reading-connection.ts'
import { realPath } from './real-path.ts'
import { retryBusy } from './retry.ts'
import { InPlace } from './same-file.ts'
import { scanWal } from './wal-scan.ts'

export interface OpenedFile {
  readonly file: string
  /** Null: read-only. */
  readonly writer: {
    readonly connection: Connection
    readonly space: number
    readonly ack: AckMark
    readonly inPlace: InPlace
  } | null
}

export interface OpenOptions {
  readonly namespace: string
  readonly hash: Hash
  readonly isReadOnly: boolean
  /** For a read-only open: refuses damage, as an open for writing does. */
  readonly refusesDamage?: boolean
  /** A person has put an older copy in place: acknowledged entries that it lacks are not damage. */
  readonly isPutBack?: boolean
  readonly busyMs: number
}

/** The number of pages in the write-ahead log before they are moved into the file. */
const checkpointPages = 2000
/**
 * The size of the log on disk once it starts over. While a process is paused in the middle of a read, the log grows without
 * bound, and would otherwise keep that size for as long as any process has the file open.
 */
const logBytesKept = 16 * 2 ** 20

export async function openFile(driver: Driver, location: string, options: OpenOptions): Promise<OpenedFile> {
  const file = realPath(location)
  checkNames(file)
  const read = (how: OpenOptions) => retryBusy(options.busyMs, () => openToRead(driver, file, how))
  // A file that cannot be written still opens: reads work, and writes report the reason.
  const readAllTheSame = () => read({ ...options, refusesDamage: true })
  try {
    if (options.isReadOnly) return await read(options)
    const isNew = !existsSync(file)
    if (!isNew && !canWrite(file)) return await readAllTheSame()
    if (isNew) makeFolder(dirname(file))
    // Two processes that create a new file at the same moment can find it locked in spite of any timeout: retry.
    const writer = await retryBusy(options.busyMs, () => openToWrite(driver, file, options))
    if (isNew) syncNow(dirname(file))
    return { file, writer }
  } catch (error) {
    if (isUnopenable(error) && existsSync(file) && !canWrite(dirname(file))) return await readAllTheSame()
    throw toStoreError(error, 'open', file)
  }
}

/**
 * SQLite keeps the write-ahead log beside the name under which a file was opened. Two processes that open a file under two
 * names have two logs, and overwrite each other's writes. A symbolic link is resolved to the one name.
 */
function checkNames(file: string): void {
  const stats = statSync(file, { throwIfNoEntry: false })
  if (!stats || stats.nlink < 2) return
  // A killed repair leaves a second name: the damaged file, which no process opens.
  const isKept = (name: string) =>
    name.startsWith(`${basename(file)}-damaged-`) &&
    statSync(join(dirname(file), name), { throwIfNoEntry: false })?.ino === stats.ino
  if (stats.nlink - readdirSync(dirname(file)).filter(isKept).length < 2) return
  const what = `${file} has ${stats.nlink} names (hard links), and commits under one name are not visible under the others: remove the other names, or use a symbolic link or a copy`
  throw new RepriseError('STORE_UNSUPPORTED', what, { file, links: stats.nlink })
}

/** Closes opened resources if no store results from them: a remaining lock would block a repair. */
export async function closedOnFailure<S extends { close(): Promise<void> }>(
  opened: OpenedFile,
  make: () => S,
  check: (store: S) => Promise<void>,
): Promise<S> {
  let store: S | null = null
  try {
    store = make()
    await check(store)
    return store
  } catch (error) {
    if (store) await store.close()
    else opened.writer?.connection.close()
    throw error
  }
}

/** A damaged file can be read as far as possible, unless it is to be refused. */
function openToRead(driver: Driver, file: string, { hash, refusesDamage }: OpenOptions): OpenedFile {
  if (!existsSync(file))
    throw new RepriseError('NOT_FOUND', `there is no store at ${file}: open it for writing to create one`, { file })
  if (refusesDamage) {
    const ack = new AckMark(file)
    checkBeforeUse(driver, file, hash, ack, ack.read())
  }
  return { file, writer: null }
}

export function connectReader(driver: Driver, file: string): ReadingConnection {
  const reading = connectToRead(driver, file)
  try {
    const version = readVersion(reading.connection)
    if (version === 0) throw new RepriseError('NOT_FOUND', `${file} is not a Reprise store`, { file })
    if (version < schemaVersion) showAsNow(reading.connection, version)
    if (reading.state === null) reading.connection.requireDurability()
    return reading
  } catch (error) {
    reading.close()
    throw error
  }
}

function openToWrite(driver: Driver, file: string, { namespace, hash, isPutBack }: OpenOptions): OpenedFile['writer'] {
  // Check before and after: see salvage/renew.ts.
  checkNote(file)
  const ack = new AckMark(file)
  // Read before the file: a process that creates or writes it at this moment leaves a mark as well.
  const mark = ack.read()
  const isEmpty = !existsSync(file) || statSync(file).size === 0
  if (isEmpty) ack.check(mark, null)
  else checkBeforeUse(driver, file, hash, ack, mark, isPutBack)
  const connection = new Connection(driver, file, false)
  try {
    // Set first: the next statements may write, and a commit not synced before the next one would appear as damage.
    connection.exec('PRAGMA synchronous = FULL')
    // The pragma writes, and takes effect only in a file without tables: an old file must open on a full disk too.
    if (isEmpty) connection.exec('PRAGMA auto_vacuum = INCREMENTAL')
    connection.exec('PRAGMA journal_mode = WAL')
    connection.requireDurability()
    checkNote(file)
    connection.exec(`PRAGMA wal_autocheckpoint = ${checkpointPages}`)
    connection.exec(`PRAGMA journal_size_limit = ${logBytesKept}`)
    return { connection, space: prepare(connection, namespace), ack, inPlace: new InPlace(file) }
  } catch (error) {
    connection.close()
    throw error
  }
}

/** Throws STORE_DAMAGED if the write-ahead log, or the log table in it, does not reach the required position. */
export function checkBeforeUse(
  driver: Driver,
  file: string,
  hash: Hash,
  ack: AckMark,
  mark: Mark | null,
  isPutBack = false,
): void {
  const fault = scanWal(file)
  if (fault) {
    const { frame, commitsBehind } = fault
    throw damaged(
      `the write-ahead log ${file}-wal is damaged in frame ${frame}, before ${commitsBehind} commits; SQLite would drop them`,
      { file: `${file}-wal`, frame, commitsBehind },
    )
  }
  if (existsSync(`${file}-journal`)) rollBackCreation(driver, file)
  checkAcknowledged(driver, file, hash, ack, mark, isPutBack)
}

/** For verify, which also checks files that were opened in spite of damage. */
export function inspectEnd(driver: Driver, file: string, hash: Hash): StoreFault[] {
  const ack = new AckMark(file)
  try {
    checkBeforeUse(driver, file, hash, ack, ack.read())
    return []
  } catch (error) {
    if (!(error instanceof RepriseError) || error.code !== 'STORE_DAMAGED') throw error
    return [{ where: 'log', what: error.message }]
  }
}

/** A crash during creation leaves a rollback journal, which a read-only connection cannot roll back. */
function rollBackCreation(driver: Driver, file: string): void {
  const connection = new Connection(driver, file, false)
  try {
    connection.get('SELECT count(*) FROM sqlite_schema')
  } finally {
    connection.close()
  }
}

/** Opening an up-to-date file does not wait for the write lock: its holder may be stopped. */
function prepare(connection: Connection, namespace: string): number {
  if (readVersion(connection) === schemaVersion && !hasStatistics(connection)) {
    const space = findSpace(connection, namespace)
    if (space !== null) return space
  }
  connection.run('BEGIN IMMEDIATE')
  try {
    migrate(connection)
    const space = makeSpace(connection, namespace)
    const hadStatistics = forgetStatistics(connection)
    connection.run('COMMIT')
    if (hadStatistics) connection.exec('ANALYZE sqlite_schema')
    return space
  } catch (error) {
    connection.rollback()
    throw error
  }
}

/** A new folder is a name in its parent, which must be synced as well. */
function makeFolder(folder: string): void {
  let missing: readonly string[] = []
  try {
    missing = makeFolders(folder)
  } catch (error) {
    throw misplaced(error, folder)
  }
  // Sync the nearest existing folder too: its creator may have died before the sync.
  for (const made of [missing[0] ? dirname(missing[0]) : folder, ...missing]) syncNow(dirname(made))
}

/**
 * Removes statistics of our tables that ANALYZE made. Statistics of a small store make SQLite scan whole tables
 * after it has grown; our statements are planned well without them. Statistics of user tables are kept. Returns whether there
 * were any.
 */
function forgetStatistics(connection: Connection): boolean {
  return hasStatistics(connection) && connection.run("DELETE FROM sqlite_stat1 WHERE tbl GLOB 'reprise_*'") > 0
}

function hasStatistics(connection: Connection): boolean {
  if (!connection.get("SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat1'")) return false
  return connection.get("SELECT 1 FROM sqlite_stat1 WHERE tbl GLOB 'reprise_*' LIMIT 1") !== undefined
}
