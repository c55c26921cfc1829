// What is declared of a command, and checked when it is.

import { RepriseError } from '../../core/errors.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import { byFolder } from './input-files.ts'
import { anchoredAll } from './patterns.ts'
import { checkRemembrance, type Remembrance } from './remembering.ts'

export interface CommandOptions extends Remembrance {
  /** A line for the shell, or a program and its arguments. */
  readonly cmd: string | readonly string[]
  /**
   * Files that it reads, as patterns below `directory`: ['src/**', 'package.json']. One that begins with `../` is below a folder
   * above it: '../package-lock.json', '../neighbour/src/**'.
   */
  readonly inputs: readonly string[]
  /** Files that it writes: ['dist/**']. Empty: it is remembered for its result alone. */
  readonly outputs?: readonly string[]
  /**
   * Files that match the outputs are set aside while it runs, so that it makes all of them. If it does not write one of them
   * again, that one is put back, and nothing is kept.
   */
  readonly clean?: boolean
  /** Environment variables that it reads. */
  readonly env?: readonly string[]
  /** Programs on the PATH whose versions are part of the key: ['node', 'tsc']. */
  readonly tools?: readonly string[]
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
  tools: true,
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
  const { cmd, inputs, outputs, tools = [] } = options
  const isLine = typeof cmd === 'string' ? cmd.trim() !== '' : Array.isArray(cmd) && cmd.length > 0
  if (!isLine)
    throw new RepriseError('INVALID_ARGUMENT', `command ${name}: cmd must be a line or a list of words`, { name })
  if (!Array.isArray(inputs)) {
    const what = `command ${name}: inputs must be a list of patterns; an empty one says that it reads no files`
    throw new RepriseError('INVALID_ARGUMENT', what, { name })
  }
  anchoredAll([...[...byFolder(inputs).values()].flat(), ...(outputs ?? [])])
  if (!Array.isArray(tools) || !tools.every((tool) => typeof tool === 'string' && /^[^/\\\s]+$/.test(tool))) {
    const what = `command ${name}: tools must be a list of names on the PATH`
    throw new RepriseError('INVALID_ARGUMENT', what, { name, tools })
  }
  checkRemembrance(`command ${name}`, options)
}
