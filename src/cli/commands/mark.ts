// reprise mark: a person marks a checkpoint as bad, or takes that back.

import { type Command, flag, text } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { findTimeline } from '../find.ts'

const mark: Command = async ({ engine, args, options, output, env }) => {
  const head = await findTimeline(engine, args[0]!)
  const id = args[1]!
  const why = text(options, 'bad')
  if ((why === undefined) === !flag(options, 'good'))
    throw new UsageError('give --bad WHY, or --good to remove the mark')
  const by = text(options, 'by') ?? env.USER ?? env.USERNAME ?? 'somebody'
  if (why === undefined) await engine.unmarkCheckpoint(head.timeline, id)
  else await engine.markCheckpoint(head.timeline, id, { why, by })
  output.result({ timeline: head.timeline, checkpoint: id, bad: why ?? null, by }, () => {
    if (why === undefined) output.line(`checkpoint ${id} of ${head.timeline} counts again`)
    else output.line(`checkpoint ${id} of ${head.timeline} is no longer restored from`)
  })
  return exit.ok
}

export default mark
