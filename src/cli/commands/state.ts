// reprise state get: what an operator of a pipeline has of a key, as of its newest checkpoint or another one. The pipeline may
// be running: nothing is taken from it.

import { idBelow } from '../../core/scope.ts'
import { readPipelineState } from '../../layers/pipeline/index.ts'
import { type Command, flag, text } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { brief } from '../format.ts'
import { toJson } from '../output.ts'

const state: Command = async ({ engine, args, options, output }) => {
  const [verb, given, operator, key] = args as [string, string, string, string]
  if (verb !== 'get')
    throw new UsageError(`there is no reprise state ${verb}`, 'reprise state get PIPELINE OPERATOR KEY')
  const timeline = `pipeline/${idBelow('pipeline/', given) ?? given}`
  const checkpoint = text(options, 'checkpoint')
  const cells = await readPipelineState(engine, timeline, operator, flag(options, 'number') ? Number(key) : key, {
    ...(checkpoint !== undefined && { checkpoint }),
  })
  output.result(cells, () => {
    if (cells.length === 0)
      return output.note(`${operator} has nothing of ${key}; --number looks for a key that is a number`)
    return output.table(
      ['TABLE', 'WINDOW', 'VALUE'],
      cells.map(({ table, space, value }) => [table, String(space), brief(toJson(value), 200)]),
    )
  })
  return cells.length === 0 ? exit.notFound : exit.ok
}

export default state
