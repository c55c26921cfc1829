// reprise cancel: cancels a run. A workflow compensates, a job finishes the items in flight, a pipeline ends at once.

import { act } from '../../operations/act.ts'
import { type Command, flag, text } from '../command.ts'
import { findJob, findTimeline } from '../find.ts'
import { tell } from '../tell.ts'

const cancel: Command = async ({ engine, args, options, output }) => {
  const reason = text(options, 'reason') ?? 'cancelled by hand'
  const head = await findTimeline(engine, args[0]!).catch(async () => (await findJob(engine, args[0]!))[0]!)
  const undo = flag(options, 'undo-inherited') ? { undo: 'inherited' } : {}
  return tell(output, await act(engine, head, 'cancel', { reason, ...undo }))
}

export default cancel
