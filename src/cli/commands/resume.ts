// reprise resume: goes on with what was started by `reprise run` and did not finish. It starts nothing new: a job goes on
// with its round, a run of a workflow under its own id, with its own input.

import { RepriseError } from '../../core/errors.ts'
import type { Head } from '../../core/ports.ts'
import { idBelow } from '../../core/scope.ts'
import { hostOf } from '../../engine/host.ts'
import type { Reprise } from '../../engine/reprise.ts'
import { pipelinePrefix } from '../../layers/pipeline/model.ts'
import { act } from '../../operations/act.ts'
import { declareAll } from '../../operations/models.ts'
import { type Command, type Options, text } from '../command.ts'
import { exit } from '../exit.ts'
import { findMember } from '../find.ts'
import { loadModule } from '../module.ts'
import { toJson } from '../output.ts'
import { execute, pick } from './run.ts'

interface Started {
  readonly file: string
  readonly name: string
  /** Of a pipeline that was run with one: it is a run of its own. */
  readonly id: string | null
  readonly heads: Head[]
}

const resume: Command = async ({ engine, args, options, output }) => {
  const given = args[0]
  const heads = given === undefined ? await unfinished(engine) : [await find(engine, given)]
  const groups = new Map<string, Started>()
  for (const head of heads) {
    const { module = text(options, 'module'), definition } = head.attributes
    const name = typeof definition === 'string' ? definition : (hostOf(engine).models.find(head.timeline)?.name ?? null)
    if (typeof module !== 'string' || name === null) continue
    const id = idBelow(pipelinePrefix + name, head.timeline)
    const key = JSON.stringify([module, name, id])
    const group = groups.get(key) ?? { file: module, name, id, heads: [] }
    group.heads.push(head)
    groups.set(key, group)
  }
  if (groups.size === 0) {
    if (given !== undefined) {
      const what = `${heads[0]!.timeline} was not started by reprise run: run its program again, or name its file with --module`
      throw new RepriseError('NOT_FOUND', what, {})
    }
    output.note(
      heads.length === 0
        ? 'nothing to resume: all that was started is finished'
        : `nothing to resume here: what is unfinished (${heads.length}) was not started by reprise run; reprise ls shows it`,
    )
    return exit.ok
  }
  let worst: number = exit.ok
  for (const group of groups.values()) {
    const module = await loadModule(group.file)
    declareAll(engine, Object.values(module))
    const isOneByOne = group.heads.every((head) => hasResume(engine, head))
    const code = isOneByOne
      ? await goOn(group.heads)
      : await execute(engine, pick(module, group.name, group.file), group.file, withId(group.id), output)
    worst = Math.max(worst, code)
    if (worst === exit.interrupted) break
  }
  return worst

  function withId(id: string | null): Options {
    return id === null ? options : { ...options, id }
  }

  /** Each is executed here until it ends; Ctrl-C leaves them where they are. */
  async function goOn(runs: readonly Head[]): Promise<number> {
    let interrupt: () => void = () => undefined
    const interrupted = new Promise<'interrupted'>((resolve) => {
      interrupt = () => resolve('interrupted')
      process.once('SIGINT', interrupt)
      process.once('SIGTERM', interrupt)
    })
    const results = Promise.allSettled(
      runs.map(async (head) => {
        const { facts } = await act(engine, head, 'resume', {})
        output.result(facts, () => output.line(`${head.timeline}: ${toJson(facts.result)}`))
      }),
    )
    const first = await Promise.race([results, interrupted])
    process.off('SIGINT', interrupt)
    process.off('SIGTERM', interrupt)
    if (first === 'interrupted') {
      // What `reprise run` started says itself where its file is; the rest has to be named once more.
      const again = [given, text(options, 'module') && `--module ${text(options, 'module')}`]
      output.notes(
        `interrupted; nothing is lost. Go on with:\n  ${['reprise resume', ...again].filter(Boolean).join(' ')}`,
      )
      return exit.interrupted
    }
    const failed = first.find((each) => each.status === 'rejected')
    if (failed) throw failed.reason
    return exit.ok
  }
}

/** Its own code brings one timeline to its end; a job is run as a whole instead. */
function hasResume(engine: Reprise, head: Head): boolean {
  return typeof hostOf(engine).models.find(head.timeline)?.actions?.resume === 'function'
}

async function find(engine: Reprise, given: string): Promise<Head> {
  return await findMember(engine, given)
}

async function unfinished(engine: Reprise): Promise<Head[]> {
  // What was killed a moment ago still has its lease; on this host its process is known to be gone.
  await hostOf(engine).kernel.worker.register()
  await hostOf(engine).kernel.worker.retireGone()
  const found: Head[] = []
  for (const { name, scope, unfinished } of hostOf(engine).models.all()) {
    if (name !== null) continue
    for (const status of unfinished ?? []) found.push(...(await engine.list({ prefix: scope, status, limit: 1000 })))
  }
  return found.filter((head) => !(head.owner && head.isOwnerAlive))
}

export default resume
