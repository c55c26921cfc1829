// The error for a call that workflow code may not make: it names the call, the line that made it, and the cure.

import { fileURLToPath } from 'node:url'
import { RepriseError } from '../../core/errors.ts'

/** Our own files, which stand between the caller and this. */
const ownFolder = fileURLToPath(new URL('.', import.meta.url))

/** Null: it is the module loader that calls, on behalf of an import. */
export function refusal(call: string): RepriseError | null {
  const lines = stackOf()
  if (lines.some((line) => line.includes('node:internal/modules/'))) return null
  const at = lines.find((line) => !isOurs(line) && !line.includes('node:')) ?? ''
  const where = /\(?((?:file:\/\/)?[^()\s]+:\d+:\d+)\)?$/.exec(at)?.[1]?.replace('file://', '') ?? 'an unknown line'
  return new RepriseError(
    'NON_DETERMINISTIC',
    `${call} was called by workflow code at ${where}: put it in a step, as in ctx.step('name', () => ${call}(…))`,
    { call, at: where },
  )
}

function isOurs(line: string): boolean {
  return line.includes(ownFolder) && !/\.test\.[tj]s/.test(line)
}

function stackOf(): string[] {
  const limit = Error.stackTraceLimit
  Error.stackTraceLimit = 30
  const { stack = '' } = new Error('where')
  Error.stackTraceLimit = limit
  return stack.split('\n').slice(1)
}
