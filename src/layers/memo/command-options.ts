// The declaration of a command, and its validation.

import { RepriseError } from '../../core/errors.ts'
import { checkGivenOptions, namesOf } from '../../core/options.ts'
import { byFolder } from './input-files.ts'
import { checkRemembrance, type Remembrance } from './memo-entries.ts'
import { anchoredAll } from './patterns.ts'

export interface CommandOptions extends Remembrance {
  /** A shell command line, or a program with its arguments. */
  readonly cmd: string | readonly string[]
  /**
   * Input files, as patterns below `directory`: ['src/**', 'package.json']. A pattern that begins with `../` refers to a
   * parent folder: '../package-lock.json', '../neighbour/src/**'.
   */
  readonly inputs: readonly string[]
  /** Output files: ['dist/**']. Empty: only the result of the command is stored. */
  readonly outputs?: readonly string[]
  /**
   * Moves existing outputs aside while the command runs, so that it must write all of them. An output that it does not write
   * again is restored, and nothing is stored.
   */
  readonly clean?: boolean
  /** Environment variables that the command reads. */
  readonly env?: readonly string[]
  /** Programs on the PATH whose versions are part of the key: ['node', 'tsc']. */
  readonly tools?: readonly string[]
  /** Working directory of the command, and root of inputs and outputs. Default: the current working directory. */
  readonly directory?: string
  /** Change it to invalidate earlier results. */
  readonly version?: string | number
}

const known = namesOf<CommandOptions>()(
  'cmd inputs outputs clean env tools directory version ttl errors scope keep remote',
)

export function checkCommand(name: string, options: CommandOptions): void {
  checkGivenOptions(`command ${name}`, options, known)
  const { cmd, inputs, outputs, tools = [] } = options
  const isLine = typeof cmd === 'string' ? cmd.trim() !== '' : Array.isArray(cmd) && cmd.length > 0
  if (!isLine)
    throw new RepriseError('INVALID_ARGUMENT', `command ${name}: cmd must be a line or a list of words`, { name })
  if (!Array.isArray(inputs)) {
    const what = `command ${name}: inputs must be a list of patterns; an empty list means that it reads no files`
    throw new RepriseError('INVALID_ARGUMENT', what, { name })
  }
  anchoredAll([...[...byFolder(inputs).values()].flat(), ...(outputs ?? [])])
  if (!Array.isArray(tools) || !tools.every((tool) => typeof tool === 'string' && /^[^/\\\s]+$/.test(tool))) {
    const what = `command ${name}: tools must be a list of names on the PATH`
    throw new RepriseError('INVALID_ARGUMENT', what, { name, tools })
  }
  checkRemembrance(`command ${name}`, options)
}
