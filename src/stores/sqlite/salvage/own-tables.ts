// Tables of whoever uses the store, in the same file: they go along. Those that SQLite can read are copied by it; of a
// damaged one, the rows that can be read are, and how many pages cannot is told.

import { RepriseError } from '../../../core/errors.ts'
import type { SqlValue } from '../driver.ts'
import { isDamage } from '../failure.ts'
import { isOurs, type SchemaObject } from './source.ts'
import type { Salvage } from './work.ts'

/** Throws STORE_UNSUPPORTED where something cannot go along. */
export function copyOwnTables(work: Salvage): void {
  const { from, to } = work
  const own = from.objects.filter(
    (object) => !isOurs(object) && !object.name.startsWith('sqlite_') && object.sql !== null,
  )
  const virtual = own.find(({ sql }) => /^\s*CREATE\s+VIRTUAL/i.test(sql!))
  if (virtual) {
    const what = `${virtual.name} is a virtual table of your own, which cannot be written anew: save it yourself, and drop it`
    throw new RepriseError('STORE_UNSUPPORTED', what, { table: virtual.name })
  }
  for (const table of own.filter(({ type }) => type === 'table')) {
    to.exec(table.sql!)
    if (!copyBySqlite(work, table)) copyAsFound(work, table)
  }
  for (const { sql } of own.filter(({ type }) => type !== 'table')) to.exec(sql!)
  for (const root of from.unknownTrees()) {
    const what = `a table or an index that begins at page ${root} of the file, whose name and content are lost`
    work.lost.push({ timeline: null, where: 'list of tables', what })
  }
}

/** A transaction of its own: SQLite writes nothing more in one in which it met damage. */
function copyBySqlite({ to }: Salvage, { name }: SchemaObject): boolean {
  const quoted = `"${name.replaceAll('"', '""')}"`
  to.run('COMMIT')
  try {
    const columns = to
      .all(`PRAGMA main.table_xinfo(${quoted})`)
      .filter(({ hidden }) => hidden === 0)
      .map((column) => `"${String(column.name).replaceAll('"', '""')}"`)
      .join(', ')
    // Row by row, which the condition is for: without one SQLite copies cells as they are, and damage with them.
    to.exec(`INSERT INTO main.${quoted} (${columns}) SELECT ${columns} FROM damaged.${quoted} WHERE true`)
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
  const quoted = `"${name.replaceAll('"', '""')}"`
  const columns = to.all(`PRAGMA main.table_xinfo(${quoted})`).filter(({ hidden }) => hidden === 0)
  const rowidColumn = columns.findIndex(({ type, pk }) => pk === 1 && /^integer$/i.test(String(type)))
  let rows = 0
  for (const { rowid, values } of from.raw(name)) {
    // Columns that were added later are missing in older rows: those have their default.
    const given = columns.slice(0, values.length).map(({ name: column }) => `"${String(column).replaceAll('"', '""')}"`)
    const taken = values
      .slice(0, columns.length)
      .map((value, i) => (i === rowidColumn && value === null ? rowid : value))
    const sql = `INSERT OR IGNORE INTO main.${quoted} (${given.join(', ')}) VALUES (${given.map(() => '?').join(', ')})`
    rows += to.run(sql, ...(taken as SqlValue[]))
  }
  const pages = [...(from.badPages.get(name) ?? [])]
  const what = `your own table is damaged at page ${pages.join(', ') || '?'}: ${rows} rows could be read, the others are lost`
  work.lost.push({ timeline: null, where: name, what })
}
