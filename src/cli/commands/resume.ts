// reprise resume: goes on with what was started by `reprise run` and did not finish.

import { RepriseError } from '../../core/errors.ts'
import type { Head } from '../../core/ports.ts'
import type { Command } from '../command.ts'
import { exit } from '../exit.ts'
import { findJob } from '../find.ts'
import { loadModule } from '../module.ts'
import { execute, pick } from './run.ts'

const unfinished = ['running', 'stopped']

const resume: Command = async ({ engine, args, options, output }) => {
  const heads = args[0] === undefined ? await open() : await findJob(engine, args[0])
  const started = new Map<string, { file: string; name: string }>()
  for (const { attributes } of heads) {
    if (typeof attributes.module !== 'string' || typeof attributes.definition !== 'string') continue
    started.set(`${attributes.module}#${attributes.definition}`, {
      file: attributes.module,
      name: attributes.definition,
    })
  }
  if (started.size === 0) {
    if (args[0] !== undefined && heads.length > 0) {
      throw new RepriseError(
        'NOT_FOUND',
        `${args[0]} was not started by reprise run: run its program again to go on`,
        {},
      )
    }
    output.note('nothing to resume: all that was started is finished')
    return exit.ok
  }
  let worst: number = exit.ok
  for (const { file, name } of started.values()) {
    const definition = pick(await loadModule(file), name, file)
    worst = Math.max(worst, await execute(engine, definition, file, options, output))
    if (worst === exit.interrupted) break
  }
  return worst

  async function open(): Promise<Head[]> {
    const found: Head[] = []
    for (const status of unfinished) found.push(...(await engine.list({ prefix: 'job/', status, limit: 1000 })))
    return found.filter((head) => !(head.owner && head.isOwnerAlive))
  }
}

export default resume
