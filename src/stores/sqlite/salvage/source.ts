// A damaged file as tables: their names, the roots of their trees, and the readable rows. Only the shape of a row is trusted
// here.

import type { Connection } from '../file/connection.ts'
import type { SqlRow, SqlValue } from '../file/driver.ts'
import { damaged } from '../file/failure.ts'
import type { Cell } from './cells.ts'
import { layoutOf, type SchemaObject } from './layout.ts'
import type { PageFile } from './pages.ts'
import { type SoundRow, soundRows } from './sound-rows.ts'
import { type RawRow, rowsOf } from './trees.ts'

const schemaRoot = 1
/** Columns that a later version added to one table. */
const addedMax = 1
/** A table with this many rows that no single bit corrects has other damage. */
const failedMax = 32

export interface ShapedRow {
  readonly row: SqlRow | null
  /** False: a part of the row may be missing. */
  readonly isFilled: boolean
  readonly reshaped: () => SqlRow[]
}

export class DamagedFile {
  readonly objects: readonly SchemaObject[]
  readonly #file: PageFile
  readonly #fresh: Connection
  readonly #isIncomplete: boolean
  #oursRead: readonly SchemaObject[] | null = null
  readonly #bad = new Map<string, Set<number>>()
  readonly #mendedRows = new Map<string, Set<string>>()
  readonly #failed = new Map<string, number>()

  /** `fresh` is a new file with our tables: it supplies their columns, and the roots of trees if this file does not. */
  constructor(file: PageFile, fresh: Connection) {
    this.#file = file
    this.#fresh = fresh
    const found = [...rowsOf(file, schemaRoot, this.#badOf('schema'))].flatMap((row) => this.#toKnownObject(row))
    this.#isIncomplete = this.#isSchemaDamaged(found)
    this.objects = this.#isIncomplete ? this.#complete(found) : found
  }

  /** By table or index: the pages that cannot be read, or only partly. */
  get badPages(): ReadonlyMap<string, ReadonlySet<number>> {
    return this.#bad
  }

  isBad(name: string): boolean {
    return (this.#bad.get(name)?.size ?? 0) > 0
  }

  /**
   * Rows of one of our tables, by column. Rows of another shape are skipped. A row that fails its checksum is returned with one
   * bit flipped back, if such a bit exists.
   */
  *rows(table: string): Generator<SqlRow> {
    const columns = this.columnsOf(table)
    const isSound = soundRows[table]
    for (const raw of this.#rawOf(table)) {
      const row = toRow(columns, raw)
      const mended = isSound && !(row && isSound(row)) ? this.#mended(table, columns, raw, isSound) : null
      if (mended ?? row) yield (mended ?? row)!
    }
  }

  /** Rows of a table as stored, including unreadable ones (null), each with its possible originals. */
  *shaped(table: string): Generator<ShapedRow> {
    const columns = this.columnsOf(table)
    const rows = (cells: Iterable<Cell>) => [...cells].map((cell) => toRow(columns, cell)).filter((row) => row !== null)
    for (const raw of this.#rawOf(table)) {
      yield { row: toRow(columns, raw), isFilled: raw.isFilled(), reshaped: () => rows(raw.reshaped()) }
    }
  }

  /** Rows of a table or an index as stored. */
  *raw(name: string): Generator<RawRow> {
    for (const row of this.#rawOf(name)) if (row.values.length > 0) yield row
  }

  /** Pages in which one bit was corrected. */
  get mendedPages(): ReadonlySet<number> {
    return this.#file.mended
  }

  /** The number of rows in which one bit was corrected, by table. */
  get mendedRows(): ReadonlyMap<string, number> {
    return new Map([...this.#mendedRows].map(([table, rows]) => [table, rows.size]))
  }

  *#rawOf(name: string): Generator<RawRow> {
    const object = this.objects.find((each) => each.name === name)
    if (object && object.root > 0) yield* rowsOf(this.#file, object.root, this.#badOf(name))
  }

  #mended(table: string, columns: readonly string[], raw: RawRow, isSound: SoundRow): SqlRow | null {
    if ((this.#failed.get(table) ?? 0) >= failedMax) return null
    for (const variant of raw.variants()) {
      // A row with fewer columns has no checksum.
      const row = variant.values.length === columns.length ? toRow(columns, variant) : null
      if (!row || !isSound(row)) continue
      const rows = this.#mendedRows.get(table) ?? new Set()
      this.#mendedRows.set(table, rows.add(JSON.stringify([row.tid, row.id, row.name, row.number, row.position])))
      return row
    }
    this.#failed.set(table, (this.#failed.get(table) ?? 0) + 1)
    return null
  }

  columnsOf(table: string): string[] {
    return this.#fresh.all(`PRAGMA table_info(${table})`).map(({ name }) => String(name))
  }

  /** Rows of a tree of which only the root is known. */
  *tree(root: number): Generator<RawRow> {
    for (const row of rowsOf(this.#file, root, this.#badOf(`the tree at page ${root}`))) {
      if (row.values.length > 0) yield row
    }
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

  /** A line that differs by one bit from that of one of our tables is taken as that line. */
  #toKnownObject(raw: RawRow): SchemaObject[] {
    const found = toObject(raw)
    if (found.some((object) => this.#isKnown(object))) return found
    for (const variant of raw.variants()) {
      const object = toObject(variant).find((each) => this.#isKnown(each))
      if (object) return [object]
    }
    return found
  }

  #isKnown({ type, name, table, sql }: SchemaObject): boolean {
    return this.#ours().some(
      (each) => each.type === type && each.name === name && each.table === table && each.sql === sql,
    )
  }

  #isSchemaDamaged(found: readonly SchemaObject[]): boolean {
    return this.isBad('schema') || this.#ours().some(({ name }) => !found.some((each) => each.name === name))
  }

  #complete(found: readonly SchemaObject[]): SchemaObject[] {
    const ours = layoutOf(this.#file, this.#ours(), found)
    if (!ours) {
      const what =
        'the list of tables is damaged, and your own tables were created before an older release added its last tables: restore a backup'
      throw damaged(what, { tables: found.length })
    }
    const roots = new Set(this.#file.roots())
    const missing = ours.filter(({ name, root }) => !found.some((each) => each.name === name) && roots.has(root))
    return [...found, ...missing]
  }

  #ours(): readonly SchemaObject[] {
    this.#oursRead ??= this.#readOurs()
    return this.#oursRead
  }

  #readOurs(): SchemaObject[] {
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

function toRow(columns: readonly string[], { rowid, values }: Pick<RawRow, 'rowid' | 'values'>): SqlRow | null {
  // A row of an older version ends before the columns that were added since.
  if (values.length === 0 || values.length > columns.length || values.length < columns.length - addedMax) return null
  const row: SqlRow = {}
  for (const [i, value] of values.entries()) row[columns[i]!] = value
  // The first column of each of our tables with row ids is the row id, which is stored elsewhere.
  if (rowid !== null) row[columns[0]!] = rowid
  return row
}

function toObject({ values }: Pick<RawRow, 'values'>): SchemaObject[] {
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

/** True for our objects; the rest of the file belongs to the user. */
export function isOurs({ table, name }: SchemaObject): boolean {
  return table.startsWith('reprise_') || name.startsWith('reprise_')
}
