// reprise at: state as of a sequence.

import type { Command } from '../command.ts'
import { exit } from '../exit.ts'
import { findPlace } from '../find.ts'
import { foldFor } from '../models.ts'
import { toJson } from '../output.ts'
import { plainState } from '../values.ts'

const at: Command = async ({ engine, args, output }) => {
  const { head, seq } = await findPlace(engine, args[0]!)
  const past = await engine.at({ prefix: head.timeline, fold: foldFor(engine, head.timeline) }, undefined, { seq })
  const state = plainState(past.state)
  output.result({ coordinate: past.coordinate, state }, () => output.lines(toJson(state, 2)))
  return exit.ok
}

export default at
