// Opening the file, in this order: look through the write-ahead log, look (without writing) at the version and at what
// was acknowledged, and only then open it for writing, which lets SQLite recover and clean up.

import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, readdirSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { RepriseError } from '../../../core/errors.ts'
import type { Hash, StoreFault } from '../../../core/store/ports.ts'
import { checkNote } from '../salvage/renew.ts'
import { findSpace, makeSpace, migrate, readVersion, schemaVersion } from '../schema.ts'
import { AckMark, type Mark } from './ack-mark.ts'
import { checkAcknowledged } from './acknowledged.ts'
import { Connection } from './connection.ts'
import type { Driver } from './driver.ts'
import { damaged, isUnopenable, toStoreError } from './failure.ts'
import { InPlace } from './in-place.ts'
import { showAsNow } from './older.ts'
import { canWrite, connectToRead, type ReadingConnection } from './reading-connection.ts'
import { realPath } from './real-path.ts'
import { retryBusy } from './retry.ts'
import { scanWal } from './wal-scan.ts'

export interface OpenedFile {
  readonly file: string
  /** Null: reading only. */
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
  /** When it is only read: damage is refused, as when it is written. */
  readonly refusesDamage?: boolean
  readonly busyMs: number
}

/** How many pages the write-ahead log may hold before they are moved into the file. */
const checkpointPages = 2000
/**
 * What of the log stays on the disk once it starts over. While a process stands still in the middle of a read, it grows beyond
 * all bounds, and would otherwise keep that size for as long as anybody has the file open.
 */
const logBytesKept = 16 * 2 ** 20

export async function openFile(driver: Driver, location: string, options: OpenOptions): Promise<OpenedFile> {
  const file = realPath(location)
  checkNames(file)
  const read = (how: OpenOptions) => retryBusy(options.busyMs, () => openToRead(driver, file, how))
  // A file that cannot be written opens all the same: reads work, writes say why not.
  const readAllTheSame = () => read({ ...options, refusesDamage: true })
  try {
    if (options.isReadOnly) return await read(options)
    const isNew = !existsSync(file)
    if (!isNew && !canWrite(file)) return await readAllTheSame()
    if (isNew) makeFolder(dirname(file))
    // Two processes that make a new file in the same moment can find it locked in spite of any timeout: try again.
    const writer = await retryBusy(options.busyMs, () => openToWrite(driver, file, options))
    if (isNew) syncDirectory(dirname(file))
    return { file, writer }
  } catch (error) {
    if (isUnopenable(error) && existsSync(file) && !canWrite(dirname(file))) return await readAllTheSame()
    throw toStoreError(error, 'open', file)
  }
}

/**
 * SQLite keeps the write-ahead log beside the name under which a file was opened. Two processes that open it under two names
 * have two logs, and each overwrites what the other has written. A symbolic link is followed to the one name.
 */
function checkNames(file: string): void {
  const stats = statSync(file, { throwIfNoEntry: false })
  if (!stats || stats.nlink < 2) return
  // A repair that was killed leaves a second name: the damaged file, which nobody opens.
  const isKept = (name: string) =>
    name.startsWith(`${basename(file)}-damaged-`) &&
    statSync(join(dirname(file), name), { throwIfNoEntry: false })?.ino === stats.ino
  if (stats.nlink - readdirSync(dirname(file)).filter(isKept).length < 2) return
  const what = `${file} has ${stats.nlink} names (hard links), and a commit under one of them is not seen under the others: remove the other names, or use a symbolic link or a copy`
  throw new RepriseError('STORE_UNSUPPORTED', what, { file, links: stats.nlink })
}

/** What was opened is closed if no store comes of it: a lock that stays would keep a repair out. */
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

