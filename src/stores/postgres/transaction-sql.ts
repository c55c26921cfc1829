// Sends the statements of the user's SQL to the server. The server itself ensures that they cannot end the commit's
// transaction:
// statements with rows and values go through PREPARE, whose grammar has SELECT, INSERT, UPDATE, DELETE, MERGE and
// VALUES and nothing else; all others go through EXECUTE in a function, which has no transaction control. Both accept
// one statement.
// Our own check of the first word only chooses between the two, and refuses the well-known ones with a better message.

import { RepriseError } from '../../core/errors.ts'
import type { Sql } from '../../core/store/ports.ts'
import { withStatement } from '../../core/store/sql-error.ts'
import type { Driver, DriverClient, DriverConnection, QueryConfig, QueryResult } from './driver.ts'
import { functionName, riderStatement } from './functions.ts'
import { refuseOwnTables } from './own-tables.ts'
import { toNumbered } from './placeholder.ts'
import { toParameters } from './user-values.ts'

const lead = /^(?:\s|;|\(|--[^\n]*(?:\n|$)|\/\*[\s\S]*?(?:\*\/|$))+/
const control =
  /^(BEGIN|START|COMMIT|END|ROLLBACK|ABORT|SAVEPOINT|RELEASE|PREPARE|EXECUTE|DEALLOCATE|DECLARE|FETCH|MOVE|CLOSE|LISTEN|UNLISTEN|DISCARD|RESET|LOAD|COPY|SET(?!\s+(?:LOCAL|CONSTRAINTS)\b))\b/i
const preparable = /^(SELECT|INSERT|UPDATE|DELETE|MERGE|VALUES|WITH|TABLE)\b/i
const withRows = /^(EXPLAIN|SHOW)\b/i

export interface TransactionSqlPort {
  readonly client: DriverClient
  readonly driver: Driver
  /** The schema of our functions. */
  readonly schema: string
  isOver(): boolean
  /** Called with every failed statement. */
  onFailure(error: unknown): void
}

export function transactionSql(port: TransactionSqlPort): Sql {
  let failed: unknown = null
  const query = async (text: string, values: readonly unknown[], form: Form = {}): Promise<QueryResult> => {
    if (port.isOver()) throw new RepriseError('CLOSED', 'the commit of this SQL has ended: await every call inside it')
    const first = text.replace(lead, '')
    const word = control.exec(first)?.[1]
    if (word)
      throw refused(
        `${word.toUpperCase()} cannot run inside a commit: its transaction and its connection belong to the store`,
      )
    refuseOwnTables(text, port.schema)
    const isPreparable = preparable.test(first)
    if (!isPreparable && values.length > 0) {
      throw refused('only SELECT, INSERT, UPDATE, DELETE, MERGE and VALUES take values')
    }
    const parameters = toParameters(values)
    try {
      if (!isPreparable) return await runOther(port, text, withRows.test(first), form)
      const numbered = toNumbered(text, values.length > 0)
      return await runPrepared(port, { ...form, text: numbered, values: parameters })
    } catch (error) {
      if (failed !== null && (error as { code?: unknown }).code === '25P02') throw endedBy(failed)
      port.onFailure(error)
      const failure = isSeveral(error) ? refused('only one statement per call') : withStatement(error, text)
      failed ??= failure
      throw failure
    }
  }
  return {
    dialect: 'postgres',
    run: async (text, ...values) => ({ changes: (await query(text, values)).rowCount ?? 0 }),
    all: async (text, ...values) => (await query(text, values)).rows,
    get: async (text, ...values) => (await query(text, values)).rows[0],
    rows: async (text, ...values) => (await query(text, values, lists(port.driver))).rows as unknown as unknown[][],
  }
}

type Form = Pick<QueryConfig, 'rowMode' | 'types'>

/** date, timestamp, timestamptz, interval, lists of them and of numeric: the driver's parsers lose digits or the time zone. */
const kept = new Set([1082, 1114, 1184, 1186, 1182, 1115, 1185, 1187, 1231])

/** Rows as lists. Types whose parsers lose digits or the time zone stay text. */
function lists({ types }: Driver): Form {
  const getTypeParser: typeof types.getTypeParser = (oid, format) =>
    kept.has(oid) ? (value) => value : types.getTypeParser(oid, format)
  return { rowMode: 'array', types: { getTypeParser } }
}

const prefix = `PREPARE ${riderStatement} AS `

/**
 * One round trip: PREPARE, and the prepared statement. SQL's PREPARE and the protocol's share their names. A statement
 * that an error left behind is closed first.
 */
function runPrepared(
  { client, driver }: TransactionSqlPort,
  statement: Omit<QueryConfig, 'name'>,
): Promise<QueryResult> {
  const { text } = statement
  const query = new driver.Query({ ...statement, name: riderStatement })
  const submit = query.submit.bind(query)
  let used: DriverConnection | undefined
  query.submit = (connection) => {
    used = connection
    connection.stream.cork?.()
    try {
      connection.close({ type: 'S', name: riderStatement })
      connection.parse({ name: '', text: prefix + text })
      connection.bind({})
      connection.execute({})
      // The driver then considers the statement parsed.
      connection.parsedStatements[riderStatement] = text
      return submit(connection)
    } finally {
      connection.stream.uncork?.()
    }
  }
  return new Promise((resolve, reject) => {
    query.callback = (error, result) => {
      if (used) delete used.parsedStatements[riderStatement]
      if (error) reject(withoutPrefix(error))
      else resolve((Array.isArray(result) ? result.at(-1) : result)!)
    }
    client.query(query)
  })
}

/** The server parses it first, and accepts one statement only; it runs inside a function of ours. */
async function runOther(
  { client, schema }: TransactionSqlPort,
  text: string,
  hasRows: boolean,
  form: Form,
): Promise<QueryResult> {
  await parseOnly(client, text)
  const name = functionName(schema, hasRows ? 'rider_open' : 'rider_run')
  const { rows } = await client.query({ text: `SELECT ${name}($1) AS answer`, values: [text] })
  const { answer } = rows[0] as { answer: string }
  if (!hasRows) return { rows: [], rowCount: Number(answer), command: '' }
  return await client.query({ ...form, text: `FETCH ALL FROM "${answer.replaceAll('"', '""')}"` })
}

function parseOnly(client: DriverClient, text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const noResult = () => undefined
    client.query({
      callback: (error: unknown) => (error ? reject(error) : resolve()),
      submit(connection: DriverConnection) {
        connection.stream.cork?.()
        connection.parse({ name: '', text })
        connection.sync()
        connection.stream.uncork?.()
        return null
      },
      handleReadyForQuery() {
        this.callback(null)
      },
      handleError(error: unknown) {
        this.callback(error)
      },
      handleRowDescription: noResult,
      handleCommandComplete: noResult,
      handleEmptyQuery: noResult,
    } as Parsing)
  })
}

type Parsing = {
  callback: (error: unknown) => void
  submit(connection: DriverConnection): null
  [handler: `handle${string}`]: (value: never) => void
}

/** The server counts from the start of the text it received. */
function withoutPrefix(error: unknown): unknown {
  const { position } = error as { position?: string }
  if (position !== undefined) Object.assign(error as object, { position: String(Number(position) - prefix.length) })
  return error
}

/** The routine of the server is named in every language; the message is translated. */
function isSeveral(error: unknown): boolean {
  const { code, routine } = (error ?? {}) as { readonly code?: unknown; readonly routine?: unknown }
  return code === '42601' && routine === 'exec_parse_message'
}

/** The server refuses every statement after a failed one. The code is that of the first: retries depend on it. */
function endedBy(first: unknown): Error {
  const { message, code } = first as { readonly message?: unknown; readonly code?: unknown }
  const what = `an earlier statement failed, which ends the transaction of the commit in PostgreSQL: ${message}`
  return Object.assign(new Error(what, { cause: first }), { code })
}

function refused(message: string): RepriseError {
  return new RepriseError('SQL_REFUSED', message)
}
