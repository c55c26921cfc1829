// reprise check: recorded histories against the code of today, before it is deployed.

import { RepriseError } from '../../core/errors.ts'
import type { Command } from '../command.ts'
import { exit } from '../exit.ts'
import { count } from '../format.ts'
import { loadModule } from '../module.ts'

interface CheckReport {
  readonly ok: boolean
  readonly runs?: readonly { readonly timeline?: string; readonly ok: boolean; readonly reason?: string }[]
}

type Check = (engine: unknown, definitions: readonly unknown[]) => Promise<CheckReport>

const check: Command = async ({ engine, args, output }) => {
  const module = await loadModule(args[0]!)
  const definitions = Object.values(module).filter((value) => (value as { kind?: unknown } | null)?.kind === 'workflow')
  if (definitions.length === 0) throw new RepriseError('NOT_FOUND', `${args[0]} exports no workflow`, { file: args[0] })
  const layer = (await import('../../layers/workflow/index.ts')) as unknown as { checkDefinitions?: Check }
  if (!layer.checkDefinitions) throw new RepriseError('STORE_UNSUPPORTED', 'this build cannot check workflows yet', {})
  const report = await layer.checkDefinitions(engine, definitions)
  output.result(report, () => {
    for (const run of report.runs ?? []) if (!run.ok) output.line(`${run.timeline}: ${run.reason}`)
    output.line(
      report.ok ? output.colours.green('ok') : output.colours.red('the code no longer matches recorded histories'),
    )
    output.note(`${count(report.runs?.length ?? 0, 'run')} replayed`)
  })
  return report.ok ? exit.ok : exit.incompatible
}

export default check
