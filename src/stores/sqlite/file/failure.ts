// Maps errors of SQLite and the system to error codes, by which the caller decides to wait, to free space or to stop.

import { type ErrorCode, RepriseError } from '../../../core/errors.ts'
import { codeOf as codeOfSystem } from '../../../lib/durable-file.ts'
import { describeHolder, lockHolder } from './lock-holder.ts'

/** Primary result codes of SQLite (the low byte of the extended ones). */
const sqlite = {
  busy: 5,
  locked: 6,
  readOnly: 8,
  ioError: 10,
  corrupt: 11,
  full: 13,
  cannotOpen: 14,
  constraint: 19,
  mismatch: 20,
  notADatabase: 26,
}

/** @example throw toStoreError(error, 'commit', '/data/reprise.db') */
export function toStoreError(
  error: unknown,
  doing: string,
  location: string,
  more: Readonly<Record<string, unknown>> = {},
): unknown {
  if (error instanceof RepriseError) return error
  const code = codeOf(error)
  if (!code) return error
  const text = error instanceof Error ? error.message : String(error)
  const holder = code === 'STORE_BUSY' ? lockHolder(location) : null
  const what = holder ? `${text}: ${describeHolder(holder)}` : text
  const data = { location, sqlite: resultCode(error), ...more, ...(holder && { holder }) }
  return new RepriseError(code, `${doing} ${location}: ${what}`, data, error)
}

const noPlaces = new Set(['ENOENT', 'ENOTDIR', 'ENAMETOOLONG', 'ELOOP'])

/** The error for a path that cannot be a file. */
export function misplaced(error: unknown, location: string): unknown {
  if (!noPlaces.has(codeOfSystem(error))) return toStoreError(error, 'open', location)
  const what = `no file can be created at ${location} (${codeOfSystem(error)}): name another path`
  return new RepriseError('INVALID_ARGUMENT', what, { location }, error)
}

export function isBusy(error: unknown): boolean {
  const code = resultCode(error)
  return code === sqlite.busy || code === sqlite.locked
}

/** SQLite or this store detected damage in data that was read. */
export function isDamage(error: unknown): boolean {
  return (error instanceof RepriseError ? error.code : codeOf(error)) === 'STORE_DAMAGED'
}

/** The result of a read, or the other value if the file is damaged where it reads. */
export function unlessDamaged<Result, Otherwise>(read: () => Result, otherwise: Otherwise): Result | Otherwise {
  try {
    return read()
  } catch (error) {
    if (isDamage(error)) return otherwise
    throw error
  }
}

/** The disk is full or failed: the statement is not the cause. */
export function isOfDisk(error: unknown): boolean {
  const code = error instanceof RepriseError ? error.code : codeOf(error)
  return code === 'STORE_FULL' || code === 'STORE_IO'
}

/** A deferred constraint of the user's own tables failed at COMMIT. Our tables have none. */
export function isConstraint(error: unknown): boolean {
  return resultCode(error) === sqlite.constraint
}

/** The row was not added: its position is no longer the next one, or the tables have changed (log-end.ts). */
export function isNotTheEnd(error: unknown): boolean {
  return resultCode(error) === sqlite.mismatch
}

/** A file beside the database could not be created or written, or the database cannot be opened. */
export function isUnopenable(error: unknown): boolean {
  const code = resultCode(error)
  return code === sqlite.cannotOpen || code === sqlite.readOnly
}

function codeOf(error: unknown): ErrorCode | undefined {
  switch (resultCode(error)) {
    case sqlite.busy:
    case sqlite.locked:
      return 'STORE_BUSY'
    case sqlite.readOnly:
      return 'STORE_READ_ONLY'
    case sqlite.corrupt:
    case sqlite.notADatabase:
    // Our own statements satisfy the constraints, so a failure means that an index disagrees with its table.
    case sqlite.constraint:
    case sqlite.mismatch:
      return 'STORE_DAMAGED'
    case sqlite.full:
      return 'STORE_FULL'
    case sqlite.ioError:
    case sqlite.cannotOpen:
      return 'STORE_IO'
  }
  return schemaIsBroken(error) || isBeyondNumbers(error) ? 'STORE_DAMAGED' : codeOfFile(error)
}

/** Damage to the schema page appears as a plain error: a required table or column is missing. */
function schemaIsBroken(error: unknown): boolean {
  return resultCode(error) !== undefined && /no such (table|column|index)|malformed/.test((error as Error).message)
}

/** This store writes no integer beyond JavaScript's safe range, so such a value is damage. */
function isBeyondNumbers(error: unknown): boolean {
  return error instanceof Error && error.message.includes('too large to be represented as a JavaScript number')
}

function codeOfFile(error: unknown): ErrorCode | undefined {
  switch ((error as { code?: unknown } | undefined)?.code) {
    case 'ENOSPC':
    case 'EDQUOT':
      return 'STORE_FULL'
    case 'EROFS':
    case 'EACCES':
    case 'EPERM':
      return 'STORE_READ_ONLY'
    case 'EIO':
      return 'STORE_IO'
  }
  return undefined
}

/** Undefined for an error that is not SQLite's. Some driver calls (iterating) report the code only in the message. */
function resultCode(error: unknown): number | undefined {
  const code = (error as { errcode?: unknown } | null | undefined)?.errcode
  if (typeof code === 'number') return code & 0xff
  const text = error instanceof Error ? error.message : ''
  return texts.find(([pattern]) => text.includes(pattern))?.[1]
}

const texts: readonly (readonly [string, number])[] = [
  ['database disk image is malformed', sqlite.corrupt],
  ['file is not a database', sqlite.notADatabase],
  ['disk I/O error', sqlite.ioError],
  ['database or disk is full', sqlite.full],
  ['attempt to write a readonly database', sqlite.readOnly],
  ['database is locked', sqlite.busy],
  ['datatype mismatch', sqlite.mismatch],
  ['unable to open database file', sqlite.cannotOpen],
]

export function damaged(message: string, data: Readonly<Record<string, unknown>> = {}): RepriseError {
  return new RepriseError('STORE_DAMAGED', message, data)
}
