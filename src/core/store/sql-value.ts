// The values that user SQL can bind (docs/guides/sql-values.md). Everything else is refused before it reaches a driver: drivers
// read some objects as named parameters, which shifts all other values, and store others as null, cut or as `{}`.

import { RepriseError } from '../errors.ts'

type Dialect = 'postgres' | 'sqlite'

/** Throws SQL_REFUSED. Values are counted from 1, as in the statement. */
export function checkSqlValues(values: readonly unknown[], dialect: Dialect): void {
  for (const [i, value] of values.entries()) {
    const fault = faultOf(value, dialect)
    if (fault === null) continue
    throw new RepriseError('SQL_REFUSED', `value ${i + 1} of the statement cannot be stored: ${fault}`, {
      value: i + 1,
    })
  }
}

const integerMax = 2n ** 63n

function faultOf(value: unknown, dialect: Dialect): string | null {
  switch (typeof value) {
    case 'string':
      return value.includes('\0') ? 'text must have no NUL character: bind bytes (Uint8Array)' : null
    case 'number':
      return dialect === 'sqlite' && Number.isNaN(value) ? 'SQLite has no NaN: bind null' : null
    case 'bigint':
      return dialect === 'sqlite' && (value >= integerMax || value < -integerMax)
        ? 'integers of SQLite have 64 bits: bind text'
        : null
    case 'function':
    case 'symbol':
      return `a ${typeof value} is not a value of a database`
    case 'object':
      return value === null ? null : faultOfObject(value, dialect)
    default:
      return null
  }
}

function faultOfObject(value: object, dialect: Dialect): string | null {
  if (value instanceof Uint8Array) return null
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'the Date is invalid' : null
  const kind = Object.prototype.toString.call(value).slice('[object '.length, -1)
  if (dialect === 'sqlite') return `SQLite has no type for ${kind}: bind JSON as text, or bytes as Uint8Array`
  if (Array.isArray(value)) return value.map((each) => faultOf(each, dialect)).find((fault) => fault !== null) ?? null
  const { toJSON, toPostgres } = value as { readonly toJSON?: unknown; readonly toPostgres?: unknown }
  if (kind === 'Object' || typeof toJSON === 'function' || typeof toPostgres === 'function') return null
  return `${kind} cannot be represented in JSON: bind a plain object, JSON as text, or bytes as Uint8Array`
}
