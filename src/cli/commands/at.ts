// reprise at: state as of a sequence.

import { foldFor } from '../../operations/models.ts'
import { plainState } from '../../operations/values.ts'
import type { Command } from '../command.ts'
import { exit } from '../exit.ts'
import { findPlace } from '../find.ts'
import { toJson } from '../output.ts'

const at: Command = async ({ engine, args, output }) => {
  const { head, seq } = await findPlace(engine, args[0]!)
  const past = await engine.at({ prefix: head.timeline, fold: foldFor(engine, head.timeline) }, undefined, { seq })
  const state = plainState(past.state)
  output.result({ coordinate: past.coordinate, state }, () => output.lines(toJson(state, 2)))
  return exit.ok
}

export default at
