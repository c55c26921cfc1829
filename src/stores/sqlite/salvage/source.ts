// A damaged file as tables: which there are, where their trees begin, and the rows that can still be read. Nothing is believed
// here beyond the shape of a row.

import type { Connection } from '../connection.ts'
import type { SqlRow, SqlValue } from '../driver.ts'
import { damaged } from '../failure.ts'
import { layoutOf, type SchemaObject } from './layout.ts'
import type { PageFile } from './pages.ts'
import { type RawRow, rowsOf } from './trees.ts'

const schemaRoot = 1

export class DamagedFile {
  readonly objects: readonly SchemaObject[]
  readonly #file: PageFile
  readonly #fresh: Connection
  readonly #isIncomplete: boolean
  readonly #bad = new Map<string, Set<number>>()

  /** `fresh` is a new file with our tables in it: it tells their columns, and where their trees begin if this one does not. */
  constructor(file: PageFile, fresh: Connection) {
    this.#file = file
    this.#fresh = fresh
    const found = [...rowsOf(file, schemaRoot, this.#badOf('schema'))].flatMap(toObject)
    this.#isIncomplete = this.#isSchemaDamaged(found)
    this.objects = this.#isIncomplete ? this.#complete(found) : found
  }

  /** By the name of the table or index: the pages of it that cannot be read, or not wholly. */
  get badPages(): ReadonlyMap<string, ReadonlySet<number>> {
    return this.#bad
  }

  isBad(name: string): boolean {
    return (this.#bad.get(name)?.size ?? 0) > 0
  }

  /** Rows of one of our tables, by their columns. Those of another shape are passed over. */
  *rows(table: string): Generator<SqlRow> {
    const columns = this.columnsOf(table)
    for (const { rowid, values } of this.raw(table)) {
      if (values.length !== columns.length) continue
      const row: SqlRow = {}
      for (const [i, column] of columns.entries()) row[column] = values[i]!
      // The first column of each of our tables with row ids is the row id, which lies elsewhere.
      if (rowid !== null) row[columns[0]!] = rowid
      yield row
    }
  }

  *raw(name: string): Generator<RawRow> {
    const object = this.objects.find((each) => each.name === name)
    if (object && object.root > 0) yield* rowsOf(this.#file, object.root, this.#badOf(name))
  }

  columnsOf(table: string): string[] {
    return this.#fresh.all(`PRAGMA table_info(${table})`).map(({ name }) => String(name))
  }

  /** Rows of a tree of which only the root is known. */
  *tree(root: number): Generator<RawRow> {
    yield* rowsOf(this.#file, root, this.#badOf(`the tree at page ${root}`))
  }

  /** Trees whose line in the list of tables is lost. */
  unknownTrees(): number[] {
    if (!this.#isIncomplete) return []
    const known = new Set(this.objects.map(({ root }) => root))
    return this.#file.roots().filter((root) => !known.has(root))
  }

  #badOf(name: string): Set<number> {
    const known = this.#bad.get(name) ?? new Set<number>()
    this.#bad.set(name, known)
    return known
  }

  #isSchemaDamaged(found: readonly SchemaObject[]): boolean {
    return this.isBad('schema') || this.#ours().some(({ name }) => !found.some((each) => each.name === name))
  }

  #complete(found: readonly SchemaObject[]): SchemaObject[] {
    const ours = layoutOf(this.#file, this.#ours(), found)
    if (!ours) {
      const what =
        'the list of tables is damaged, and your own tables were made before an older release added its last: restore a backup'
      throw damaged(what, { tables: found.length })
    }
    const roots = new Set(this.#file.roots())
    const missing = ours.filter(({ name, root }) => !found.some((each) => each.name === name) && roots.has(root))
    return [...found, ...missing]
  }

  #ours(): SchemaObject[] {
    const sql = 'SELECT type, name, tbl_name, rootpage, sql FROM main.sqlite_schema ORDER BY rowid'
    return this.#fresh.all(sql).map(({ type, name, tbl_name, rootpage, sql: text }) => ({
      type: String(type),
      name: String(name),
      table: String(tbl_name),
      root: Number(rootpage),
      sql: text as string | null,
    }))
  }
}

function toObject({ values }: RawRow): SchemaObject[] {
  const [type, name, table, root, sql] = values as [SqlValue, SqlValue, SqlValue, SqlValue, SqlValue]
  const isShaped =
    ['table', 'index', 'view', 'trigger'].includes(type as string) &&
    typeof name === 'string' &&
    typeof table === 'string' &&
    Number.isSafeInteger(root ?? 0) &&
    (sql === null || typeof sql === 'string')
  if (!isShaped) return []
  return [{ type: type as string, name, table, root: Number(root ?? 0), sql: sql as string | null }]
}

/** Ours; the rest of the file belongs to whoever uses it. */
export function isOurs({ table, name }: SchemaObject): boolean {
  return table.startsWith('reprise_') || name.startsWith('reprise_')
}
