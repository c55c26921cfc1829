// A failure as history stores it: plain data. The error that code catches is always built from this record, in the
// first execution as in every replay, so a `catch` cannot distinguish the two.

import { RepriseError } from '../../../core/errors.ts'
import { boundedText, thrownText, userFrames } from '../../../core/failure-text.ts'
import { GiveUp } from '../../../core/retry/retry.ts'

export interface Failure {
  readonly name: string
  readonly message: string
  readonly code?: string
  readonly data?: unknown
  readonly stack?: string
  readonly cause?: Failure
}

const dataMax = 2000
const causesMax = 3

/** The error that cancelled code receives: catch it to clean up, then rethrow it. */
export function cancelledError(reason: string): RepriseError {
  return new RepriseError('CANCELLED', reason, { reason })
}

export function toFailure(error: unknown, depth = 0): Failure {
  if (!(error instanceof Error)) {
    return { name: 'Error', message: thrownText(error) }
  }
  const { code, data } = error as { code?: unknown; data?: unknown }
  const message = error instanceof RepriseError ? error.message.replace(/ \[[A-Z_]+\]$/, '') : error.message
  return {
    name: boundedText(error.name),
    message: boundedText(message),
    ...(typeof code === 'string' && { code }),
    ...(isPlain(data) && { data }),
    ...(error.stack && depth === 0 && { stack: userFrames(error.stack, 4) }),
    ...(error.cause instanceof Error && depth < causesMax && { cause: toFailure(error.cause, depth + 1) }),
  }
}

const builtin: Readonly<Record<string, new (message: string) => Error>> = {
  TypeError,
  RangeError,
  SyntaxError,
  ReferenceError,
  GiveUp,
}
/** Error names in histories of earlier versions. */
const formerNames = new Map([['NonRetryable', 'GiveUp']])

export function fromFailure(failure: Failure): Error {
  const { message, code, data, stack, cause } = failure
  const name = formerNames.get(failure.name) ?? failure.name
  const under = cause ? fromFailure(cause) : undefined
  if (name === 'RepriseError' && code !== undefined) {
    return new RepriseError(code as 'BUG', message, (data ?? {}) as Record<string, unknown>, under)
  }
  const Kind = Object.hasOwn(builtin, name) ? builtin[name]! : Error
  const error = new Kind(message)
  if (error.name !== name) Object.defineProperty(error, 'name', { value: name, configurable: true, writable: true })
  if (under) error.cause = under
  if (code !== undefined) Object.assign(error, { code })
  if (data !== undefined) Object.assign(error, { data })
  if (stack) error.stack = `${name}: ${message}\n${stack}`
  return error
}

function isPlain(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  try {
    return JSON.stringify(value).length <= dataMax
  } catch {
    return false
  }
}
