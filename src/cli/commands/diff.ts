// reprise diff: what changed between two coordinates.

import { stateAt } from '../../operations/state-at.ts'
import { differences } from '../../operations/values.ts'
import type { Command } from '../command.ts'
import { exit } from '../exit.ts'
import { findPlace } from '../find.ts'
import { brief } from '../format.ts'
import { toJson } from '../output.ts'

const diff: Command = async ({ engine, args, output }) => {
  const [before, after] = await Promise.all([stateOf(args[0]!), stateOf(args[1]!)])
  const changes = differences(before.state, after.state)
  output.result({ before: before.coordinate, after: after.coordinate, changes }, () => {
    const { red, green, yellow } = output.colours
    const room = Math.max(20, Math.floor(output.columns / 3))
    if (changes.length === 0) output.note('no difference')
    for (const { path, kind, before: was, after: is } of changes) {
      if (kind === 'added') output.line(green(`+ ${path}: ${brief(toJson(is), room)}`))
      else if (kind === 'removed') output.line(red(`- ${path}: ${brief(toJson(was), room)}`))
      else output.line(yellow(`~ ${path}: ${brief(toJson(was), room)} → ${brief(toJson(is), room)}`))
    }
  })
  return exit.ok

  async function stateOf(given: string) {
    const { head, seq } = await findPlace(engine, given)
    return await stateAt(engine, { timeline: head.timeline, seq })
  }
}

export default diff
