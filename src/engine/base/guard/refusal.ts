// The error for a call that code in a zone may not make: it names the call, the line of the user's code that made it, and
// the cure.

import { fileURLToPath } from 'node:url'
import { RepriseError } from '../../../core/errors.ts'
import type { Zone } from './zone.ts'

/** Our own files, which stand between the caller and this. */
const ownFolder = fileURLToPath(new URL('../../', import.meta.url))

/** Null: it is the module loader that calls, on behalf of an import. */
export function refusal(zone: Zone, call: string): RepriseError | null {
  const lines = stackOf()
  if (lines.some((line) => line.includes('node:internal/modules/'))) return null
  const at = lineOf(lines)
  return new RepriseError('NON_DETERMINISTIC', `${call} was called by ${zone.what} at ${at}: ${zone.cure(call)}`, {
    call,
    at,
  })
}

/** Where the user's code is now, as far as the stack tells. */
export function userLine(): string {
  return lineOf(stackOf())
}

/** The line that led to the tick which runs now; null: none is known. */
let askedAt: string | null = null

/** Runs a tick that the user's code at this line has led to. */
export function inTickOf<T>(line: string, call: () => T): T {
  const before = askedAt
  askedAt = line
  try {
    return call()
  } finally {
    askedAt = before
  }
}

/** The user's own line before that of a package: a client that was called is not what has to change. */
function lineOf(lines: readonly string[]): string {
  const theirs = lines.filter((line) => !isOurs(line) && !line.includes('node:') && /:\d+:\d+\)?$/.test(line))
  const own = theirs.find((line) => !/[\\/]node_modules[\\/]/.test(line))
  if (own === undefined && askedAt !== null) return askedAt
  const at = own ?? theirs[0] ?? ''
  return /\(?((?:file:\/\/)?[^()\s]+:\d+:\d+)\)?$/.exec(at)?.[1]?.replace('file://', '') ?? 'an unknown line'
}

function isOurs(line: string): boolean {
  return line.includes(ownFolder) && !/\.test\.[tj]s/.test(line)
}

function stackOf(): string[] {
  const limit = Error.stackTraceLimit
  Error.stackTraceLimit = 100
  const { stack = '' } = new Error('where')
  Error.stackTraceLimit = limit
  return stack.split('\n').slice(1)
}
