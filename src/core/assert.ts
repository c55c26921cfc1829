// Assertions that stay on in production. A failed assertion is a bug in Reprise, never a fault of the caller's input:
// it stops the operation before anything is written.

import { RepriseError } from './errors.ts'

export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new RepriseError('BUG', message)
}

/** Ends a `switch` over a union: a missing case fails to compile, and an unexpected value throws BUG. */
export function unreachable(value: never, message = 'unreachable case'): never {
  throw new RepriseError('BUG', `${message}: ${String(value)}`)
}
