// Assertions that stay on in production. A failed one is a bug of ours, never of the caller's input:
// it stops the operation before it can write anything.

import { RepriseError } from './errors.ts'

export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new RepriseError('BUG', message)
}

/** The end of a `switch` over a union: fails to compile when a case is missing, and stops when data lies. */
export function unreachable(value: never, message = 'unreachable case'): never {
  throw new RepriseError('BUG', `${message}: ${String(value)}`)
}
