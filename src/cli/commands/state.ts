// reprise state: the state of a key in an operator of a pipeline, as of its newest checkpoint or another one, and the
// differences between two. The pipeline may be running, and is not affected.

import { RepriseError } from '../../core/errors.ts'
import { idBelow } from '../../core/history/scope.ts'
import { comparePipelineState, readPipelineState } from '../../layers/pipeline/index.ts'
import { type Command, flag, text } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { findTimeline } from '../find-timeline.ts'
import { brief } from '../format.ts'
import { toJson } from '../output.ts'

const usage =
  'reprise state get PIPELINE OPERATOR KEY, or reprise state diff PIPELINE OPERATOR [KEY] --before CHECKPOINT'

const state: Command = async ({ engine, args, options, output }) => {
  const [verb, given, operator, word] = args as [string, string, string, string | undefined]
  const before = text(options, 'before')
  const isAsked = verb === 'get' ? word !== undefined && before === undefined : verb === 'diff' && before !== undefined
  if (!isAsked) throw new UsageError(`reprise state ${verb} needs other arguments`, usage)
  const timeline = `pipeline/${idBelow('pipeline/', given) ?? given}`
  if (!(await engine.head(timeline))) {
    // Names the timeline's actual kind, if it exists.
    const { timeline: other } = await findTimeline(engine, given)
    const what = `${other} is not a pipeline and has no operators: reprise at ${other} shows its state`
    throw new RepriseError('INVALID_ARGUMENT', what, { timeline: other })
  }
  const checkpoint = text(options, 'checkpoint')
  const key = word === undefined ? undefined : flag(options, 'number') ? Number(word) : word
  const shown = (value: unknown) => (value === undefined ? '-' : brief(toJson(value), 200))
  if (before !== undefined) {
    const wanted = { before, ...(checkpoint !== undefined && { after: checkpoint }), ...(key !== undefined && { key }) }
    const changes = await comparePipelineState(engine, timeline, operator, wanted)
    output.result(changes, () => {
      if (changes.length === 0) return output.note('nothing differs')
      return output.table(
        ['KEY', 'TABLE', 'WINDOW', 'BEFORE', 'AFTER'],
        changes.map((each) => [
          ...[String(each.key), each.table, String(each.space), shown(each.before), shown(each.after)],
        ]),
      )
    })
    return exit.ok
  }
  const of = checkpoint === undefined ? {} : { checkpoint }
  const cells = await readPipelineState(engine, timeline, operator, key!, of)
  output.result(cells, () => {
    if (cells.length === 0)
      return output.note(`${operator} has no state for ${word}; --number searches for a numeric key`)
    return output.table(
      ['TABLE', 'WINDOW', 'VALUE'],
      cells.map(({ table, space, value }) => [table, String(space), shown(value)]),
    )
  })
  return cells.length === 0 ? exit.notFound : exit.ok
}

export default state
