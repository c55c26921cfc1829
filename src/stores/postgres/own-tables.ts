// The store's own tables, which the user's SQL must not touch. A statement that names their schema is refused before it
// is sent.
// Indirect access (a function, dynamic SQL, a search_path) is detected at the end, before the COMMIT: the server counts
// the rows that a transaction changed in each table, and every definition of a table has the number of the transaction
// that changed it last. Neither needs a role of its own or a trigger, and the hot path pays nothing.

import { RepriseError } from '../../core/errors.ts'
import { functionName } from './functions.ts'
import { withoutTexts } from './placeholder.ts'

/** Throws SQL_REFUSED. */
export function refuseOwnTables(text: string, schema: string): void {
  const name = schema.replaceAll('"', '').replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
  if (new RegExp(`(?<![\\w$"])(?:${name}|"${name}")\\s*\\.`, 'i').test(withoutTexts(text))) throw ownTables(schema)
}

export function ownTables(schema: string): RepriseError {
  return new RepriseError('SQL_REFUSED', `the tables in ${schema} belong to the store: use them through Reprise`)
}

/** This transaction's changes to the store's tables so far, as one text; `after` is evaluated before it. */
export function changesMark(schema: string, after = 'true'): string {
  const count = (what: string) => `pg_catalog.pg_stat_get_xact_tuples_${what}(c.oid)`
  return `(SELECT pg_catalog.string_agg(pg_catalog.concat_ws(' ', c.oid, c.xmin, c.relfilenode,
      ${count('inserted')}, ${count('updated')}, ${count('deleted')}), ',' ORDER BY c.oid)
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = '${schema.replaceAll('"', '')}' AND c.relkind = 'r' AND ${after} IS NOT NULL)`
}

/** A statement that fails if the mark has changed. */
export function refuseChanges(schema: string, mark: string): string {
  const refuse = `${functionName(schema, 'refuse')}('SQL_REFUSED', 'own tables')::text`
  return `SELECT CASE WHEN ${changesMark(schema)} IS DISTINCT FROM '${mark}' THEN ${refuse} END`
}
