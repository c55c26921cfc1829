// The clients with which applications hold a transaction, recognised by their shape: nothing is imported, so none of them is a
// dependency. Each becomes one method. An unknown client is passed in that form: an object with `dialect` and `query`.

import { RepriseError } from '../../core/errors.ts'
import { runtime } from '../../lib/runtime/index.ts'

type Dialect = 'postgres' | 'sqlite'
type Rows = readonly Readonly<Record<string, unknown>>[]

/** A transaction of the application. */
export interface TransactionClient {
  /** The database that it speaks to. */
  readonly dialect: 'postgres' | 'sqlite'
  /** Runs one statement inside the transaction; values are bound to $1, $2, … (PostgreSQL) or ? (SQLite). Returns its rows. */
  query(text: string, values: readonly unknown[]): Promise<readonly Readonly<Record<string, unknown>>[]>
}

type Call = (name: string, ...values: readonly unknown[]) => unknown
type Shape = Readonly<Record<string, unknown>>

/** Throws INVALID_ARGUMENT if the value is not a transaction. */
export function clientOf(given: unknown, dialect: Dialect): TransactionClient {
  const query = queryOf(given, dialect)
  if (query === null) {
    const what =
      'within(rp, tx) needs the transaction of a known client (pg, postgres.js, Drizzle, Kysely, Knex, Prisma, TypeORM, ' +
      'node:sqlite), or an object with dialect and query(text, values)'
    throw new RepriseError('INVALID_ARGUMENT', what, { given: given === null ? 'null' : typeof given })
  }
  return { dialect, query: async (text, values) => rowsOf(await query(text, values)) }
}

type Query = (text: string, values: readonly unknown[]) => unknown

function queryOf(given: unknown, dialect: Dialect): Query | null {
  if ((typeof given !== 'object' && typeof given !== 'function') || given === null) return null
  const tx = given as Shape
  const has = (...names: readonly string[]) => names.every((name) => typeof tx[name] === 'function')
  const call = (name: string, ...values: readonly unknown[]) => Reflect.apply(tx[name] as () => unknown, given, values)

  // A client of the application's own.
  if ((tx.dialect === 'postgres' || tx.dialect === 'sqlite') && has('query')) {
    if (tx.dialect !== dialect) throw otherDialect(tx.dialect, dialect)
    return (text, values) => call('query', text, values)
  }
  if (has('$queryRawUnsafe')) return prisma(tx, call)
  if (has('executeQuery', 'selectFrom')) return kysely(tx, call)
  if (has('raw') && 'isTransaction' in tx) return knex(tx, call)
  if (typeof given === 'function' && has('unsafe')) return postgresJs(call, has('savepoint'))
  const session = drizzleSession(tx)
  if (session) return drizzle(session, has('rollback'), dialect)
  if (has('prepare', 'exec')) return sqlite(tx, call, dialect)
  // TypeORM: a QueryRunner, or the EntityManager of a transaction.
  if (has('query') && ('isTransactionActive' in tx || 'queryRunner' in tx)) return typeOrm(tx, call)
  if (has('query', 'connect')) return nodePostgres(tx, call)
  return null
}

function nodePostgres(tx: Shape, call: Call): Query {
  if ('totalCount' in tx) throw noTransaction('a Pool of pg runs each statement on any connection: use its client')
  return (text, values) => call('query', text, values)
}

function postgresJs(call: Call, isTransaction: boolean): Query {
  if (!isTransaction) throw noTransaction('postgres.js: pass the sql that begin() passes to its function')
  return (text, values) => call('unsafe', text, values)
}

/** A client inside a transaction lacks $connect in every version; since Prisma 7 it has $transaction, for savepoints. */
function prisma(tx: Shape, call: Call): Query {
  if (typeof tx.$connect === 'function')
    throw noTransaction('Prisma: pass the client that $transaction() passes to its function')
  return (text, values) => call('$queryRawUnsafe', text, ...values)
}

