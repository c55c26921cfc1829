// Queries of the user's own tables: in a read-only transaction, through a cursor, which accepts only a query and
// returns no more rows than requested. The server ends a query that takes too long. The transaction is always rolled
// back, and with it any setting of the query.

import { RepriseError } from '../../core/errors.ts'
import { checkReads, refusedByDatabase, type SqlQuery, textOf, tookTooLong, tooManyRows } from '../../core/store/sql.ts'
import { withStatement } from '../../core/store/sql-error.ts'
import type { Connections } from './connect.ts'
import type { DriverClient } from './driver.ts'
import { isConnectionLoss, isRetryable } from './failure.ts'
import { refuseOwnTables } from './own-tables.ts'
import { toNumbered } from './placeholder.ts'
import { toParameters } from './user-values.ts'

type Rows = Record<string, unknown>[]

const cursor = 'reprise_query'
/** The server stops first; the client waits a little longer for its answer. */
const graceMs = 500

export async function queryUser(connections: Connections, schema: string, query: SqlQuery): Promise<Rows> {
  const [text, isTemplate] = [textOf(query, (number) => `$${number}`), query.parts.length > 1]
  checkReads(text)
  refuseOwnTables(text, schema)
  const numbered = isTemplate ? text : toNumbered(text, query.values.length > 0)
  const answer = await connections.use('a query', 'safe', async (client, spend) => {
    try {
      return await fetch(client, numbered, query)
    } catch (error) {
      // Connection errors are handled by the caller; all others concern the query.
      if (isConnectionLoss(error) || isRetryable(error)) throw error
      return failureOf(error, query, text)
    } finally {
      await client.query({ text: 'ROLLBACK; SELECT pg_advisory_unlock_all()' }).catch(spend)
    }
  })
  if (answer instanceof RepriseError) throw answer
  return answer
}

async function fetch(client: DriverClient, text: string, query: SqlQuery): Promise<Rows> {
  const { values, rowsMax, timeoutMs } = query
  const parameters = toParameters(values)
  await client.query({ text: `BEGIN READ ONLY; SET LOCAL statement_timeout = ${Math.ceil(timeoutMs)}` })
  // The extended protocol accepts one statement: without values the driver would use the simple one, which accepts
  // several.
  const declare = { text: `DECLARE ${cursor} NO SCROLL CURSOR FOR ${text}`, values: parameters }
  // The connection's own limit is for our statements, which are short.
  const query_timeout = Math.ceil(timeoutMs) + graceMs
  await client.query({ ...declare, queryMode: 'extended', query_timeout })
  const { rows } = await client.query({ text: `FETCH FORWARD ${rowsMax + 1} FROM ${cursor}`, query_timeout })
  if (rows.length > rowsMax) throw tooManyRows(query)
  return rows
}

function failureOf(error: unknown, query: SqlQuery, text: string): RepriseError {
  if (error instanceof RepriseError) return error
  const { code } = error as { readonly code?: unknown }
  return code === '57014' ? tookTooLong(query) : refusedByDatabase(withStatement(error, text))
}
