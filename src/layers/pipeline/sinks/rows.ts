// Rows in the user's own tables, written in the very commit of the checkpoint: both exist or neither does. Each result is
// therefore written exactly once, on SQLite and PostgreSQL, whatever happens to the process.

import { RepriseError } from '../../../core/errors.ts'
import type { PipelineKey } from '../../../core/key-groups.ts'
import { checkGivenOptions } from '../../../core/options.ts'
import type { Sql } from '../../../core/store/ports.ts'
import { checkFunctions, refuseThenable } from '../../../core/synchronous.ts'
import { brief } from '../../../engine/model/journal-row.ts'
import type { Batch } from '../batch.ts'
import { type Sink, type SinkWriter, Waiting } from '../sink.ts'

export interface SqlSinkOptions<T> {
  /** Creates the tables. It runs at the start of each run, so use IF NOT EXISTS. */
  readonly setup?: string | ((sql: Sql) => Promise<unknown> | unknown)
  /** Writes the results of one checkpoint. It is called again with the same results if the commit failed. */
  write(sql: Sql, values: readonly T[]): Promise<unknown> | unknown
}

/** @example sqlSink<Total>({ write: async (sql, totals) => { for (const t of totals) await sql.run('…', t.key) } }) */
export function sqlSink<T>(options: SqlSinkOptions<T>): Sink<T> {
  checkGivenOptions('sqlSink', options, new Set(['setup', 'write']))
  checkFunctions('sqlSink', options, ['write'], typeof options.setup === 'string' ? [] : ['setup'])
  const { setup } = options
  return {
    ...(setup !== undefined && { setup: (sql: Sql) => (typeof setup === 'string' ? sql.run(setup) : setup(sql)) }),
    open: async () => new SqlWriter<T>((sql, values) => options.write(sql, values), valuesOf<T>),
  }
}

export interface RowsOptions<T> {
  readonly table: string
  /** The columns of a result. `key`: the key of its stream, or null. */
  row(value: T, key: PipelineKey | null): Readonly<Record<string, unknown>>
  /** Columns that identify a row: an existing row is replaced. Default: every result is a new row. */
  readonly key?: readonly string[]
  /** Whether a result deletes the row with the `key` columns of `row`. Default: tombstones (null). */
  deletes?(value: T): boolean
  /** Creates the table. It runs at the start of each run, so use IF NOT EXISTS. */
  readonly setup?: string
}

/** The maximum number of values in one statement: PostgreSQL and SQLite allow more. */
const valuesPerStatement = 900
/** The maximum number of values in a DELETE: its conditions are one expression, whose depth SQLite limits. */
const valuesPerDelete = 200

/** @example rowSink<Total>({ table: 'totals', row: (t) => ({ customer: t.key, cents: t.value }) }) */
export function rowSink<T>(options: RowsOptions<T>): Sink<T> {
  checkGivenOptions('rowSink', options, new Set(['table', 'row', 'key', 'deletes', 'setup']))
  checkFunctions('rowSink', options, ['row'], ['deletes'])
  const { table, key = [], setup } = options
  for (const name of [table, ...key]) checkIdentifier(name)
  if (options.deletes && key.length === 0) {
    throw new RepriseError('INVALID_ARGUMENT', 'rowSink: deletes needs `key`, the columns that identify a row')
  }
  const write = async (sql: Sql, results: readonly Result<T>[]) => {
    const groups = groupsOf(results, options)
    const storedName = await namesOf(sql, table, [...key, ...groups.flatMap(({ columns }) => columns)])
    for (const group of groups) {
      if (group.isDeleted) await remove(sql, table, group, storedName)
      else await insert(sql, table, key, group, storedName)
    }
  }
  return {
    ...(setup !== undefined && { setup: (sql: Sql) => sql.run(setup) }),
    open: async () => new SqlWriter<Result<T>>(write, resultsOf<T>),
  }
}

interface Result<T> {
  readonly value: T
  readonly key: PipelineKey | null
}

function resultsOf<T>({ values, keys }: Batch): Result<T>[] {
  return values.map((value, i) => ({ value: value as T, key: keys?.[i] ?? null }))
}

function valuesOf<T>({ values }: Batch): readonly T[] {
  return values as readonly T[]
}

