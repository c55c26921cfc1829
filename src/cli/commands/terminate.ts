// reprise terminate: ends a run at once, without compensation.

import { act, mayAct } from '../../operations/act.ts'
import { type Command, flag, text } from '../command.ts'
import { exit } from '../exit.ts'
import { findTimeline } from '../find.ts'
import { confirm } from '../prompt.ts'
import { tell } from '../tell.ts'

const terminate: Command = async ({ engine, args, options, output, stdin }) => {
  const head = await findTimeline(engine, args[0]!)
  // A refusal is reported before the question.
  await mayAct(engine, head, 'terminate')
  const question = `${head.timeline} ends at once, and nothing it did is undone. Go on?`
  if (!flag(options, 'yes') && !(await confirm(question, stdin, output))) {
    output.note('nothing was changed; --yes does it without asking')
    return exit.usage
  }
  return tell(output, await act(engine, head, 'terminate', { reason: text(options, 'reason') ?? 'terminated by hand' }))
}

export default terminate
