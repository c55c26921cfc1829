// reprise cancel: asks a run to stop. A workflow compensates; a job finishes what is in flight and stays resumable.

import { RepriseError } from '../../core/errors.ts'
import { isWithin } from '../../core/scope.ts'
import { stopJob } from '../../layers/job/index.ts'
import { type Command, text } from '../command.ts'
import { exit } from '../exit.ts'
import { findJob, findTimeline } from '../find.ts'

const cancel: Command = async ({ engine, args, options, output }) => {
  const reason = text(options, 'reason') ?? 'cancelled by hand'
  const head = await findTimeline(engine, args[0]!).catch(async () => (await findJob(engine, args[0]!))[0]!)
  if (isWithin('job/', head.timeline)) {
    const heads = await findJob(engine, args[0]!)
    const working = heads.filter((each) => each.owner && each.isOwnerAlive)
    for (const each of working) await stopJob(engine, each.timeline, reason)
    output.result({ asked: working.map((each) => each.timeline) }, () =>
      output.line(
        working.length > 0
          ? `asked ${args[0]} to stop; resume it whenever you like`
          : `nobody is working on ${args[0]}: there is nothing to stop`,
      ),
    )
    return exit.ok
  }
  if (!isWithin('workflow/', head.timeline)) {
    throw new RepriseError('INVALID_ARGUMENT', `${head.timeline} is neither a job nor a workflow`, {})
  }
  await engine.send(head.timeline, 'cancel', { reason })
  output.result({ asked: [head.timeline] }, () => output.line(`asked ${head.timeline} to stop`))
  return exit.ok
}

export default cancel
