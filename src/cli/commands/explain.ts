// reprise explain: the meaning of an error code and its remedy.

import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type ErrorCode, errorCodes, explain as explainCode } from '../../core/errors.ts'
import type { Command } from '../command.ts'
import { exit, UsageError } from '../exit.ts'

/** In the package, where this file is below dist. */
const page = fileURLToPath(new URL('../../../docs/errors.md', import.meta.url))

const next = {
  retry: 'repeat the same call',
  reload: 'read the current state and decide again',
  fix: 'correct the input, then try again',
  stop: 'stop and investigate',
} as const

const explain: Command = ({ args, output }) => {
  if (args[0] === undefined) {
    const all = errorCodes().map((code) => explainCode(code))
    output.result(all, () =>
      output.table(
        ['CODE', 'DO', 'CURE'],
        all.map(({ code, remedy, hint }) => [code, remedy, hint]),
      ),
    )
    return exit.ok
  }
  const code = args[0].toUpperCase()
  if (!(errorCodes() as readonly string[]).includes(code)) {
    throw new UsageError(`there is no error code ${args[0]}`, 'reprise explain lists them')
  }
  const meaning = explainCode(code as ErrorCode)
  output.result(meaning, () => {
    output.line(output.colours.bold(meaning.code))
    output.facts([
      ['cure', meaning.hint],
      ['next', next[meaning.remedy]],
      ['page', `${relative('.', page) || page}#${meaning.code.toLowerCase()}`],
    ])
  })
  return exit.ok
}

export default explain
