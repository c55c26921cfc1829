// reprise settle: a person settles the outcome of a held step, or of a stuck compensation.

import { act } from '../../operations/act.ts'
import { type Command, text } from '../command.ts'
import { parseJson } from '../exit.ts'
import { findTimeline } from '../find.ts'
import { tell } from '../tell.ts'

const settle: Command = async ({ engine, args, options, output }) => {
  const [given, step, outcome] = args as [string, string, string]
  const json = text(options, 'result')
  const result = json === undefined ? {} : { result: parseJson(json, '--result') }
  const by = text(options, 'by') ?? process.env.USER ?? 'somebody'
  return tell(output, await act(engine, await findTimeline(engine, given), 'settle', { step, outcome, by, ...result }))
}

export default settle
