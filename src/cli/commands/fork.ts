// reprise fork: a new timeline that shares history.

import type { Command } from '../command.ts'
import { exit } from '../exit.ts'
import { findPlace, idBeside } from '../find.ts'

const fork: Command = async ({ engine, args, output }) => {
  const { head, seq } = await findPlace(engine, args[0]!)
  const made = await engine.fork({ timeline: head.timeline, seq }, idBeside(engine, head, args[1]!))
  output.result(made, () => output.line(`${made.timeline} starts at ${made.parent}@${made.seq}`))
  return exit.ok
}

export default fork
