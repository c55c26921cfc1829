// reprise rebuild: builds a projection anew beside the one that is read, and swaps when it has caught up.

import { RepriseError } from '../../core/errors.ts'
import type { ProjectionDefinition } from '../../layers/events/index.ts'
import type { Command } from '../command.ts'
import { exit } from '../exit.ts'
import { count, ms } from '../format.ts'
import { loadModule } from '../module.ts'

const tellEveryMs = 2000

const rebuild: Command = async ({ engine, args, output }) => {
  const [file, name] = args as [string, string | undefined]
  const exported = Object.values(await loadModule(file)).filter(isProjection)
  const chosen = name === undefined ? exported : exported.filter((each) => each.name === name)
  if (chosen.length !== 1) {
    const known = exported.map((each) => each.name).join(', ')
    const what =
      exported.length === 0 ? `${file} exports no projection` : `${file} exports the projections ${known}: say which`
    throw new RepriseError(exported.length === 0 || chosen.length === 0 ? 'NOT_FOUND' : 'INVALID_ARGUMENT', what, {
      file,
    })
  }
  const started = Date.now()
  const handle = await engine.open(chosen[0]!)
  let applied = 0
  let toldAt = started
  try {
    await handle.rebuild({
      onProgress: (progress) => {
        applied = progress.applied
        if (Date.now() - toldAt < tellEveryMs) return
        toldAt = Date.now()
        output.note(`${count(applied, 'event')} applied`)
      },
    })
  } finally {
    await handle.close()
  }
  const elapsedMs = Date.now() - started
  output.result({ projection: chosen[0]!.name, applied, elapsedMs }, () =>
    output.line(`rebuilt ${chosen[0]!.name}: ${count(applied, 'event')} in ${ms(elapsedMs)}`),
  )
  return exit.ok
}

export default rebuild

function isProjection(value: unknown): value is ProjectionDefinition<unknown> {
  return (value as { kind?: unknown } | null)?.kind === 'projection'
}
