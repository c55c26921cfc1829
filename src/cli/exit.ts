// Exit codes, the same for every command. Programs that call the CLI should use these and never the text.

import { type ErrorCode, RepriseError } from '../core/errors.ts'

export const exit = {
  ok: 0,
  failed: 1,
  usage: 2,
  /** Partial success: dead letters were left, or some checks failed. */
  partly: 3,
  notFound: 4,
  runFailed: 5,
  conflict: 6,
  unreachable: 7,
  damage: 8,
  incompatible: 9,
  /** Interrupted, and resumable. */
  interrupted: 130,
} as const

const byCode: Partial<Record<ErrorCode, number>> = {
  INVALID_ARGUMENT: exit.usage,
  INVALID_ID: exit.usage,
  NOT_FOUND: exit.notFound,
  OUT_OF_RANGE: exit.notFound,
  RUN_FAILED: exit.runFailed,
  CANCELLED: exit.runFailed,
  FENCED: exit.conflict,
  SHIP_FENCED: exit.conflict,
  OWNED: exit.conflict,
  CONFLICT: exit.conflict,
  ENDED: exit.conflict,
  EXISTS: exit.conflict,
  NOT_ON_BRANCH: exit.conflict,
  PINNED: exit.conflict,
  CONSUMED: exit.conflict,
  ALREADY_UNDONE: exit.conflict,
  MIGRATION_DRIFT: exit.conflict,
  CHANGE_UNFINISHED: exit.conflict,
  STORE_UNREACHABLE: exit.unreachable,
  STORE_BUSY: exit.unreachable,
  STORE_IO: exit.unreachable,
  TIMEOUT: exit.unreachable,
  DRIVER_MISSING: exit.unreachable,
  HISTORY_DAMAGED: exit.damage,
  DATA_LOST: exit.damage,
  STORE_DAMAGED: exit.damage,
  STORE_MOVED: exit.damage,
  CHECKPOINT_DAMAGED: exit.damage,
  CHUNK_DAMAGED: exit.damage,
  CHUNKS_GONE: exit.damage,
  CHUNK_MISSING: exit.damage,
  UNRECOVERABLE: exit.damage,
  MALFORMED: exit.damage,
  NOT_A_SAVEPOINT: exit.damage,
  INCOMPATIBLE_VERSION: exit.incompatible,
  UPCAST_MISSING: exit.incompatible,
  DIVERGED: exit.incompatible,
}

export function exitCodeOf(error: unknown): number {
  if (error instanceof UsageError) return exit.usage
  if (error instanceof RepriseError) return byCode[error.code] ?? exit.failed
  return exit.failed
}

/** Invalid arguments or options. */
export class UsageError extends Error {
  override readonly name: string = 'UsageError'
  readonly hint: string

  constructor(message: string, hint = 'reprise help lists the commands') {
    super(message)
    this.hint = hint
  }
}

/** @example parseJson('{"a":1}', '--item') */
export function parseJson(json: string, what: string): unknown {
  let value: unknown
  try {
    value = JSON.parse(json)
  } catch {
    throw new UsageError(`${what} is not JSON: ${json}`, 'text needs its own quotes: \'"ship"\'')
  }
  const large = json
    .match(stringsAndNumbers)
    ?.find((token) => /^-?\d+$/.test(token) && !Number.isSafeInteger(Number(token)))
  if (large === undefined) return value
  throw new UsageError(
    `${what}: ${large} is too large for a number, and would be stored as ${Number(large)}`,
    'pass it as text',
  )
}

/** Matches whole strings, so that digits inside them are skipped. */
const stringsAndNumbers = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g
