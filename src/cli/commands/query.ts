// reprise query: calls a query handler of a run. The run itself is not affected.

import type { Command } from '../command.ts'
import { exit, parseJson } from '../exit.ts'
import { toJson } from '../output.ts'
import { findCode, findRun } from '../runs.ts'

const query: Command = async ({ engine, args, options, output }) => {
  const [given, name, ...rest] = args as [string, string, ...string[]]
  const values = rest.map((json) => parseJson(json, 'an argument'))
  // The built-in status needs none of the workflow's code.
  const isPlain = name === 'status' && values.length === 0
  const { head, run } = isPlain
    ? await findRun(engine, given, 'query')
    : await findCode(engine, given, 'query', options)
  const answer = isPlain ? (await run.status()).status : await run.query(name, ...values)
  output.result({ timeline: head.timeline, query: name, answer }, () => output.lines(toJson(answer, 2)))
  return exit.ok
}

export default query
