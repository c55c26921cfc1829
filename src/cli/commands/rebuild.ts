// reprise rebuild: builds a second generation of a projection beside the live one, and swaps when it has caught up.

import type { ProjectionDefinition } from '../../layers/events/index.ts'
import { type Command, text } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { oneOf } from '../find-definition.ts'
import { count, ms } from '../format.ts'
import { loadModule } from '../module.ts'

const reportEveryMs = 2000

const rebuild: Command = async ({ engine, args, options, output }) => {
  const module = text(options, 'module')
  const [file, name] = module === undefined ? args : [module, ...args]
  if (file === undefined || args.length + (module === undefined ? 0 : 1) > 2) {
    throw new UsageError('rebuild takes a module and one projection', 'reprise rebuild FILE PROJECTION')
  }
  const chosen = oneOf(Object.values(await loadModule(file)).filter(isProjection), name, 'projection', file)
  const started = Date.now()
  const handle = await engine.open(chosen)
  let applied = 0
  let reportedAt = started
  try {
    await handle.rebuild({
      onProgress: (progress) => {
        applied = progress.applied
        if (Date.now() - reportedAt < reportEveryMs) return
        reportedAt = Date.now()
        output.note(`${count(applied, 'event')} applied`)
      },
    })
  } finally {
    await handle.close()
  }
  const elapsedMs = Date.now() - started
  output.result({ projection: chosen.name, applied, elapsedMs }, () =>
    output.line(`rebuilt ${chosen.name}: ${count(applied, 'event')} in ${ms(elapsedMs)}`),
  )
  return exit.ok
}

export default rebuild

function isProjection(value: unknown): value is ProjectionDefinition<unknown> {
  return (value as { kind?: unknown } | null)?.kind === 'projection'
}