function kysely(tx: Shape, call: Call): Query {
  if (tx.isTransaction !== true)
    throw noTransaction('Kysely: pass the trx that transaction().execute() passes to its function')
  return (sql, parameters) => {
    const query = { kind: 'RawNode', sqlFragments: [sql], parameters: [] }
    return call('executeQuery', { sql, parameters, query, queryId: { queryId: 'reprise' } })
  }
}

/** Knex writes placeholders as ? for every database. The statements of the store bind each value once, in order. */
function knex(tx: Shape, call: Call): Query {
  if (tx.isTransaction !== true) throw noTransaction('Knex: pass the trx that transaction() passes to its function')
  const { driverName } = (tx.client ?? {}) as { readonly driverName?: unknown }
  if (driverName === 'better-sqlite3' || driverName === 'sqlite3') throw secondLibrary(driverName)
  return (text, values) => call('raw', text.replaceAll(/\$\d+/g, '?'), values)
}

function typeOrm(tx: Shape, call: Call): Query {
  const runner = (tx.queryRunner ?? tx) as Shape
  if (runner.isTransactionActive !== true)
    throw noTransaction('TypeORM: pass the manager that transaction() passes to its function')
  return (text, values) => call('query', text, values)
}

function drizzleSession(tx: Shape): Shape | null {
  const session = (tx._ as Shape | undefined)?.session ?? tx.session
  return typeof session === 'object' && session !== null && 'client' in session ? (session as Shape) : null
}

/** Drizzle is a layer over another client, which its session holds. */
function drizzle(session: Shape, isTransaction: boolean, dialect: Dialect): Query | null {
  if (!isTransaction) throw noTransaction('Drizzle: pass the tx that transaction() passes to its function')
  return queryOf(session.client, dialect)
}

interface Statement {
  all(...values: readonly unknown[]): unknown
}

/** The enlisting statement of each connection: it takes longer to prepare than to run. */
const prepared = new WeakMap<Shape, { readonly text: string; readonly statement: Statement }>()

function sqlite(tx: Shape, call: Call, dialect: Dialect): Query {
  if ('inTransaction' in tx) throw secondLibrary('better-sqlite3')
  if (dialect !== 'sqlite') throw otherDialect('sqlite', dialect)
  if (isOfOtherDriver(tx)) throw secondLibrary('@photostructure/sqlite')
  if (tx.isTransaction === false) throw noTransaction('SQLite: no transaction is open')
  return (text, values) => {
    const known = prepared.get(tx)
    const statement = known?.text === text ? known.statement : (call('prepare', text) as Statement)
    if (statement !== known?.statement) prepared.set(tx, { text, statement })
    return statement.all(...values)
  }
}

/** The store uses node:sqlite where the runtime has it; the other driver has a class of the same name. */
function isOfOtherDriver(tx: Shape): boolean {
  const { DatabaseSync } = (runtime.files?.sqlite() ?? {}) as { readonly DatabaseSync?: new () => unknown }
  if (DatabaseSync === undefined || tx instanceof DatabaseSync) return false
  return (tx.constructor as { readonly name?: unknown } | undefined)?.name === DatabaseSync.name
}

function rowsOf(result: unknown): Rows {
  if (Array.isArray(result)) return result as Rows
  return ((result as { readonly rows?: Rows } | null)?.rows ?? []) as Rows
}

function noTransaction(what: string): RepriseError {
  return new RepriseError('INVALID_ARGUMENT', `within(rp, tx) needs an open transaction. ${what}`)
}

/** Locks of a file belong to a process: two copies of SQLite in one process do not see each other's, and can damage the file. */
function secondLibrary(name: string): RepriseError {
  const what = `${name} loads a second copy of SQLite into the process of the store, whose locks it does not see`
  return new RepriseError(
    'INVALID_ARGUMENT',
    `${what}: use the driver of the store (node:sqlite), or write SQL from another process`,
  )
}

function otherDialect(given: Dialect, dialect: Dialect): RepriseError {
  const what = `the transaction is in ${given}, and the store in ${dialect}: the two cannot commit together`
  return new RepriseError('OTHER_DATABASE', what, { given, dialect })
}
