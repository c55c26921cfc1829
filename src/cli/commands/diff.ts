// reprise diff: the changes between two coordinates.

import { diffStates } from '../../operations/state-at.ts'
import type { Command } from '../command.ts'
import { exit } from '../exit.ts'
import { findPlace } from '../find.ts'
import { brief, count } from '../format.ts'
import { toJson } from '../output.ts'

const diff: Command = async ({ engine, args, output }) => {
  const [from, to] = await Promise.all([placeOf(args[0]!), placeOf(args[1]!)])
  const compared = await diffStates(engine, from, to)
  const { changes, isComplete } = compared
  output.result(compared, () => {
    const { red, green, yellow } = output.colours
    const room = Math.max(20, Math.floor(output.columns / 3))
    if (changes.length === 0) output.note('no difference')
    for (const { path, kind, before: was, after: is } of changes) {
      if (kind === 'added') output.line(green(`+ ${path}: ${brief(toJson(is), room)}`))
      else if (kind === 'removed') output.line(red(`- ${path}: ${brief(toJson(was), room)}`))
      else output.line(yellow(`~ ${path}: ${brief(toJson(was), room)} → ${brief(toJson(is), room)}`))
    }
    if (!isComplete) output.note(`only the first ${count(changes.length, 'difference')} are shown`)
  })
  return exit.ok

  async function placeOf(given: string) {
    const { head, seq } = await findPlace(engine, given)
    return { timeline: head.timeline, seq }
  }
}

export default diff
