// The user's SQL in a commit's transaction. It speaks to the writing connection, so it must not end the transaction,
// change how the connection works, or touch our tables.

import { RepriseError } from '../../core/errors.ts'
import type { Sql } from '../../core/ports.ts'
import type { Connection } from './connection.ts'
import type { SqlRow, SqlValue, Statement } from './driver.ts'

const comments = /^(?:\s|;|--[^\n]*(?:\n|$)|\/\*[\s\S]*?(?:\*\/|$))+/
const forbidden = /^(BEGIN|COMMIT|END|ROLLBACK|SAVEPOINT|RELEASE|ATTACH|DETACH|PRAGMA|VACUUM)\b/i
const reserved = /\breprise_\w+/i

/** The door closes with `end`: a rider that kept it cannot write outside its commit. */
export class Rider implements Sql {
  readonly dialect = 'sqlite'
  readonly #connection: Connection
  #isOver = false

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async run(text: string, ...values: readonly unknown[]): Promise<{ readonly changes: number }> {
    return { changes: Number(this.#prepare(text).run(...(values as SqlValue[])).changes) }
  }

  async all(text: string, ...values: readonly unknown[]): Promise<Record<string, unknown>[]> {
    return this.#prepare(text)
      .all(...(values as SqlValue[]))
      .map(toPlain)
  }

  async get(text: string, ...values: readonly unknown[]): Promise<Record<string, unknown> | undefined> {
    const row = this.#prepare(text).get(...(values as SqlValue[]))
    return row && toPlain(row)
  }

  end(): void {
    this.#isOver = true
  }

  #prepare(text: string): Statement {
    if (this.#isOver) throw new RepriseError('CLOSED', 'the commit that this SQL rode in is over')
    const word = forbidden.exec(text.replace(comments, ''))?.[1]
    if (word) {
      throw new RepriseError('INVALID_ARGUMENT', `${word.toUpperCase()} cannot ride: the transaction is the commit's`)
    }
    const table = reserved.exec(text)?.[0]
    if (table)
      throw new RepriseError('INVALID_ARGUMENT', `${table} is reserved: names with reprise_ are the store's own`)
    return this.#connection.once(text)
  }
}

/** Drivers give rows without a prototype; users expect plain objects. */
function toPlain(row: SqlRow): Record<string, unknown> {
  return { ...row }
}
