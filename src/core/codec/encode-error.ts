// Turns any failure to encode a value into a RepriseError.

import { RepriseError } from '../errors.ts'
import { isStackOverflow } from './reader.ts'

export function encodeError(error: unknown): RepriseError {
  if (error instanceof RepriseError) return error
  if (isStackOverflow(error)) return tooDeep(error)
  return new RepriseError('UNSERIALIZABLE', 'reading the value failed', {}, error)
}

export function tooDeep(cause: unknown): RepriseError {
  return new RepriseError('LIMIT_EXCEEDED', 'a value is nested deeper than the stack', { limit: 'valueDepth' }, cause)
}
