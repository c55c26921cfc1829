// reprise prune: the data that retention would remove, and why. Removes it only with --yes.

import { type Command, flag } from '../command.ts'
import { exit } from '../exit.ts'
import { bytes, count } from '../format.ts'

const prune: Command = async ({ engine, options, output }) => {
  const dryRun = !flag(options, 'yes')
  const report = await engine.collect({ dryRun })
  output.result(report, () => {
    const verb = dryRun ? 'would drop' : 'dropped'
    for (const { timeline, drop, floor, floorBefore, refused } of report.timelines) {
      for (const { id, because } of drop) output.line(`${timeline}: ${verb} checkpoint ${id}: ${because}`)
      if (floor.seq > floorBefore) output.line(`${timeline}: history up to ${floor.seq} may go: ${floor.because}`)
      else if (floor.heldBy.length > 0) output.line(`${timeline}: no more history may go: ${floor.because}`)
      for (const reason of refused) output.line(output.colours.yellow(`${timeline}: refused: ${reason}`))
    }
    for (const timeline of report.forks.expired) output.line(`${dryRun ? 'would delete' : 'deleted'} fork ${timeline}`)
    for (const { timeline, because } of report.forks.kept) output.note(`fork ${timeline} is kept: ${because}`)
    for (const { timeline, because } of report.unknown) output.note(`${timeline}: left as it is: ${because}`)
    const { swept, sweptBytes, tooYoung, live, unreadable } = report.chunks
    for (const { timeline, seq, because } of unreadable)
      output.line(output.colours.yellow(`${timeline}: the checkpoint at ${seq} cannot be read: ${because}`))
    if (unreadable.length > 0)
      output.line(
        'no chunk goes while one cannot be read: reprise verify --repair mends it, and reprise delete removes it',
      )
    output.line(
      `${dryRun ? 'would free' : 'freed'} ${count(swept, 'chunk')}, ${bytes(sweptBytes)}; ${live} in use, ${tooYoung} too young to judge`,
    )
    if (dryRun) output.note('nothing was changed; reprise prune --yes does it')
  })
  return exit.ok
}

export default prune
