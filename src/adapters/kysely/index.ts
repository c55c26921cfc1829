// reprise/kysely: Kysely over the SQL of a commit (ctx.transaction, ctx.commit, handlers with SQL). Kysely writes the
// statements; the store runs them in its transaction, with the checks of all user SQL. See docs/guides/within.md.

import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely'
import type { Sql } from '../../core/store/ports.ts'
import { sqlDialect, transactionInside } from '../../core/store/sql-client.ts'

const writes = /^\s*(?:insert|update|delete|replace|merge)\b(?![\s\S]*\breturning\b)/i
const inserts = /^\s*(?:insert|replace)\b/i

/**
 * @example await ctx.transaction('order', async (sql) => {
 *   await kysely<Database>(sql).insertInto('orders').values(order).execute()
 * })
 */
export function kysely<Database>(sql: Sql): Kysely<Database> {
  const isPostgres = sqlDialect(sql, 'kysely') === 'postgres'
  const dialect: Dialect = {
    createAdapter: () => (isPostgres ? new PostgresAdapter() : new SqliteAdapter()),
    createQueryCompiler: () => (isPostgres ? new PostgresQueryCompiler() : new SqliteQueryCompiler()),
    createIntrospector: (db) => (isPostgres ? new PostgresIntrospector(db) : new SqliteIntrospector(db)),
    createDriver: () => driver(sql),
  }
  return new Kysely<Database>({ dialect })
}

/** One connection, the commit's, which Kysely neither opens nor closes. */
function driver(sql: Sql): Driver {
  const connection: DatabaseConnection = {
    executeQuery: async <Row>(query: CompiledQuery) => await execute<Row>(sql, query),
    async *streamQuery<Row>(query: CompiledQuery) {
      yield await execute<Row>(sql, query)
    },
  }
  const nothing = async () => undefined
  const refuse = async () => {
    throw transactionInside('Kysely')
  }
  return {
    init: nothing,
    acquireConnection: async () => connection,
    beginTransaction: refuse,
    commitTransaction: refuse,
    rollbackTransaction: refuse,
    releaseConnection: nothing,
    destroy: nothing,
  }
}

async function execute<Row>(sql: Sql, { sql: text, parameters }: CompiledQuery): Promise<QueryResult<Row>> {
  if (!writes.test(text)) return { rows: (await sql.all(text, ...parameters)) as Row[] }
  const written = sql.run(text, ...parameters)
  // Before any await: a statement in between would have another last row.
  const last = sql.dialect === 'sqlite' && inserts.test(text) ? sql.get('SELECT last_insert_rowid() AS id') : null
  const [{ changes }, row] = await Promise.all([written, last])
  const numAffectedRows = BigInt(changes)
  if (!row) return { rows: [], numAffectedRows }
  return { rows: [], numAffectedRows, insertId: BigInt(row.id as number | bigint) }
}
