// The SQLite driver: node:sqlite where Node has it without a flag (22.13 and newer), else @photostructure/sqlite, which has the
// same API. Only the part of the API that this store uses is declared here.

import { RepriseError } from '../../../core/errors.ts'

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

export async function loadDriver(nodeVersion = process.versions.node): Promise<Driver> {
  // workerd declares the class, and has no files for it: its constructor throws a TypeError.
  const { navigator } = globalThis as { readonly navigator?: { readonly userAgent?: string } }
  if (navigator?.userAgent === 'Cloudflare-Workers') {
    const what =
      'workerd (Cloudflare Workers) has no files, so it cannot open a SQLite store: open a postgres URL there'
    throw new RepriseError('STORE_UNSUPPORTED', what, { runtime: 'workerd' })
  }
  const name = hasBuiltIn(nodeVersion) ? 'node:sqlite' : '@photostructure/sqlite'
  try {
    // The name is a variable, so that neither the compiler nor a bundler resolves a module that may be missing.
    const loaded: unknown = builtIn(name) ?? (await import(name))
    const { DatabaseSync } = loaded as { readonly DatabaseSync: DatabaseSync }
    return { name, open: (file, { isReadOnly }) => new DatabaseSync(file, { readOnly: isReadOnly }) }
  } catch (cause) {
    throw new RepriseError('DRIVER_MISSING', `the SQLite driver ${name} cannot be loaded`, { driver: name }, cause)
  }
}

/** Node 22 warns when node:sqlite is loaded. That warning is dropped, and no other. */
function builtIn(name: string): unknown {
  const { emitWarning, getBuiltinModule } = process as unknown as {
    readonly emitWarning: (...args: readonly unknown[]) => void
    readonly getBuiltinModule?: (name: string) => unknown
  }
  if (!getBuiltinModule || !name.startsWith('node:')) return undefined
  const passOn = (...args: readonly unknown[]) => {
    if (!String(args[0]).startsWith('SQLite is an experimental feature')) emitWarning.call(process, ...args)
  }
  Object.assign(process, { emitWarning: passOn })
  try {
    return getBuiltinModule(name)
  } finally {
    Object.assign(process, { emitWarning })
  }
}

export function hasBuiltIn(nodeVersion: string): boolean {
  const [major = 0, minor = 0] = nodeVersion.split('.').map(Number)
  return major > 22 || (major === 22 && minor >= 13)
}
