// One connection to the file: the settings for durability are set and verified, and its statements are cached. The database
// object is referenced here for as long as its statements live: its garbage collection would close it under them.

import { RepriseError } from '../../../core/errors.ts'
import type { Database, Driver, SqlRow, SqlValue, Statement } from './driver.ts'

export interface Durability {
  readonly journal_mode: string
  readonly synchronous: string
}

const synchronousNames = ['off', 'normal', 'full', 'extra']
/** How long SQLite may block the thread for a lock; after that the store waits without blocking (retry.ts). */
const blockingWaitMs = 10

/** The error that aborts `silently` when its work needs a statement. */
const needed = new Error('a statement is required')

export class Connection {
  /** True: the file has an older schema, and is only read (older-version.ts). */
  isOlder = false
  readonly #database: Database
  readonly #statements = new Map<string, Statement>()
  #isThorough: boolean | null = null
  #isSilent = false
  #isHeld = false

  constructor(driver: Driver, file: string, isReadOnly: boolean) {
    this.#database = driver.open(file, { isReadOnly })
    try {
      this.#database.exec(`PRAGMA busy_timeout = ${blockingWaitMs}`)
    } catch (error) {
      this.#database.close()
      throw error
    }
  }

  exec(sql: string): void {
    this.#database.exec(sql)
  }

  /** Runs work that uses cached results only. Null: it needed a statement, which was refused. */
  silently<Result>(work: () => Result): { readonly result: Result } | null {
    this.#isSilent = true
    try {
      return { result: work() }
    } catch (error) {
      if (error === needed) return null
      throw error
    } finally {
      this.#isSilent = false
    }
  }

  prepare(sql: string): Statement {
    if (this.#isSilent) throw needed
    let statement = this.#statements.get(sql)
    if (!statement) {
      statement = this.#database.prepare(sql)
      this.#statements.set(sql, statement)
    }
    return statement
  }

  run(sql: string, ...values: SqlValue[]): number {
    return Number(this.prepare(sql).run(...values).changes)
  }

  insert(sql: string, ...values: SqlValue[]): number {
    return Number(this.prepare(sql).run(...values).lastInsertRowid)
  }

  get(sql: string, ...values: SqlValue[]): SqlRow | undefined {
    return this.prepare(sql).get(...values)
  }

  all(sql: string, ...values: SqlValue[]): SqlRow[] {
    return this.prepare(sql).all(...values)
  }

  iterate(sql: string, ...values: SqlValue[]): IterableIterator<SqlRow> {
    return this.prepare(sql).iterate(...values)
  }

  /** Runs several statements on one state of the file. Synchronous, so that nothing intervenes. */
  snapshot<Result>(work: () => Result): Result {
    if (this.#isHeld) return work()
    this.run('BEGIN')
    try {
      return work()
    } finally {
      if (!this.#isHeld) this.rollback()
    }
  }

  /** Called in a snapshot: all later ones see its state of the file, until the connection is closed. */
  holdSnapshot(): void {
    this.#isHeld = true
  }

  /** Also called after an error that made SQLite roll back: that error is the one to report. */
  rollback(): void {
    try {
      this.run('ROLLBACK')
    } catch {
      // No transaction was open any more.
    }
  }

  /** Attempts a statement to find out: not all drivers report it. */
  isInTransaction(): boolean {
    try {
      this.run('BEGIN')
    } catch {
      return true
    }
    this.rollback()
    return false
  }

  /** Changes when another connection has written. */
  dataVersion(): number {
    return this.get('PRAGMA data_version')!.data_version as number
  }

  /** Prepares a user's statement without caching it: there may be any number of them. */
  once(sql: string): Statement {
    return this.#database.prepare(sql)
  }

  /** SQLite opens an existing write-ahead log with the build's default: set FULL, and verify it. */
  requireDurability(): void {
    this.exec('PRAGMA synchronous = FULL')
    const found = this.durability()
    if (found.journal_mode === 'wal' && found.synchronous === 'full') return
    throw new RepriseError('STORE_DURABILITY', 'SQLite refused journal_mode=wal and synchronous=full', {
      ...found,
    })
  }

  durability(): Durability {
    return {
      journal_mode: String(this.#pragma('journal_mode')),
      synchronous: synchronousNames[Number(this.#pragma('synchronous'))] ?? 'unknown',
    }
  }

  /** Overwrites deleted bytes with zeros: always in pages that are written anyway, on demand also in freed pages. */
  overwriteDeleted(isThorough: boolean): void {
    if (isThorough === this.#isThorough) return
    this.exec(`PRAGMA secure_delete = ${isThorough ? 'ON' : 'FAST'}`)
    this.#isThorough = isThorough
  }

  /** Empties the write-ahead log; false if another connection still reads from it. */
  truncateLog(): boolean {
    return this.get('PRAGMA wal_checkpoint(TRUNCATE)')?.busy === 0
  }

  /** Moves the write-ahead log into the file, as far as other processes allow. Correctness does not depend on it. */
  checkpoint(): void {
    try {
      this.#database.exec('PRAGMA wal_checkpoint(TRUNCATE)')
    } catch {
      // The disk is full, read-only or busy: the log stays as it is, and is just as durable.
    }
  }

  close(): void {
    this.#statements.clear()
    this.#database.close()
  }

  #pragma(name: string): SqlValue | undefined {
    return Object.values(this.#database.prepare(`PRAGMA ${name}`).get() ?? {})[0]
  }
}
