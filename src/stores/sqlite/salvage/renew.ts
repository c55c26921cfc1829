// Rewrites a damaged file from its intact parts and replaces it in one step; the old file is kept beside it. No process may
// have the file open meanwhile, which SQLite's own lock ensures. From then on a note beside the file keeps others out: opening
// the file checks for the note before and after, so that of two processes one always sees the other.

import {
  closeSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { isReprise, RepriseError } from '../../../core/errors.ts'
import type { Hash } from '../../../core/store/ports.ts'
import type { Renewal } from '../../../core/store/store-facts.ts'
import { syncNow } from '../../../lib/durable-file.ts'
import { isRunning, processStat } from '../../../lib/process-stat.ts'
import { realTime, sleep } from '../../../lib/waiting.ts'
import { AckMark } from '../file/ack-mark.ts'
import { checkAcknowledged } from '../file/acknowledged.ts'
import { Connection } from '../file/connection.ts'
import type { Driver } from '../file/driver.ts'
import { isBusy, isDamage, unlessDamaged } from '../file/failure.ts'
import { describeHolder, describeUser, lockHolder, otherUser } from '../file/lock-holder.ts'
import { migrate } from '../schema.ts'
import { copyWithLog, isLogDamaged } from './damaged-log.ts'
import { copyWithFirstPage, isFirstPageSound } from './first-page.ts'
import { isAttached } from './own-tables.ts'
import { PageFile } from './pages.ts'
import { salvage } from './salvage.ts'
import type { Salvaged, SalvageOptions } from './salvage-io.ts'
import { DamagedFile } from './source.ts'

export interface RenewOptions {
  readonly namespace: string
  readonly hash: Hash
  readonly busyMs: number
  readonly now: number
}

/** Connections of this process may close slightly late. */
const waitMsMin = 2000
const attemptsMin = 20
const pauseMs = 20

/** Every connection of this process to the file must be closed. Throws STORE_BUSY while another process has it open. */
export async function renewFile(driver: Driver, file: string, options: RenewOptions): Promise<Renewal> {
  const note = noteOf(file)
  const waitMs = Math.max(options.busyMs, waitMsMin)
  checkNote(file)
  writeFileSync(note, JSON.stringify(thisProcess()))
  const fresh = `${file}-renewed`
  const copy = `${file}-readable`
  try {
    // 1. No process has it open, and its log is moved into it.
    const ack = new AckMark(file)
    const mark = ack.read()
    const check = (path: string) => checkAcknowledged(driver, path, options.hash, ack, mark)
    const { source, because } = await readable(driver, file, copy, waitMs, check)
    // 2. Write a new file from the intact parts.
    remove(fresh)
    const salvaged = writeFresh(driver, source, fresh, {
      ...{ ...options, kept: keptName(file, options.now) },
      acknowledged: mark?.position ?? 0,
    })
    // No process, including this one, may have them open now: SQLite removes a log by its name when the last connection ends.
    for (const each of [source, fresh]) await untilAlone(driver, each, waitMs)
    syncNow(fresh)
    // 3. The old file keeps a name, and the new one replaces it in one step.
    const kept = keepOld(file, options.now)
    if (source === copy) putCopyInPlace(file, copy, kept, because!.name)
    renameSync(fresh, file)
    syncNow(dirname(file))
    ack.write(salvaged.end.position, salvaged.end.body)
    ack.close()
    return {
      kept,
      rebuilt: [...(because ? [{ where: 'file', what: because.what }] : []), ...salvaged.rebuilt],
      lost: salvaged.lost,
    }
  } finally {
    remove(fresh)
    remove(copy)
    rmSync(note, { force: true })
  }
}

const firstPage = {
  name: 'first page',
  what: 'page 1, the header of the file, could not be read; PRAGMA user_version and application_id are 0 now',
}
const log = {
  name: 'write-ahead log',
  what: 'the write-ahead log is damaged; it was read frame by frame',
}
const cutLog = {
  name: 'write-ahead log',
  what: 'the write-ahead log is truncated: it ends before the last acknowledged write; its remaining frames were read',
}

interface Readable {
  readonly source: string
  /** Null: the source is the file itself. */
  readonly because: typeof firstPage | null
}

/** The file, once no other process has it open; if SQLite cannot read it, or would truncate its log, a readable copy. */
async function readable(
  driver: Driver,
  file: string,
  copy: string,
  waitMs: number,
  check: (path: string) => void,
): Promise<Readable> {
  const isAllIn = (path: string) => isSound(() => check(path))
  const because = isLogDamaged(file, () => isAllIn(file)) ? log : isLogCut(file, check) ? cutLog : firstPage
  if (because === firstPage) {
    try {
      await untilAlone(driver, file, waitMs)
      return { source: file, because: null }
    } catch (error) {
      if (!isDamage(error) || isFirstPageSound(file)) throw error
    }
  }
  checkAlone(file, because.name)
  remove(copy)
  if (because !== firstPage) {
    copyWithLog(file, copy, false)
    if (!isAllIn(copy)) copyWithLog(file, copy, true)
  } else copyWithFirstPage(file, copy)
  await untilAlone(driver, copy, waitMs)
  return { source: copy, because }
}

/** True: every remaining frame is intact, and the readable part ends before the acknowledged position. */
function isLogCut(file: string, check: (path: string) => void): boolean {
  if ((statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0) === 0) return false
  try {
    check(file)
    return false
  } catch (error) {
    if (!isDamage(error)) throw error
    const { reached, acknowledged } = isReprise(error) ? error.data : {}
    return Number(reached) < Number(acknowledged)
  }
}

/**
 * The log of the old file must not be found beside the new one, nor be lost in a crash. The copy already contains it, so
 * beside the copy the log changes nothing: the copy is put in place first.
 */
function putCopyInPlace(file: string, copy: string, kept: string, damagedPart: string): void {
  checkAlone(file, damagedPart)
  if (existsSync(`${file}-wal`)) copyFileSync(`${file}-wal`, `${kept}-wal`)
  syncNow(copy)
  renameSync(copy, file)
  syncNow(dirname(file))
  for (const end of ['-wal', '-shm']) rmSync(`${file}${end}`, { force: true })
}

/** Checks without SQLite, by the locks that each process with the open file holds on it. */
function checkAlone(file: string, damagedPart: string): void {
  const other = otherUser(file)
  if (other === undefined) {
    const what = `the ${damagedPart} of ${file} is damaged, and this system does not report whether a process has it open: restore a backup`
    throw new RepriseError('STORE_UNSUPPORTED', what, { file })
  }
  if (other) throw new RepriseError('STORE_BUSY', `${file}: ${describeUser(other)}`, { file, holder: other })
}

/** Reports the result without a change: works on a copy, which is removed. */
export async function renewCopy(driver: Driver, file: string, options: RenewOptions): Promise<Renewal> {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-renew-'))
  try {
    const copy = join(folder, basename(file))
    for (const end of ['', '-wal', '-ack'])
      if (existsSync(`${file}${end}`)) copyFileSync(`${file}${end}`, `${copy}${end}`)
    return { ...(await renewFile(driver, copy, options)), kept: file }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Throws STORE_BUSY while a live process rewrites the file. */
export function checkNote(file: string): void {
  const text = readIfThere(noteOf(file))
  if (text === null) return
  const { pid, started } = parsed(text)
  if (pid === process.pid || pid === undefined || startOf(pid) === null || startOf(pid) !== started) return
  throw new RepriseError('STORE_BUSY', `process ${pid} is rebuilding ${file} (verify --repair)`, { file, pid })
}

function noteOf(file: string): string {
  return `${file}-renewing`
}

function thisProcess(): { pid: number; started: string } {
  return { pid: process.pid, started: startOf(process.pid) ?? '' }
}

function parsed(text: string): { pid?: number; started?: string } {
  try {
    return JSON.parse(text)
  } catch {
    // The note is torn: its writer died while writing it.
    return {}
  }
}

/** Distinguishes a process from a later one with the same pid; null: there is none. */
function startOf(pid: number): string | null {
  return processStat(pid)?.start ?? (isRunning(pid) ? '' : null)
}

/** Each attempt gives this process's own connections more time to close, even on a slow machine. */
async function untilAlone(driver: Driver, file: string, waitMs: number): Promise<void> {
  const end = performance.now() + waitMs
  for (let attempt = 1; ; attempt++) {
    if (driver.name !== 'node:sqlite') collectGarbage()
    // Collected objects are freed one turn of the event loop later.
    await sleep(realTime, pauseMs)
    try {
      foldAlone(driver, file)
      return
    } catch (error) {
      const isOver = attempt >= attemptsMin && performance.now() >= end
      if (!(isBusy(error) || isReprise(error, 'STORE_BUSY')) || isOver) throw error
    }
  }
}

/**
 * In this mode SQLite locks the file itself, which fails while any other connection is open. Closing it empties the log. No
 * statement is prepared here, so that closing takes effect at once.
 */
function foldAlone(driver: Driver, file: string): void {
  const connection = new Connection(driver, file, false)
  try {
    connection.exec('PRAGMA locking_mode = EXCLUSIVE')
    isSound(() => connection.exec('PRAGMA synchronous = FULL'))
    connection.exec('BEGIN IMMEDIATE')
    connection.exec('ROLLBACK')
  } catch (error) {
    if (!isBusy(error)) throw error
    const writer = lockHolder(file)
    const holder = writer ?? otherUser(file)
    if (!holder) throw error
    const words = writer ? describeHolder(writer) : describeUser(holder)
    throw new RepriseError('STORE_BUSY', `${file}: ${words}`, { file, holder }, error)
  } finally {
    connection.close()
  }
  if ((statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0) {
    throw new RepriseError('STORE_BUSY', `${file}: its write-ahead log is in use by another process`, { file })
  }
}

/** Most statements first read the list of tables, which may be damaged. Their settings then keep their defaults. */
const isSound = (work: () => void) => unlessDamaged(() => work() === undefined, false)

/** @photostructure/sqlite ends a connection when its statements are collected (close.test.ts). */
function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  collect()
}

function writeFresh(driver: Driver, file: string, fresh: string, options: Omit<SalvageOptions, 'path'>): Salvaged {
  const handle = openSync(file, 'r')
  const connection = new Connection(driver, fresh, false)
  try {
    const pages = new PageFile(handle)
    connection.exec(`PRAGMA page_size = ${pages.pageBytes}`)
    connection.exec('PRAGMA auto_vacuum = INCREMENTAL')
    connection.exec('PRAGMA journal_mode = WAL')
    // Users with their own tables in the file may use it.
    connection.exec(`PRAGMA user_version = ${pages.userVersion}`)
    connection.exec(`PRAGMA application_id = ${pages.applicationId}`)
    // The file is synced as a whole at the end: until then nothing refers to it.
    connection.exec('PRAGMA synchronous = OFF')
    // User tables are copied one after another, and a row may refer to a table that is not copied yet, or is lost.
    connection.exec('PRAGMA foreign_keys = OFF')
    attach(connection, file)
    connection.run('BEGIN IMMEDIATE')
    migrate(connection)
    const salvaged = salvage(new DamagedFile(pages, connection), connection, { ...options, path: file })
    connection.run('COMMIT')
    detach(connection)
    connection.truncateLog()
    return salvaged
  } catch (error) {
    // Some drivers end a connection later than close: until then it must not hold the lock of the old file.
    connection.rollback()
    detach(connection)
    throw error
  } finally {
    connection.close()
    closeSync(handle)
  }
}

/** Attaches the damaged file, for SQLite to copy user tables. If it cannot list them, they are copied as they are found. */
function attach(connection: Connection, file: string): void {
  const isReadable = isSound(() => {
    connection.run('ATTACH DATABASE ? AS damaged', file)
    connection.exec('SELECT count(*) FROM damaged.sqlite_schema')
  })
  if (!isReadable) detach(connection)
}

function detach(connection: Connection): void {
  if (isAttached(connection)) connection.exec('DETACH DATABASE damaged')
}

/** Gives the old file a name of its own: a hard link where the file system has links, else a copy. */
function keptName(file: string, now: number): string {
  return `${file}-damaged-${new Date(now).toISOString().replaceAll(/[:.]/g, '-')}`
}

function keepOld(file: string, now: number): string {
  const kept = keptName(file, now)
  try {
    linkSync(file, kept)
  } catch {
    copyFileSync(file, kept)
    syncNow(kept)
  }
  return kept
}

function remove(file: string): void {
  for (const end of ['', '-wal', '-shm', '-journal']) rmSync(`${file}${end}`, { force: true })
}

function readIfThere(file: string): string | null {
  try {
    return existsSync(file) ? readFileSync(file, 'utf8') : null
  } catch {
    return null
  }
}
