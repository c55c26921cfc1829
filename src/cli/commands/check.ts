// reprise check: recorded histories against the current code, before it is deployed. Exit code 9 if one would diverge.

import { existsSync } from 'node:fs'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { checkDefinitions, loadHistory, type WorkflowDefinition } from '../../layers/workflow/index.ts'
import { type Command, flag } from '../command.ts'
import { exit } from '../exit.ts'
import { count } from '../format.ts'
import { loadModule } from '../module.ts'

const check: Command = async ({ engine, args, options, output }) => {
  const module = await loadModule(args[0]!)
  const definitions = Object.values(module).filter(isWorkflow)
  if (definitions.length === 0) throw new RepriseError('NOT_FOUND', `${args[0]} exports no workflow`, { file: args[0] })
  const files = (options.history ?? []) as readonly string[]
  const histories = await Promise.all(files.map(historyIn))
  const report = await checkDefinitions(engine, definitions, { histories, ended: flag(options, 'ended') })
  output.result(report, () => {
    const { green, red } = output.colours
    for (const { timeline, step, problem } of report.diverging) {
      output.line(red(`${timeline}${step ? ` at ${step}` : ''}: ${problem}`))
    }
    output.line(
      `${report.ok ? green('ok') : red(count(report.diverging.length, 'run'))} of ${count(report.checked, 'run')} replayed`,
    )
    if (report.unknown.length > 0) output.note(`not checked, not exported by ${args[0]}: ${report.unknown.join(', ')}`)
  })
  return report.ok ? exit.ok : exit.incompatible
}

export default check

async function historyIn(file: string) {
  if (!existsSync(file)) throw new RepriseError('NOT_FOUND', `there is no file ${file}`, { file })
  try {
    return await loadHistory(file)
  } catch (error) {
    if (isReprise(error)) throw error
    throw new RepriseError('MALFORMED', `${file} is not the recorded history of a workflow`, { file }, error)
  }
}

function isWorkflow(value: unknown): value is WorkflowDefinition {
  return (value as { kind?: unknown } | null)?.kind === 'workflow'
}