/** A damaged file can be read as far as it goes, unless it is to be refused. */
function openToRead(driver: Driver, file: string, { hash, refusesDamage }: OpenOptions): OpenedFile {
  if (!existsSync(file))
    throw new RepriseError('NOT_FOUND', `there is no store at ${file}: open it for writing to make one`, { file })
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
    if (version === 0) throw new RepriseError('NOT_FOUND', `${file} is not a store of Reprise`, { file })
    if (version < schemaVersion) showAsNow(reading.connection, version)
    if (reading.state === null) reading.connection.requireDurability()
    return reading
  } catch (error) {
    reading.close()
    throw error
  }
}

function openToWrite(driver: Driver, file: string, { namespace, hash }: OpenOptions): OpenedFile['writer'] {
  // Before and after: see salvage/renew.ts.
  checkNote(file)
  const ack = new AckMark(file)
  // Before anything of the file: whoever makes it in this moment, or writes to it, leaves a mark as well.
  const mark = ack.read()
  const isEmpty = !existsSync(file) || statSync(file).size === 0
  if (isEmpty) ack.check(mark, null)
  else checkBeforeUse(driver, file, hash, ack, mark)
  const connection = new Connection(driver, file, false)
  try {
    // First of all: the next statements may write, and a commit that is not synced before the next looks like damage.
    connection.exec('PRAGMA synchronous = FULL')
    // It writes, and counts only in a file without tables: an old one must open on a full disk too.
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

/** Throws STORE_DAMAGED where the write-ahead log, or the log in it, does not reach as far as it must. */
export function checkBeforeUse(driver: Driver, file: string, hash: Hash, ack: AckMark, mark: Mark | null): void {
  const fault = scanWal(file)
  if (fault) {
    const { frame, commitsBehind } = fault
    throw damaged(
      `the write-ahead log ${file}-wal is damaged in frame ${frame}, before ${commitsBehind} commits; SQLite would drop them`,
      { file: `${file}-wal`, frame, commitsBehind },
    )
  }
  if (existsSync(`${file}-journal`)) rollBackCreation(driver, file)
  checkAcknowledged(driver, file, hash, ack, mark)
}

/** For verify, which also looks at what was opened in spite of damage. */
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

/** A crash while the file was being made leaves a rollback journal, which a connection that cannot write may not undo. */
function rollBackCreation(driver: Driver, file: string): void {
  const connection = new Connection(driver, file, false)
  try {
    connection.get('SELECT count(*) FROM sqlite_schema')
  } finally {
    connection.close()
  }
}

/** Nobody waits for the write lock to open what is up to date: whoever holds it may be stopped. */
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

/** A new folder is a name in the one above it, which has to be synced as well. */
function makeFolder(folder: string): void {
  // One by one: asked for all of them at once, Node goes round in circles where a folder cannot be made (under /proc).
  const missing: string[] = []
  let there = folder
  for (; !existsSync(there); there = dirname(there)) missing.unshift(there)
  for (const made of missing) makeOne(made)
  // The nearest as well: whoever made it may have died before the sync.
  for (const made of [there, ...missing]) syncDirectory(dirname(made))
}

function makeOne(folder: string): void {
  try {
    mkdirSync(folder)
  } catch (error) {
    // Another process was faster.
    if ((error as { code?: unknown }).code !== 'EEXIST') throw error
  }
}

function syncDirectory(directory: string): void {
  const handle = openSync(directory, 'r')
  try {
    fsyncSync(handle)
  } finally {
    closeSync(handle)
  }
}

/**
 * Statistics of our tables, made by whoever ran ANALYZE. Taken while the store was small they make SQLite go through whole
 * tables when it has grown; our statements are planned well without. Those of the user's tables stay. Says whether
 * there were any.
 */
function forgetStatistics(connection: Connection): boolean {
  return hasStatistics(connection) && connection.run("DELETE FROM sqlite_stat1 WHERE tbl GLOB 'reprise_*'") > 0
}

function hasStatistics(connection: Connection): boolean {
  if (!connection.get("SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat1'")) return false
  return connection.get("SELECT 1 FROM sqlite_stat1 WHERE tbl GLOB 'reprise_*' LIMIT 1") !== undefined
}
