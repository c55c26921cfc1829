// reprise changes: restores, imports, moves, rekeys and other long changes that began and did not finish. Each is resumed or
// abandoned here.

import { RepriseError } from '../../core/errors.ts'
import { changeWords } from '../../engine/storage/store-change.ts'
import { type Command, flag } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { count } from '../format.ts'
import { confirm } from '../prompt.ts'

const changes: Command = async ({ engine, args, options, output, stdin }) => {
  const [id] = args
  const isResume = flag(options, 'resume')
  const isAbandon = flag(options, 'abandon')
  if (isResume && isAbandon) throw new UsageError('give --resume or --abandon, not both')
  if ((isResume || isAbandon) && id === undefined) throw new UsageError('name the change: reprise changes lists them')
  if (isResume) {
    await engine.resumeChange(id!)
    output.result({ id, isResumed: true }, () => output.line(`${id} has finished`))
    return exit.ok
  }
  const listed = (await engine.changes()).filter((change) => id === undefined || change.id === id)
  if (id !== undefined && listed.length === 0) {
    throw new RepriseError(
      'NOT_FOUND',
      `there is no unfinished change ${id}`,
      { id },
      undefined,
      'reprise changes lists them.',
    )
  }
  if (isAbandon) {
    const question = `${listed.map(changeWords).join()}. Undo it, and delete what it brought?`
    if (listed.length > 0 && !flag(options, 'yes') && !(await confirm(question, stdin, output))) {
      throw new UsageError('nothing was abandoned', `if you mean it: reprise changes ${id} --abandon --yes`)
    }
    const report = await engine.abandonChange(id!)
    output.result(report, () =>
      output.line(`${id} is abandoned: ${count(report.timelines, 'timeline')} removed or given back`),
    )
    return exit.ok
  }
  output.result(listed, () => {
    for (const change of listed) output.line(`${change.id}  ${changeWords(change)}`)
    if (listed.length === 0) output.line('no change is unfinished')
    else output.note('reprise changes ID --resume continues one; reprise changes ID --abandon undoes it')
  })
  return listed.some(({ isRunning }) => !isRunning) ? exit.partly : exit.ok
}

export default changes
