// A connection that only reads, regardless of the permissions of the file. SQLite reads a file with a write-ahead log through
// two files beside it, and must create them if missing. Where it cannot (a read-only folder or mount), the file is read
// directly: in place if the log is empty, else from a copy. Such a connection sees no change of the file, so each read is
// compared with the state of the file before and after.

import { accessSync, constants, cpSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Connection } from './connection.ts'
import type { Driver } from './driver.ts'
import { isUnopenable } from './failure.ts'

export interface ReadingConnection {
  readonly connection: Connection
  /** Null: SQLite notices changes itself. Otherwise the state of the file that was read. */
  readonly state: string | null
  close(): void
}

/** Fails as SQLite does if the file is not a database, or does not exist. */
export function connectToRead(driver: Driver, file: string): ReadingConnection {
  try {
    const connection = connect(driver, file)
    return { connection, state: null, close: () => connection.close() }
  } catch (error) {
    // Copying the file opens and closes it, which releases every lock of this process on it: do this only where it cannot have
    // any.
    if (!isUnopenable(error) || canWrite(dirname(file))) throw error
    const state = stateOf(file)
    if (state === null) throw error
    return { ...(isLogEmpty(file) ? asItLies(driver, file) : fromCopy(driver, file)), state }
  }
}

/** Changes whenever the file or its log changes; null if the file does not exist. */
export function stateOf(file: string): string | null {
  const [main, log] = [look(file), look(`${file}-wal`)]
  return main && JSON.stringify([main, log])
}

function connect(driver: Driver, location: string): Connection {
  const connection = new Connection(driver, location, true)
  try {
    // Opening does not read: this statement shows whether the file is readable.
    connection.get('SELECT count(*) FROM sqlite_schema')
    return connection
  } catch (error) {
    connection.close()
    throw error
  }
}

/** Opens without locks and without the log: no process may write, and `state` shows whether one did. */
function asItLies(driver: Driver, file: string): Omit<ReadingConnection, 'state'> {
  const connection = connect(driver, `${pathToFileURL(file).href}?immutable=1`)
  return { connection, close: () => connection.close() }
}

function fromCopy(driver: Driver, file: string): Omit<ReadingConnection, 'state'> {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-read-'))
  const remove = () => rmSync(folder, { recursive: true, force: true })
  try {
    const copy = join(folder, basename(file))
    for (const end of ['', '-wal']) cpSync(file + end, copy + end)
    const connection = connect(driver, copy)
    return {
      connection,
      close() {
        connection.close()
        remove()
      },
    }
  } catch (error) {
    remove()
    throw error
  }
}

export function canWrite(path: string): boolean {
  try {
    accessSync(path, constants.W_OK)
    return true
  } catch {
    return false
  }
}

function isLogEmpty(file: string): boolean {
  return (look(`${file}-wal`)?.size ?? 0) === 0
}

function look(file: string): { readonly ino: number; readonly size: number; readonly changed: number } | null {
  const found = statSync(file, { throwIfNoEntry: false })
  return found ? { ino: found.ino, size: found.size, changed: found.mtimeMs + found.ctimeMs } : null
}
