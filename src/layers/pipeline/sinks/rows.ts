// Rows in the user's own tables, in the very commit of the checkpoint: both are there or neither is. So each result is there
// exactly once, on SQLite and PostgreSQL, whatever happens to the process.

import { RepriseError } from '../../../core/errors.ts'
import { checkOptions } from '../../../core/options.ts'
import type { Sql } from '../../../core/store/ports.ts'
import { refuseThenable } from '../../../core/synchronous.ts'
import type { Batch } from '../batch.ts'
import { type Sink, type SinkWriter, Waiting } from '../sink.ts'

export interface SqlSinkOptions<T> {
  /** Makes the tables. Run when a run begins, so it must say IF NOT EXISTS. */
  readonly setup?: string | ((sql: Sql) => Promise<unknown> | unknown)
  /** Writes the results of one checkpoint. It may be called again for the same ones if the commit did not go through. */
  write(sql: Sql, values: readonly T[]): Promise<unknown> | unknown
}

/** @example sqlSink<Total>({ write: async (sql, totals) => { for (const t of totals) await sql.run('…', t.key) } }) */
export function sqlSink<T>(options: SqlSinkOptions<T>): Sink<T> {
  checkOptions('sqlSink', options, new Set(['setup', 'write']))
  const { setup } = options
  return {
    ...(setup !== undefined && { setup: (sql: Sql) => (typeof setup === 'string' ? sql.run(setup) : setup(sql)) }),
    open: async () => new SqlWriter<T>(options),
  }
}

export interface RowsOptions<T> {
  readonly table: string
  /** The columns of a result. */
  row(value: T): Readonly<Record<string, unknown>>
  /** Columns that identify a row: one that is there already is replaced. Left out: every result is a new row. */
  readonly key?: readonly string[]
  /** Makes the table. Run when a run begins, so it must say IF NOT EXISTS. */
  readonly setup?: string
}

/** Values that one statement takes: PostgreSQL and SQLite allow more. */
const valuesPerStatement = 900

/** @example rows<Total>({ table: 'totals', row: (t) => ({ customer: t.key, cents: t.value }) }) */
export function rows<T>(options: RowsOptions<T>): Sink<T> {
  checkOptions('rows', options, new Set(['table', 'row', 'key', 'setup']))
  const { table, key = [] } = options
  for (const name of [table, ...key]) checkIdentifier(name)
  return sqlSink<T>({
    ...(options.setup !== undefined && { setup: options.setup }),
    async write(sql, values) {
      const groups = groupsOf(values, options)
      const storedName = await namesOf(sql, table, [...key, ...groups.flatMap(({ columns }) => columns)])
      for (const group of groups) await insert(sql, table, key, group, storedName)
    },
  })
}

/**
 * PostgreSQL stores a name that was not quoted in lower case. A name with capitals is taken as it is if the database has it,
 * and else in lower case, so that the same `setup` serves SQLite and PostgreSQL.
 */
async function namesOf(sql: Sql, table: string, columns: readonly string[]): Promise<(name: string) => string> {
  if (sql.dialect !== 'postgres' || ![table, ...columns].some((name) => /[A-Z]/.test(name))) return (name) => name
  const text = `SELECT c.relname AS "table", a.attname AS "column" FROM pg_catalog.pg_attribute a
    JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
    WHERE c.oid = coalesce(to_regclass(?), to_regclass(?)) AND a.attnum > 0 AND NOT a.attisdropped`
  const found = (await sql.all(text, `"${table}"`, `"${table.toLowerCase()}"`)) as { table: string; column: string }[]
  const known = new Set(found.flatMap((row) => [row.table, row.column]))
  return (name) => (known.has(name) || !known.has(name.toLowerCase()) ? name : name.toLowerCase())
}

interface Group {
  readonly columns: readonly string[]
  readonly rows: (readonly unknown[])[]
}

/** Neighbours with the same columns go in one statement. A key that comes twice is written in two: the later one wins. */
function groupsOf<T>(values: readonly T[], { row, key = [] }: RowsOptions<T>): Group[] {
  const groups: Group[] = []
  let seen = new Set<string>()
  for (const value of values) {
    const given = row(value)
    refuseThenable(given, 'row of rows()', 'use call() before the sink')
    const columns = Object.keys(given)
    const own = key.length > 0 ? JSON.stringify(key.map((name) => String(given[name]))) : null
    const last = groups.at(-1)
    const isSame =
      last && last.columns.length === columns.length && columns.every((name, i) => last.columns[i] === name)
    const hasRoom = last && (last.rows.length + 1) * columns.length <= valuesPerStatement
    if (isSame && hasRoom && !(own !== null && seen.has(own))) last.rows.push(columns.map((name) => given[name]))
    else {
      columns.forEach(checkIdentifier)
      groups.push({ columns, rows: [columns.map((name) => given[name])] })
      seen = new Set()
    }
    if (own !== null) seen.add(own)
  }
  return groups
}

async function insert(
  sql: Sql,
  table: string,
  key: readonly string[],
  { columns, rows: all }: Group,
  storedName: (name: string) => string,
): Promise<void> {
  const quote = (name: string) => `"${storedName(name)}"`
  const quoted = (names: readonly string[]) => names.map(quote).join(', ')
  const one = `(${columns.map(() => '?').join(', ')})`
  const others = columns.filter((name) => !key.includes(name))
  const replacing = others.map((name) => `${quote(name)} = excluded.${quote(name)}`).join(', ')
  const onConflict =
    key.length === 0
      ? ''
      : ` ON CONFLICT (${quoted(key)}) DO ${others.length > 0 ? `UPDATE SET ${replacing}` : 'NOTHING'}`
  const text = `INSERT INTO ${quote(table)} (${quoted(columns)}) VALUES ${all.map(() => one).join(', ')}${onConflict}`
  await sql.run(text, ...all.flat())
}

function checkIdentifier(name: string): void {
  if (/^[A-Za-z_][A-Za-z0-9_]{0,62}$/.test(name)) return
  const what = `the name of a table or column must be letters, digits and underscores (got ${JSON.stringify(name).slice(0, 80)})`
  throw new RepriseError('INVALID_ARGUMENT', what)
}

class SqlWriter<T> implements SinkWriter {
  readonly #options: SqlSinkOptions<T>
  readonly #waiting = new Waiting<T>()

  constructor(options: SqlSinkOptions<T>) {
    this.#options = options
  }

  get pending(): number {
    return this.#waiting.count
  }

  write(batch: Batch): void {
    this.#waiting.add(batch.values)
  }

  cut() {
    this.#waiting.cut()
    return async () => null
  }

  async apply(sql: Sql): Promise<void> {
    if (this.#waiting.cutValues.length > 0) await this.#options.write(sql, this.#waiting.cutValues)
  }

  async commit(): Promise<void> {
    this.#waiting.settle()
  }

  rejoin(): void {
    this.#waiting.rejoin()
  }

  async close(): Promise<void> {}
}
