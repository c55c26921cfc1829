// reprise fork: a new timeline that shares history, and optionally continues with edited values.

import { forkAt } from '../../operations/fork.ts'
import { type Command, list, text } from '../command.ts'
import { exit, parseJson, UsageError } from '../exit.ts'
import { findPlace, idBeside } from '../find-timeline.ts'

const fork: Command = async ({ engine, args, options, output }) => {
  const { head, seq } = await findPlace(engine, args[0]!)
  const isPlaced = /@\d+$/.test(args[0]!)
  const input = text(options, 'input')
  const assignments = list(options, 'set').map(assignment)
  const set = Object.fromEntries(assignments)
  const twice = assignments.find(([name], at) => assignments.findIndex(([other]) => other === name) !== at)
  if (twice) throw new UsageError(`--set ${twice[0]} is set twice`, 'omit one of them')
  const unset = list(options, 'unset')
  const edits = [...Object.keys(set), ...unset, ...(input === undefined ? [] : ['input'])]
  const made = await forkAt(engine, head, isPlaced ? seq : undefined, idBeside(engine, head, args[1]!), {
    set,
    unset,
    by: text(options, 'by') ?? process.env.USER ?? 'somebody',
    ...(input !== undefined && { input: parseJson(input, '--input') }),
  })
  const edited = edits.length > 0 ? `, with ${edits.join(', ')} edited` : ''
  output.result(made, () => output.line(`${made.timeline} starts at ${made.parent}@${made.seq}${edited}`))
  return exit.ok
}

/** NAME=JSON, where the name may contain a = as well: the remainder is JSON. */
function assignment(given: string): [name: string, value: unknown] {
  for (let at = given.indexOf('='); at > 0; at = given.indexOf('=', at + 1)) {
    try {
      JSON.parse(given.slice(at + 1))
    } catch {
      // The = was part of the name, or there is no JSON at all.
      continue
    }
    return [given.slice(0, at), parseJson(given.slice(at + 1), `--set ${given.slice(0, at)}`)]
  }
  const at = given.indexOf('=')
  if (at > 0) parseJson(given.slice(at + 1), `--set ${given.slice(0, at)}`)
  throw new UsageError(`--set must be NAME=JSON (got ${given})`, 'for example --set \'charge={"ok":true}\'')
}

export default fork
