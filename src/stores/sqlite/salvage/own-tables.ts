// User tables in the same file are salvaged too. SQLite copies the tables that it can read; from a damaged one, the readable
// rows are copied, and the number of unreadable pages is reported. If a name is lost with a page of the list of tables, the
// rows are copied to a table named after the place where they were found.

import { RepriseError } from '../../../core/errors.ts'
import type { Connection } from '../file/connection.ts'
import type { SqlRow, SqlValue } from '../file/driver.ts'
import { isConstraint, isDamage } from '../file/failure.ts'
import type { SchemaObject } from './layout.ts'
import type { Salvage } from './salvage-io.ts'
import { isOurs } from './source.ts'
import type { RawRow } from './trees.ts'

/** SQLite's own limit is 2000. */
const columnsMax = 1900

/** Throws STORE_UNSUPPORTED if something cannot be copied. */
export function copyOwnTables(work: Salvage): void {
  const { from, to } = work
  const own = from.objects.filter(
    (object) => !isOurs(object) && !object.name.startsWith('sqlite_') && object.sql !== null,
  )
  const virtual = own.find(({ sql }) => /^\s*CREATE\s+VIRTUAL/i.test(sql!))
  if (virtual) {
    const what = `${virtual.name} is your own virtual table, which cannot be rebuilt: save it yourself, and drop it`
    throw new RepriseError('STORE_UNSUPPORTED', what, { table: virtual.name })
  }
  for (const table of own.filter(({ type }) => type === 'table')) {
    to.exec(table.sql!)
    if (!isAttached(to) || !copyBySqlite(work, table)) copyAsFound(work, table)
  }
  for (const object of own.filter(({ type }) => type !== 'table')) makeAgain(work, object)
  for (const root of from.unknownTrees()) keepRows(work, root)
}

/** Whether SQLite can read the list of tables of the damaged file (renew.ts). */
export function isAttached(to: Connection): boolean {
  return to.all('PRAGMA database_list').some(({ name }) => name === 'damaged')
}

/** Uses a transaction of its own: SQLite writes nothing more in a transaction that met damage. */
function copyBySqlite({ to }: Salvage, { name }: SchemaObject): boolean {
  to.run('COMMIT')
  try {
    const columns = storedColumns(to, name)
      .filter(({ hidden }) => hidden === 0)
      .map((column) => quoted(column.name))
      .join(', ')
    // The condition forces a copy row by row: without one SQLite copies cells unchanged, and damage with them.
    to.exec(`INSERT INTO main.${quoted(name)} (${columns}) SELECT ${columns} FROM damaged.${quoted(name)} WHERE true`)
    return true
  } catch (error) {
    if (!isDamage(error)) throw error
    return false
  } finally {
    to.run('BEGIN IMMEDIATE')
  }
}

function copyAsFound(work: Salvage, { name }: SchemaObject): void {
  const { from, to } = work
  const columns = storedColumns(to, name)
  const keys = columns.filter(({ pk }) => Number(pk) > 0).sort((a, b) => Number(a.pk) - Number(b.pk))
  const rowidColumn = keys.length === 1 && /^integer$/i.test(String(keys[0]!.type)) ? keys[0] : undefined
  // In a table without row ids, the key comes first in each row.
  const keyFirst = [...keys, ...columns.filter((column) => !keys.includes(column))]
  let seen = 0
  let rows = 0
  for (const { rowid, values } of from.raw(name)) {
    seen += 1
    const order = rowid === null ? keyFirst : columns
    // Columns added later are missing in older rows, which get the default.
    const given = order
      .slice(0, values.length)
      .map((column, i) => ({ column, value: column === rowidColumn && rowid !== null ? rowid : values[i]! }))
      .filter(({ column }) => column.hidden === 0)
    const names = given.map(({ column }) => quoted(column.name)).join(', ')
    const sql = `INSERT OR IGNORE INTO main.${quoted(name)} (${names}) VALUES (${given.map(() => '?').join(', ')})`
    rows += to.run(sql, ...given.map(({ value }) => value))
  }
  const pages = [...(from.badPages.get(name) ?? [])]
  if (!isAttached(to) && pages.length === 0 && rows === seen) {
    work.rebuilt.push({ where: name, what: `your own table was read without the list of tables: all ${rows} rows` })
    return
  }
  const what = `your own table is damaged at page ${pages.join(', ') || '?'}: ${rows} rows could be read, the rest are lost`
  work.lost.push({ timeline: null, where: name, what })
}

/** The stored columns of a row, in the order of the table. Generated columns may be stored, but cannot be inserted. */
function storedColumns(to: Connection, table: string): SqlRow[] {
  const stored = [0, 3]
  return to.all(`PRAGMA main.table_xinfo(${quoted(table)})`).filter(({ hidden }) => stored.includes(Number(hidden)))
}

/** Recreates an index, a trigger or a view. */
function makeAgain({ to, lost }: Salvage, { type, name, table, sql }: SchemaObject): void {
  const isThere = type === 'view' || to.get('SELECT 1 FROM main.sqlite_schema WHERE name = ?', table) !== undefined
  const report = (why: string) =>
    lost.push({ timeline: null, where: name, what: `your own ${type} could not be recreated: ${why}` })
  if (!isThere) {
    report(`the name of its table, ${table}, is lost`)
    return
  }
  try {
    to.exec(sql!)
  } catch (error) {
    if (!isConstraint(error)) throw error
    report('readable rows do not match it')
  }
}

/**
 * Keeps the rows of a table or an index: the two are indistinguishable, since a table without row ids has the form of an
 * index.
 */
function keepRows({ from, to, lost }: Salvage, root: number): void {
  let width = 0
  let rows = 0
  for (const { values } of from.tree(root)) width = Math.min(columnsMax, Math.max(width, values.length))
  const name = freeName(to, `found_at_page_${root}`)
  const columns = ['row', ...Array.from({ length: width }, (_, i) => `c${i + 1}`)]
  if (width > 0) to.exec(`CREATE TABLE main.${name} (${columns.join(', ')})`)
  const insert = `INSERT INTO main.${name} VALUES (${columns.map(() => '?').join(', ')})`
  for (const { rowid, values } of from.tree(root)) rows += to.run(insert, ...padded({ rowid, values }, columns.length))
  const kept = rows > 0 ? `its ${rows} readable rows are in ${name}` : 'no rows were found in it'
  const what = `the name of a table or an index that begins at page ${root} of the file is lost; ${kept}`
  lost.push({ timeline: null, where: 'list of tables', what })
}

function padded({ rowid, values }: Pick<RawRow, 'rowid' | 'values'>, length: number): SqlValue[] {
  return Array.from({ length }, (_, i) => (i === 0 ? rowid : (values[i - 1] ?? null)))
}

function freeName(to: Connection, wanted: string): string {
  const isTaken = (name: string) => to.get('SELECT 1 FROM main.sqlite_schema WHERE name = ?', name) !== undefined
  let name = wanted
  for (let i = 2; isTaken(name); i++) name = `${wanted}_${i}`
  return name
}

function quoted(name: SqlValue | undefined): string {
  return `"${String(name).replaceAll('"', '""')}"`
}
