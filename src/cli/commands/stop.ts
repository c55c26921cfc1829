// reprise stop: asks a pipeline or a job to stop where it can go on: with a savepoint, or when what is in flight is finished.

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
