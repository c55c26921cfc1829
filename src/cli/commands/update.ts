// reprise update: changes a run through its handler, and waits for the handler's result.

import { type Command, duration, text } from '../command.ts'
import { exit, parseJson } from '../exit.ts'
import { toJson } from '../output.ts'
import { findRunOrCode } from '../runs.ts'

const update: Command = async ({ engine, args, options, output }) => {
  const [given, name, json] = args as [string, string, string | undefined]
  const { head, run } = await findRunOrCode(engine, given, 'update', options)
  const value = json === undefined ? undefined : parseJson(json, 'the argument')
  const key = text(options, 'key')
  const result = await run.update(name, value, {
    timeout: duration(options, 'timeout') ?? '10s',
    ...(key !== undefined && { key }),
  })
  output.result({ timeline: head.timeline, update: name, result: result ?? null }, () =>
    output.lines(toJson(result ?? null, 2)),
  )
  return exit.ok
}

export default update
