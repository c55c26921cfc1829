// What is declared of a command, and checked when it is.

import { RepriseError } from '../../core/errors.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import { anchoredAll } from './patterns.ts'
import { checkRemembrance, type Remembrance } from './remembering.ts'

export interface CommandOptions extends Remembrance {
  /** A line for the shell, or a program and its arguments. */
  readonly cmd: string | readonly string[]
  /** Files that it reads, as patterns below `directory`: ['src/**', 'package.json']. */
  readonly inputs: readonly string[]
  /** Files that it writes: ['dist/**']. Empty: it is remembered for its result alone. */
  readonly outputs?: readonly string[]
  /** Files that match the outputs are removed before it runs, so that what it leaves is what it made. */
  readonly clean?: boolean
  /** Environment variables that it reads. */
  readonly env?: readonly string[]
  /** Where it runs, and where inputs and outputs lie; the working directory if left out. */
  readonly directory?: string
  /** Raise it to make earlier results count no more. */
  readonly version?: string | number
}

const known = namesOf<CommandOptions>({
  cmd: true,
  inputs: true,
  outputs: true,
  clean: true,
  env: true,
  directory: true,
  version: true,
  ttl: true,
  errors: true,
  scope: true,
  keep: true,
  remote: true,
})

export function checkCommand(name: string, options: CommandOptions): void {
  checkOptions(`command ${name}`, options, known)
  const { cmd, inputs, outputs } = options
  const isLine = typeof cmd === 'string' ? cmd.trim() !== '' : Array.isArray(cmd) && cmd.length > 0
  if (!isLine)
    throw new RepriseError('INVALID_ARGUMENT', `command ${name}: cmd must be a line or a list of words`, { name })
  if (!Array.isArray(inputs)) {
    const what = `command ${name}: inputs must be a list of patterns; an empty one says that it reads no files`
    throw new RepriseError('INVALID_ARGUMENT', what, { name })
  }
  anchoredAll([...inputs, ...(outputs ?? [])])
  checkRemembrance(`command ${name}`, options)
}
