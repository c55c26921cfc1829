// The key of an item: from the user's function, else from the source, else the item itself if it is text or a number.

import { RepriseError } from '../../core/errors.ts'
import { refuseThenable } from '../../core/synchronous.ts'

const keyLengthMax = 4096

export function identify<T>(
  job: { readonly key: ((item: T) => string | number) | null },
  item: T,
  own: string | undefined,
): string {
  const given: unknown = job.key ? job.key(item) : (own ?? item)
  refuseThenable(given, 'key of a job', 'compute it from the item alone, or set the key of the item in the source')
  if (typeof given === 'string') {
    if (given.length > 0 && given.length <= keyLengthMax) return given
    throw refuse(`the key of an item must have 1 to ${keyLengthMax} characters (got ${given.length})`)
  }
  if (typeof given === 'number' && Number.isFinite(given)) return String(given)
  if (typeof given === 'bigint') return String(given)
  throw refuse(
    job.key
      ? `the key of an item must be a string or a number (got ${typeOf(given)})`
      : 'items must have a key: set `key: (item) => …` in the job',
  )
}

function typeOf(value: unknown): string {
  return value === null ? 'null' : typeof value
}

function refuse(what: string): RepriseError {
  return new RepriseError('INVALID_ARGUMENT', what)
}
