// reprise at: state as of a sequence.

import { stateAt } from '../../operations/state-at.ts'
import type { Command } from '../command.ts'
import { exit } from '../exit.ts'
import { findPlace } from '../find.ts'
import { toJson } from '../output.ts'

const at: Command = async ({ engine, args, output }) => {
  const { head, seq } = await findPlace(engine, args[0]!)
  const { state, coordinate } = await stateAt(engine, { timeline: head.timeline, seq })
  output.result({ coordinate, state }, () => output.lines(toJson(state, 2)))
  return exit.ok
}

export default at
