// reprise rollback: goes on from an earlier point. It says what would be undone, and does it with --yes (or when asked).

import { type Command, flag } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { findPlace } from '../find.ts'
import { count } from '../format.ts'
import { confirm } from '../prompt.ts'

const rollback: Command = async ({ engine, args, options, output, stdin }) => {
  if (!/@\d+$/.test(args[0]!)) throw new UsageError('say where to: reprise rollback TIMELINE@SEQ')
  const { head, seq } = await findPlace(engine, args[0]!)
  const question = `${head.timeline} goes back from ${head.seq} to ${seq}; what came after (${count(head.seq - seq, 'entry', 'entries')}) no longer counts. Go on?`
  if (!flag(options, 'yes') && !(await confirm(question, stdin, output))) {
    output.note('nothing was changed; --yes does it without asking')
    return exit.usage
  }
  const done = await engine.rollback(
    { timeline: head.timeline, seq },
    flag(options, 'takeover') ? { takeover: true } : {},
  )
  output.result(done, () => {
    if (done.asked) {
      const { from, undoes } = done.asked
      output.line(`${done.timeline} goes back to before ${from}; it does so where it is executed`)
      output.line(undoes.length > 0 ? `undone in this order: ${undoes.join(', ')}` : 'nothing has to be undone')
    }
    if (done.archive) output.line(`${done.timeline} goes on from ${done.to.seq}; what came after is ${done.archive}`)
    const { compensate, cannot, inDoubt } = done.effects
    if (compensate.length > 0)
      output.line(
        `${count(compensate.length, 'effect')} to compensate: ${compensate.map((effect) => effect.id).join(', ')}`,
      )
    if (cannot.length > 0)
      output.line(
        output.colours.yellow(
          `${count(cannot.length, 'effect')} cannot be undone: ${cannot.map((effect) => effect.id).join(', ')}`,
        ),
      )
    if (inDoubt.length > 0)
      output.line(
        output.colours.red(
          `${count(inDoubt.length, 'effect')} in doubt: ${inDoubt.map((effect) => effect.id).join(', ')}`,
        ),
      )
  })
  return exit.ok
}

export default rollback
