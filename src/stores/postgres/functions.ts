// The names of the functions in the database, and the expressions that queries share with them. The functions themselves lie in
// the folder sql: a whole batch is one round trip, and its statements are planned once per connection.

import { schemaVersion } from './tables.ts'

/** @example functionName('"reprise"', 'append_one') // '"reprise".append_one_v2' */
export function functionName(s: string, name: string): string {
  return `${s}.${name}_v${schemaVersion}`
}

/** Milliseconds of the database's clock, advancing even inside a transaction. */
export const nowMs = "floor(date_part('epoch', clock_timestamp()) * 1000)"

/** The same clock when this statement arrived: before its snapshot. */
export const statementMs = "floor(date_part('epoch', statement_timestamp()) * 1000)"

/** The row `w` of a worker that may still be alive. */
export const isAlive = (now: string) => `(w.retired_at IS NULL AND ${now} < w.beat_at + w.lease_ms)`

/** The operation that wrote a run. */
export const operationOf = (r: string) => `coalesce(${r}.operation, encode(substr(${r}.digest, 1, 8), 'hex'))`

/** The name under which a forgotten id is stored: core/identity.ts, pastName. */
export const pastName = (id: string) => `substr(encode(sha256(convert_to(${id}, 'UTF8')), 'hex'), 1, 32)`

/** The prepared statement of commits with SQL, prepared again for each. */
export const riderStatement = 'reprise_rider'

/** Without them, code of that version can no longer write. */
export function dropFunctions(s: string, version: number): string {
  return `DO $$
DECLARE
  f regprocedure;
BEGIN
  FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = '${s}'::regnamespace AND proname LIKE '%\\_v${version}' LOOP
    EXECUTE 'DROP FUNCTION ' || f;
  END LOOP;
END $$;`
}

/**
 * The SQL of a file in the folder sql, for a store: there the schema is called `reprise`, and functions (the names right before
 * a parenthesis) have no version. Functions that applications call have a space before the parenthesis, and keep their names;
 * @schema@ is the schema's name in a text.
 * @example sqlFor('"shop"', 'SELECT reprise.head(…) FROM reprise.run') // 'SELECT "shop".head_v2(…) FROM "shop".run'
 */
export function sqlFor(s: string, text: string): string {
  return text
    .replaceAll(/\breprise\.(\w+)(\()?/g, (_, name: string, parenthesis?: string) =>
      parenthesis ? `${functionName(s, name)}(` : `${s}.${name}`,
    )
    .replaceAll('@schema@', s.replaceAll('"', ''))
}
