// reprise erase: deletes a timeline and takes its bytes out of the files of the store; says what would go first.

import { isReprise, RepriseError } from '../../core/errors.ts'
import { type Command, flag } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { findTimeline } from '../find.ts'
import { count } from '../format.ts'
import { tell } from './delete.ts'

const command: Command = async ({ engine, args, options, output }) => {
  const means = {
    forks: flag(options, 'forks'),
    savepoints: flag(options, 'savepoints'),
    unfinished: flag(options, 'unfinished'),
  }
  const found = await findTimeline(engine, args[0]!).catch((error) => {
    if (!isReprise(error, 'NOT_FOUND')) throw error
    return null
  })
  if (!flag(options, 'yes')) {
    const plan = await engine.erase(found?.timeline ?? args[0]!, { ...means, dryRun: true })
    output.result(plan, () => tell(plan, output))
    output.note(plan.refusals.length > 0 ? 'nothing was erased' : 'nothing was erased; with --yes it is')
    return plan.refusals.length > 0 ? exit.conflict : exit.ok
  }
  if (found && found.timeline !== args[0]) {
    throw new UsageError(`${args[0]} is not a whole id`, `if you mean it: reprise erase ${found.timeline} --yes`)
  }
  const done = await engine.erase(args[0]!, means)
  if (done.timelines.length === 0) {
    // An interrupted erasure may have deleted it already: its bytes are out of the files now. A typing error looks the same.
    const what = `there is no timeline ${args[0]}: nothing was erased, only what earlier erasures had left was taken out`
    throw new RepriseError('NOT_FOUND', what, { timeline: args[0] })
  }
  output.result(done, () => {
    for (const { timeline } of done.timelines) output.line(`erased ${timeline}`)
    output.line(`${count(done.chunks, 'chunk')} taken out`)
    for (const where of done.remains) output.line(`may be left: ${where}`)
  })
  return exit.ok
}

export default command
