// User SQL in a commit's transaction. It uses the writing connection, so it must not end the transaction, change settings of
// the connection, or touch our tables. sql-text.ts checks statements before they run; this file checks afterwards that SQLite
// did not roll back by itself, and that nothing temporary was created.

import { RepriseError } from '../../../core/errors.ts'
import type { Sql } from '../../../core/store/ports.ts'
import { withStatement } from '../../../core/store/sql-error.ts'
import type { Connection } from '../file/connection.ts'
import type { SqlValue, Statement } from '../file/driver.ts'
import { isOfDisk } from '../file/failure.ts'
import { checkSqlText, noTemporary, refused } from './sql-text.ts'
import { fromSqlList, fromSqlRow, toSqlValues, userStatement } from './user-values.ts'

const noLists = 'the SQLite of Node 22.13 to 22.15 cannot return rows as lists: update Node to 22.16 or newer'
const reserved = /\breprise_\w+/i

/** `end` closes it: user SQL that kept a reference cannot write outside its commit. */
export class TransactionSql implements Sql {
  readonly dialect = 'sqlite'
  readonly #connection: Connection
  #isOver = false
  #isLost = false
  #diskFailure: unknown = null

  constructor(connection: Connection) {
    this.#connection = connection
  }

  /** SQLite rolled the transaction back: nothing of the batch was written. */
  get isLost(): boolean {
    return this.#isLost
  }

  /** The disk error of a statement; null: none. */
  get diskFailure(): unknown {
    return this.#diskFailure
  }

  async run(text: string, ...values: readonly unknown[]): Promise<{ readonly changes: number }> {
    return this.#do(text, (statement) => ({ changes: Number(statement.run(...toSqlValues(values)).changes) }))
  }

  async all(text: string, ...values: readonly unknown[]): Promise<Record<string, unknown>[]> {
    return this.#do(text, (statement) => statement.all(...toSqlValues(values)).map(fromSqlRow))
  }

  async get(text: string, ...values: readonly unknown[]): Promise<Record<string, unknown> | undefined> {
    const row = this.#do(text, (statement) => statement.get(...toSqlValues(values)))
    return row && fromSqlRow(row)
  }

  async rows(text: string, ...values: readonly unknown[]): Promise<unknown[][]> {
    return this.#do(text, (statement) => {
      if (!statement.setReturnArrays) throw new RepriseError('STORE_UNSUPPORTED', noLists)
      statement.setReturnArrays(true)
      return (statement.all(...toSqlValues(values)) as unknown as SqlValue[][]).map(fromSqlList)
    })
  }

  /** Runs after the user's SQL, before its commit is kept. */
  checkLeftovers(): void {
    if (this.#connection.get('SELECT 1 FROM sqlite_temp_master LIMIT 1')) throw refused(noTemporary)
  }

  end(): void {
    this.#isOver = true
  }

  #do<Result>(text: string, work: (statement: Statement) => Result): Result {
    if (this.#isOver) throw new RepriseError('CLOSED', 'the commit of this SQL has ended: await every call inside it')
    if (this.#isLost) throw lost()
    checkSqlText(text)
    const table = reservedName(text)
    if (table) throw refused(`${table} is reserved: names with reprise_ belong to the store`)
    try {
      return work(userStatement(this.#connection, text))
    } catch (error) {
      // A rule of the schema (ON CONFLICT ROLLBACK) or a disk failure: later statements would run outside the commit.
      this.#isLost = !this.#connection.isInTransaction()
      if (isOfDisk(error)) this.#diskFailure = error
      throw withStatement(error, text)
    }
  }
}

/** The name of a store table in the text, if any. */
export function reservedName(text: string): string | undefined {
  return reserved.exec(text)?.[0]
}

export function lost(): RepriseError {
  return refused('SQLite rolled back the transaction of the commit because of a statement in it')
}
