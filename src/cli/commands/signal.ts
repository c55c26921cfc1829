// reprise signal: a message to a run, durable before this command ends.

import { RepriseError } from '../../core/errors.ts'
import { isWithin } from '../../core/scope.ts'
import type { Command } from '../command.ts'
import { exit, parseJson } from '../exit.ts'
import { findTimeline } from '../find.ts'

const signal: Command = async ({ engine, args, output }) => {
  const [given, name, json] = args as [string, string, string | undefined]
  const head = await findTimeline(engine, given)
  if (!isWithin('workflow/', head.timeline)) {
    throw new RepriseError(
      'INVALID_ARGUMENT',
      `${head.timeline} is not a workflow: only workflows wait for signals`,
      {},
    )
  }
  const id = await engine.send(
    head.timeline,
    'signal',
    json === undefined ? { name } : { name, value: parseJson(json, 'the value') },
  )
  output.result({ timeline: head.timeline, signal: name, message: id }, () =>
    output.line(`sent ${name} to ${head.timeline}`),
  )
  return exit.ok
}

export default signal