/**
 * PostgreSQL stores an unquoted name in lower case. A name with capitals is used as it is if the database has it, and in lower
 * case otherwise, so that the same `setup` works on SQLite and PostgreSQL.
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
  readonly isDeleted: boolean
  readonly columns: readonly string[]
  readonly rows: (readonly unknown[])[]
}

/** Groups neighbours with the same columns into one statement. A repeated key starts a new group: the later row is kept. */
function groupsOf<T>(results: readonly Result<T>[], options: RowsOptions<T>): Group[] {
  const { key = [] } = options
  const groups: Group[] = []
  let seen = new Set<string>()
  for (const result of results) {
    const { given, isDeleted } = rowOf(result, options)
    const columns = isDeleted ? key : Object.keys(given)
    if (isDeleted) checkKeyOf(given, key)
    const own = key.length > 0 ? JSON.stringify(key.map((name) => String(given[name]))) : null
    const last = groups.at(-1)
    const isSame =
      last?.isDeleted === isDeleted &&
      last.columns.length === columns.length &&
      columns.every((name, i) => last.columns[i] === name)
    const valuesMax = isDeleted ? valuesPerDelete : valuesPerStatement
    const hasRoom = last && (last.rows.length + 1) * columns.length <= valuesMax
    if (isSame && hasRoom && !(own !== null && seen.has(own))) last.rows.push(columns.map((name) => given[name]))
    else {
      columns.forEach(checkIdentifier)
      groups.push({ isDeleted, columns, rows: [columns.map((name) => given[name])] })
      seen = new Set()
    }
    if (own !== null) seen.add(own)
  }
  return groups
}

/** A result without a row ends the run: a sink has no dead letters, since its results are those of a checkpoint. */
function rowOf<T>({ value, key: of }: Result<T>, options: RowsOptions<T>) {
  const { table, key = [] } = options
  try {
    const given = options.row(value, of)
    refuseThenable(given, 'row of rowSink()', 'use call() before the sink')
    return { given, isDeleted: key.length > 0 && (options.deletes?.(value) ?? value === null) }
  } catch (error) {
    if (error instanceof RepriseError) throw error
    const text = error instanceof Error ? error.message : String(error)
    const what = `row of rowSink({ table: '${table}' }) failed for ${brief(value)}: ${text}`
    const hint =
      'Fix the function, or map the results before the sink: a record on which map() throws is a dead letter.'
    throw new RepriseError('INVALID_ARGUMENT', what, { table }, error, hint)
  }
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

async function remove(
  sql: Sql,
  table: string,
  { columns, rows: all }: Group,
  storedName: (name: string) => string,
): Promise<void> {
  const one = `(${columns.map((name) => `"${storedName(name)}" = ?`).join(' AND ')})`
  await sql.run(`DELETE FROM "${storedName(table)}" WHERE ${all.map(() => one).join(' OR ')}`, ...all.flat())
}

function checkKeyOf(given: Readonly<Record<string, unknown>>, key: readonly string[]): void {
  const missing = key.find((name) => given[name] === undefined || given[name] === null)
  if (missing === undefined) return
  const what = `row of rowSink() must return the key column ${missing} for a result that deletes its row`
  throw new RepriseError('INVALID_ARGUMENT', what, { column: missing })
}

function checkIdentifier(name: string): void {
  if (/^[A-Za-z_][A-Za-z0-9_]{0,62}$/.test(name)) return
  const what = `the name of a table or column must be letters, digits and underscores (got ${JSON.stringify(name).slice(0, 80)})`
  throw new RepriseError('INVALID_ARGUMENT', what)
}

class SqlWriter<T> implements SinkWriter {
  readonly #write: (sql: Sql, values: readonly T[]) => unknown
  readonly #taken: (batch: Batch) => readonly T[]
  readonly #waiting = new Waiting<T>()

  constructor(write: (sql: Sql, values: readonly T[]) => unknown, taken: (batch: Batch) => readonly T[]) {
    this.#write = write
    this.#taken = taken
  }

  get pending(): number {
    return this.#waiting.count
  }

  write(batch: Batch): void {
    this.#waiting.add(this.#taken(batch))
  }

  cut() {
    this.#waiting.cut()
    return async () => null
  }

  async apply(sql: Sql): Promise<void> {
    if (this.#waiting.cutValues.length > 0) await this.#write(sql, this.#waiting.cutValues)
  }

  async commit(): Promise<void> {
    this.#waiting.settle()
  }

  rejoin(): void {
    this.#waiting.rejoin()
  }

  async close(): Promise<void> {}
}
