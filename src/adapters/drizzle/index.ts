// reprise/drizzle: Drizzle over the SQL of a commit (ctx.transaction, ctx.commit, handlers with SQL), through Drizzle's own
// proxy drivers. Drizzle writes the statements and maps the values; the store runs the statements in its transaction, with the
// checks of all user SQL. See docs/guides/within.md.

import type { DrizzleConfig } from 'drizzle-orm'
import { drizzle as drizzlePostgres, type PgRemoteDatabase, type RemoteCallback } from 'drizzle-orm/pg-proxy'
import {
  type AsyncBatchRemoteCallback,
  type AsyncRemoteCallback,
  drizzle as drizzleSqlite,
  type SqliteRemoteDatabase,
} from 'drizzle-orm/sqlite-proxy'
import { RepriseError } from '../../core/errors.ts'
import type { Sql } from '../../core/store/ports.ts'
import { sqlDialect, transactionInside } from '../../core/store/sql-client.ts'

/**
 * Pass `dialect: 'sqlite'` for a SQLite store: Drizzle's tables and types differ by database.
 * @example await ctx.transaction('order', async (sql) => {
 *   await drizzle(sql).insert(orders).values(order)
 * })
 */
export function drizzle<S extends Record<string, unknown> = Record<string, never>>(
  sql: Sql,
  config?: DrizzleConfig<S> & { readonly dialect?: 'postgres' },
): PgRemoteDatabase<S>
export function drizzle<S extends Record<string, unknown> = Record<string, never>>(
  sql: Sql,
  config: DrizzleConfig<S> & { readonly dialect: 'sqlite' },
): SqliteRemoteDatabase<S>
export function drizzle<S extends Record<string, unknown>>(
  sql: Sql,
  { dialect = 'postgres', ...config }: DrizzleConfig<S> & { readonly dialect?: 'postgres' | 'sqlite' } = {},
): PgRemoteDatabase<S> | SqliteRemoteDatabase<S> {
  const own = sqlDialect(sql, 'drizzle')
  if (own !== dialect) {
    const what = `the store is in ${own}: pass { dialect: '${own}' } to drizzle(), and tables for that database`
    throw new RepriseError('INVALID_ARGUMENT', what, { dialect, store: own })
  }
  const db = dialect === 'postgres' ? postgres(sql, config) : sqlite(sql, config)
  const transaction = async () => {
    throw transactionInside('Drizzle')
  }
  return Object.assign(db, { transaction })
}

function postgres<S extends Record<string, unknown>>(sql: Sql, config: DrizzleConfig<S>): PgRemoteDatabase<S> {
  const call: RemoteCallback = async (text, values, method) => ({
    rows: method === 'all' ? await sql.rows(text, ...values) : await sql.all(text, ...values),
  })
  return drizzlePostgres(call, config)
}

function sqlite<S extends Record<string, unknown>>(sql: Sql, config: DrizzleConfig<S>): SqliteRemoteDatabase<S> {
  const call: AsyncRemoteCallback = async (text, values, method) => {
    if (method === 'run') {
      await sql.run(text, ...values)
      return { rows: [] }
    }
    const rows = await sql.rows(text, ...values)
    // Drizzle reads one row here, although its type has a list of rows.
    return { rows: method === 'get' ? (rows[0] as unknown[]) : rows }
  }
  const callEach: AsyncBatchRemoteCallback = async (batch) => {
    const results: Awaited<ReturnType<typeof call>>[] = []
    for (const statement of batch) results.push(await call(statement.sql, statement.params, statement.method))
    return results
  }
  return drizzleSqlite(call, callEach, config)
}
