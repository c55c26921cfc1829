// reprise signal: a message to a run, durable before this command ends.

import { act } from '../../operations/act.ts'
import type { Command } from '../command.ts'
import { parseJson } from '../exit.ts'
import { findTimeline } from '../find.ts'
import { tell } from '../tell.ts'

const signal: Command = async ({ engine, args, output }) => {
  const [given, name, json] = args as [string, string, string | undefined]
  const head = await findTimeline(engine, given)
  const value = json === undefined ? {} : { value: parseJson(json, 'the value') }
  return tell(output, await act(engine, head, 'signal', { name, ...value }))
}

export default signal
