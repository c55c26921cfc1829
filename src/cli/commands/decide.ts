// reprise decide: a person's decision that a session waits for.

import { act } from '../../operations/act.ts'
import { type Command, text } from '../command.ts'
import { findTimeline } from '../find.ts'
import { tell } from '../tell.ts'

const decide: Command = async ({ engine, args, options, output }) => {
  const [given, verdict] = args as [string, string]
  const by = text(options, 'by') ?? process.env.USER ?? 'somebody'
  const reason = text(options, 'reason')
  const said = { verdict, by, ...(reason !== undefined && { reason }) }
  return tell(output, await act(engine, await findTimeline(engine, given), 'decide', said))
}

export default decide
