// How long a broker may be unavailable before its connector gives up, and the error that ends it.

import { type Duration, toMs } from '../duration.ts'
import { RepriseError } from '../errors.ts'

export function awayMsOf({ awayFor = '1m' }: { readonly awayFor?: Duration }): number {
  const awayMs = toMs(awayFor, 'awayFor')
  if (awayMs > 0) return awayMs
  throw new RepriseError('INVALID_ARGUMENT', 'awayFor must be at least 1 ms (got 0)')
}

/** `server`: the subject of the sentence. @example brokerAway('connect', 'no broker', 60_000, error) */
export function brokerAway(what: string, server: string, awayMs: number, cause: unknown): RepriseError {
  const last = cause instanceof Error ? cause.message : String(cause)
  const text = `${what}: ${server} could do it for ${awayMs} ms (awayFor), the last response was "${last}"`
  return new RepriseError('BROKER_AWAY', text, { awayMs }, cause)
}
