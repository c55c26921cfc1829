// reprise erase: deletes a timeline and takes its bytes out of the files of the store; says what would go first.

import { type Command, flag } from '../command.ts'
import { exit } from '../exit.ts'
import { count } from '../format.ts'
import { tell } from './delete.ts'

const command: Command = async ({ engine, args, options, output }) => {
  const means = {
    forks: flag(options, 'forks'),
    savepoints: flag(options, 'savepoints'),
    unfinished: flag(options, 'unfinished'),
  }
  const id = args[0]!
  if (!flag(options, 'yes')) {
    const plan = await engine.erase(id, { ...means, dryRun: true })
    output.result(plan, () => tell(plan, output))
    output.note(plan.refusals.length > 0 ? 'nothing was erased' : 'nothing was erased; with --yes it is')
    return plan.refusals.length > 0 ? exit.conflict : exit.ok
  }
  const done = await engine.erase(id, means)
  // A typing error must not look like success: what was erased before is told apart by nobody.
  if (done.timelines.length === 0) output.note(`there is no timeline ${id}; what was erased before is out of the files`)
  output.result(done, () => {
    for (const { timeline } of done.timelines) output.line(`erased ${timeline}`)
    output.line(`${count(done.chunks, 'chunk')} taken out`)
    for (const where of done.remains) output.line(`may be left: ${where}`)
  })
  return exit.ok
}

export default command
