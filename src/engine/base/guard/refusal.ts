// The error for a call that code in a zone may not make: it names the call, the line of the user's code that made it,
// and the fix.

import { fileURLToPath } from 'node:url'
import { RepriseError } from '../../../core/errors.ts'
import type { Zone } from './zone.ts'

/** Our own files, which appear on the stack between the user's code and this function. Null: a bundle has one file for all. */
const ownFolder = folderOfPackage()

function folderOfPackage(): string | null {
  try {
    return fileURLToPath(new URL('../../../', import.meta.url))
  } catch {
    return null
  }
}

/** Null: the caller is the module loader, which runs an import. */
export function refusal(zone: Zone, call: string): RepriseError | null {
  const lines = stackOf()
  if (lines.some((line) => line.includes('node:internal/modules/'))) return null
  const at = lineOf(lines)
  return new RepriseError('NON_DETERMINISTIC', `${call} was called by ${zone.what} at ${at}: ${zone.cure(call)}`, {
    call,
    at,
  })
}

/** The current line of the user's code, according to the stack. */
export function userLine(): string {
  return lineOf(stackOf())
}

/** The user's line that scheduled the current tick. Null: unknown. */
let requestedAt: string | null = null

/** Runs a tick that the user's code scheduled at this line. */
export function inTickOf<T>(line: string, call: () => T): T {
  const before = requestedAt
  requestedAt = line
  try {
    return call()
  } finally {
    requestedAt = before
  }
}

/** Prefers the user's own line to a line of a package: the fix belongs in the code that called the client. */
function lineOf(lines: readonly string[]): string {
  const theirs = lines.filter((line) => !isOurs(line) && !line.includes('node:') && /:\d+:\d+\)?$/.test(line))
  const own = theirs.find((line) => !/[\\/]node_modules[\\/]/.test(line))
  if (own === undefined && requestedAt !== null) return requestedAt
  const at = own ?? theirs[0] ?? ''
  return /\(?((?:file:\/\/)?[^()\s]+:\d+:\d+)\)?$/.exec(at)?.[1]?.replace('file://', '') ?? 'an unknown line'
}

function isOurs(line: string): boolean {
  return ownFolder !== null && line.includes(ownFolder) && !/\.test\.[tj]s/.test(line)
}

function stackOf(): string[] {
  const limit = Error.stackTraceLimit
  Error.stackTraceLimit = 100
  const { stack = '' } = new Error('where')
  Error.stackTraceLimit = limit
  return stack.split('\n').slice(1)
}
