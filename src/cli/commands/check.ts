// reprise check: recorded histories against the code of today, before it is deployed. Exit code 9 if one would diverge.

import { RepriseError } from '../../core/errors.ts'
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
  const histories = await Promise.all(files.map((file) => loadHistory(file)))
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

function isWorkflow(value: unknown): value is WorkflowDefinition {
  return (value as { kind?: unknown } | null)?.kind === 'workflow'
}
