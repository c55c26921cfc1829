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

async function execute<Row>(sql: Sql, compiled: CompiledQuery): Promise<QueryResult<Row>> {
  const { sql: text, parameters } = compiled
  const { verb, hasRows } = kindOf(compiled)
  if (hasRows) return { rows: (await sql.all(text, ...parameters)) as Row[] }
  const written = sql.run(text, ...parameters)
  // Before any await: a statement in between would have another last row.
  const last = sql.dialect === 'sqlite' && verb === 'insert' ? sql.get('SELECT last_insert_rowid() AS id') : null
  const [{ changes }, row] = await Promise.all([written, last])
  const numAffectedRows = BigInt(changes)
  if (!row) return { rows: [], numAffectedRows }
  return { rows: [], numAffectedRows, insertId: BigInt(row.id as number | bigint) }
}

interface Kind {
  readonly verb: string
  /** The statement returns rows, and not the number of rows that it wrote. */
  readonly hasRows: boolean
}

const nodes: Readonly<Record<string, string>> = {
  InsertQueryNode: 'insert',
  UpdateQueryNode: 'update',
  DeleteQueryNode: 'delete',
  MergeQueryNode: 'merge',
}

/** Kysely knows the kind of the statements that it builds. Text of the user (sql``) is read. */
function kindOf({ sql: text, query }: CompiledQuery): Kind {
  const verb = nodes[query.kind]
  if (verb) return { verb, hasRows: 'returning' in query && query.returning !== undefined }
  return query.kind === 'RawNode' ? kindOfText(text) : { verb: '', hasRows: true }
}

const notWords = /--[^\n]*|\/\*[\s\S]*?\*\/|'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|\$(\w*)\$[\s\S]*?\$\1\$/g
const innermost = /\([^()]*\)/g
const verbs = /\b(?:insert|update|delete|replace|merge|select|values|table)\b/i

/** Without comments, quoted pieces and parentheses, the first verb is that of the statement, also after WITH. */
function kindOfText(text: string): Kind {
  let words = text.replace(notWords, ' ')
  for (let before = ''; before !== words; ) [before, words] = [words, words.replace(innermost, ' ')]
  const isOther = !/^[\s;]*(?:with|insert|update|delete|replace|merge)\b/i.test(words)
  const verb = isOther ? '' : (verbs.exec(words)?.[0].toLowerCase() ?? '')
  const isWrite = ['insert', 'update', 'delete', 'replace', 'merge'].includes(verb)
  return { verb: verb === 'replace' ? 'insert' : verb, hasRows: !isWrite || /\breturning\b/i.test(words) }
}
