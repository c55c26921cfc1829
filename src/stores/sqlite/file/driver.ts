// The SQLite driver: node:sqlite where the runtime has it without a flag (Node 22.13 and newer), else @photostructure/sqlite,
// which has the same API. Only the part of the API that this store uses is declared here.

import { driverMissing } from '../../../core/driver-missing.ts'
import { RepriseError } from '../../../core/errors.ts'
import { runtime } from '../../../lib/runtime/index.ts'

export type SqlValue = null | number | bigint | string | Uint8Array
export type SqlRow = Record<string, SqlValue>

export interface Statement {
  run(...values: SqlValue[]): { readonly changes: number | bigint; readonly lastInsertRowid: number | bigint }
  get(...values: SqlValue[]): SqlRow | undefined
  all(...values: SqlValue[]): SqlRow[]
  iterate(...values: SqlValue[]): IterableIterator<SqlRow>
  setReadBigInts(isOn: boolean): void
  /** Rows as lists. Missing in Node 22.13 to 22.15. */
  setReturnArrays?(isOn: boolean): void
}

export interface Database {
  exec(sql: string): void
  prepare(sql: string): Statement
  close(): void
}

export interface Driver {
  readonly name: string
  open(file: string, options: { readonly isReadOnly: boolean }): Database
}

type DatabaseSync = new (file: string, options: { readOnly: boolean }) => Database

export async function loadDriver({ name: runtimeName, files } = runtime): Promise<Driver> {
  if (!files) {
    const what = `${runtimeName} has no files, so it cannot open a SQLite store: open a postgres URL there`
    throw new RepriseError('STORE_UNSUPPORTED', what, { runtime: runtimeName })
  }
  const builtIn = files.sqlite()
  const name = builtIn ? 'node:sqlite' : '@photostructure/sqlite'
  try {
    // The name is a variable, so that neither the compiler nor a bundler resolves a module that may be missing.
    const loaded: unknown = builtIn ?? (await import(name))
    const { DatabaseSync } = loaded as { readonly DatabaseSync: DatabaseSync }
    const bindsEmpty = bindsEmptyValues(new DatabaseSync(':memory:', { readOnly: false }))
    const open = (file: string, isReadOnly: boolean) => new DatabaseSync(file, { readOnly: isReadOnly })
    return {
      name,
      open: (file, { isReadOnly }) => (bindsEmpty ? open(file, isReadOnly) : withEmptyValues(open(file, isReadOnly))),
    }
  } catch (cause) {
    throw driverMissing('opening a sqlite URL', [name], cause)
  }
}

/** False in Node 22: node:sqlite binds an empty array that has no memory as NULL. */
function bindsEmptyValues(database: Database): boolean {
  try {
    return database.prepare('SELECT ? IS NOT NULL AS found').get(new Uint8Array(new ArrayBuffer(0)))!.found === 1
  } finally {
    database.close()
  }
}

function withEmptyValues(database: Database): Database {
  const empty = new Uint8Array(1).subarray(1)
  const bindable = (value: SqlValue) => (value instanceof Uint8Array && value.length === 0 ? empty : value)
  const prepare = database.prepare.bind(database)
  database.prepare = (sql) => {
    const statement = prepare(sql)
    const { run, get, all, iterate } = statement
    statement.run = (...values) => run.apply(statement, values.map(bindable))
    statement.get = (...values) => get.apply(statement, values.map(bindable))
    statement.all = (...values) => all.apply(statement, values.map(bindable))
    statement.iterate = (...values) => iterate.apply(statement, values.map(bindable))
    return statement
  }
  return database
}
