// Opening the file, in this order: look through the write-ahead log, look (without writing) at the version and at what
// was acknowledged, and only then open it for writing, which lets SQLite recover and clean up.

import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { RepriseError } from '../../core/errors.ts'
import type { Hash } from '../../core/ports.ts'
import { AckMark } from './ack-mark.ts'
import { Connection } from './connection.ts'
import type { Driver } from './driver.ts'
import { damaged, isReadOnlyFailure, toStoreError } from './failure.ts'
import { Log } from './log.ts'
import { retryBusy } from './retry.ts'
import { makeSpace, migrate, readVersion, schemaVersion } from './schema.ts'
import { scanWal } from './wal-scan.ts'

export interface OpenedFile {
  readonly file: string
  /** Null: reading only. */
  readonly writer: { readonly connection: Connection; readonly space: number; readonly ack: AckMark } | null
}

export interface OpenOptions {
  readonly namespace: string
  readonly hash: Hash
  readonly isReadOnly: boolean
  readonly busyMs: number
}

/** How many pages the write-ahead log may hold before they are moved into the file. */
const checkpointPages = 2000

export async function openFile(driver: Driver, location: string, options: OpenOptions): Promise<OpenedFile> {
  const file = resolve(location)
  try {
    if (options.isReadOnly) return { file, writer: openToRead(file) }
    const isNew = !existsSync(file)
    if (isNew) makeFolder(dirname(file))
    // Two processes that make a new file in the same moment can find it locked in spite of any timeout: try again.
    const writer = await retryBusy(options.busyMs, () => openToWrite(driver, file, options))
    if (isNew) syncDirectory(dirname(file))
    return { file, writer }
  } catch (error) {
    throw toStoreError(error, 'open', file)
  }
}

/** A damaged file can be read as far as it goes: that is what this mode is for. */
function openToRead(file: string): null {
  if (!existsSync(file)) throw new RepriseError('NOT_FOUND', `there is no store at ${file}`, { file })
  return null
}

export function connectReader(driver: Driver, file: string): Connection {
  const connection = new Connection(driver, file, true)
  try {
    const version = readVersion(connection)
    if (version === 0) throw new RepriseError('NOT_FOUND', `${file} is not a store of Reprise`, { file })
    connection.requireDurability()
    return connection
  } catch (error) {
    connection.close()
    throw error
  }
}

function openToWrite(driver: Driver, file: string, { namespace, hash }: OpenOptions): OpenedFile['writer'] {
  const ack = new AckMark(file)
  // Before anything of the file: whoever makes it in this moment, or writes to it, leaves a mark as well.
  const mark = ack.read()
  const isEmpty = !existsSync(file) || statSync(file).size === 0
  if (isEmpty) ack.check(mark, null)
  else checkBeforeWriting(driver, file, hash, (log) => ack.check(mark, log))
  const connection = new Connection(driver, file, false)
  try {
    // First of all: the next statements may write, and a commit that is not synced before the next looks like damage.
    connection.exec('PRAGMA synchronous = FULL')
    // It writes, and counts only in a file without tables: an old one must open on a full disk too.
    if (isEmpty) connection.exec('PRAGMA auto_vacuum = INCREMENTAL')
    connection.exec('PRAGMA journal_mode = WAL')
    connection.requireDurability()
    connection.exec(`PRAGMA wal_autocheckpoint = ${checkpointPages}`)
    return { connection, space: prepare(connection, namespace), ack }
  } catch (error) {
    connection.close()
    throw error
  }
}

/** Through a connection that cannot write: closing it leaves the write-ahead log as it is. */
function checkBeforeWriting(driver: Driver, file: string, hash: Hash, check: (log: Log | null) => void): void {
  const fault = scanWal(file)
  if (fault) {
    const { frame, commitsBehind } = fault
    throw damaged(
      `the write-ahead log ${file}-wal is damaged in frame ${frame}, before ${commitsBehind} commits; SQLite would drop them`,
      { file: `${file}-wal`, frame, commitsBehind },
    )
  }
  if (existsSync(`${file}-journal`)) rollBackCreation(driver, file)
  const connection = new Connection(driver, file, true)
  try {
    connection.snapshot(() => check(readVersion(connection) === 0 ? null : new Log(connection, hash)))
  } finally {
    connection.close()
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

/** A file that cannot be written opens all the same, if it is up to date: reads work, writes say why not. */
function prepare(connection: Connection, namespace: string): number {
  try {
    connection.run('BEGIN IMMEDIATE')
  } catch (error) {
    if (isReadOnlyFailure(error) && readVersion(connection) === schemaVersion) return -1
    throw error
  }
  try {
    migrate(connection)
    const space = makeSpace(connection, namespace)
    connection.run('COMMIT')
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
