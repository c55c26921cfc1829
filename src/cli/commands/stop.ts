// reprise stop: stops a pipeline or a job so that it can be resumed: with a savepoint, or after the work in flight is
// finished.

import { act } from '../../operations/act.ts'
import { type Command, text } from '../command.ts'
import { findJob, findTimeline } from '../find.ts'
import { tell } from '../tell.ts'

const stop: Command = async ({ engine, args, options, output }) => {
  const reason = text(options, 'reason') ?? 'stopped by hand'
  const head = await findTimeline(engine, args[0]!).catch(async () => (await findJob(engine, args[0]!))[0]!)
  return tell(output, await act(engine, head, 'stop', { reason }))
}

export default stop
