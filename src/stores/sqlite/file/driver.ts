// The SQLite driver: node:sqlite where the runtime has it without a flag (Node 22.13 and newer), else @photostructure/sqlite,
// which has the same API. Only the part of the API that this store uses is declared here.

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
    return { name, open: (file, { isReadOnly }) => new DatabaseSync(file, { readOnly: isReadOnly }) }
  } catch (cause) {
    throw new RepriseError('DRIVER_MISSING', `the SQLite driver ${name} cannot be loaded`, { driver: name }, cause)
  }
}
