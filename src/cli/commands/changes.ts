// reprise changes: restores, imports, moves, rekeys and other long changes that began and did not finish, and what repairs
// lost. A change is resumed or abandoned here; a loss is given up (give-up).

import { RepriseError } from '../../core/errors.ts'
import { lossWords } from '../../engine/storage/losses.ts'
import { changeWords } from '../../engine/storage/store-change.ts'
import { type Command, flag, type Invocation, refuseOptions, text } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { count } from '../format.ts'
import { registerKnown } from '../models.ts'
import { confirm } from '../prompt.ts'
import { openEngine } from '../store.ts'

const changes: Command = async (invocation) => {
  const { engine, args, options, output, stdin } = invocation
  const [id] = args
  const isResume = flag(options, 'resume')
  const isAbandon = flag(options, 'abandon')
  if (isResume && isAbandon) throw new UsageError('--resume and --abandon exclude each other')
  if ((isResume || isAbandon) && id === undefined) throw new UsageError('name the change: reprise changes lists them')
  if (!isResume) refuseOptions(options, ['to', 'from'], 'only with --resume')
  if (text(options, 'to') !== undefined) refuseOptions(options, ['from'], '--to and --from exclude each other')
  const losses = (await engine.losses()).filter((loss) => id === undefined || loss.id === id)
  if ((isResume || isAbandon) && losses.length > 0)
    throw new UsageError(`${id} is a loss`, `to accept the loss: reprise give-up ${id} --by NAME --reason TEXT --yes`)
  if (isResume) {
    await resume(invocation, id!)
    output.result({ id, isResumed: true }, () => output.line(`${id} has finished`))
    return exit.ok
  }
  const listed = (await engine.changes()).filter((change) => id === undefined || change.id === id)
  if (id !== undefined && listed.length + losses.length === 0) {
    throw new RepriseError(
      'NOT_FOUND',
      `there is no unfinished change ${id}`,
      { id },
      undefined,
      'reprise changes lists them.',
    )
  }
  if (isAbandon) {
    const question = `${listed.map(changeWords).join()}. Undo it, and delete its data?`
    if (listed.length > 0 && !flag(options, 'yes') && !(await confirm(question, stdin, output))) {
      throw new UsageError('nothing was abandoned', `if you mean it: reprise changes ${id} --abandon --yes`)
    }
    const report = await engine.abandonChange(id!)
    output.result(report, () =>
      output.line(`${id} is abandoned: ${count(report.timelines, 'timeline')} removed or restored`),
    )
    return exit.ok
  }
  output.result([...listed, ...losses.map((loss) => ({ kind: 'loss', ...loss }))], () => {
    for (const change of listed) output.line(`${change.id}  ${changeWords(change)}`)
    for (const loss of losses) output.line(`${loss.id}  ${lossWords(loss)}`)
    if (listed.length + losses.length === 0) output.line('no change is unfinished')
    if (listed.length > 0)
      output.note('reprise changes ID --resume resumes one; reprise changes ID --abandon undoes it')
    if (losses.length > 0)
      output.note('restore a backup, or accept a loss: reprise give-up ID --by NAME --reason TEXT --yes')
  })
  return losses.length > 0 || listed.some(({ isRunning }) => !isRunning) ? exit.partly : exit.ok
}

/** A move between stores needs the other one; its address is passed here, since a note has no credentials. */
async function resume({ engine, options }: Invocation, id: string): Promise<void> {
  const url = text(options, 'to') ?? text(options, 'from')
  if (url === undefined) return await engine.resumeChange(id)
  const namespace = text(options, 'namespace')
  const other = await openEngine({ url, ...(namespace !== undefined && { namespace }) })
  try {
    await registerKnown(other, text(options, 'module'))
    await engine.resumeChange(id, { other })
  } finally {
    await other.close()
  }
}

export default changes
