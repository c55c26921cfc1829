// reprise work: a process that executes due work of a module's definitions, wherever it was started: runs of workflows, their
// queues and schedules, jobs, projections. The first Ctrl-C finishes the work in flight.

import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Reprise } from '../../engine/api/reprise.ts'
import { hostOf } from '../../engine/host/host.ts'
import { type Workable, works } from '../../engine/model/definition.ts'
import { keepHouse } from '../../engine/tools/housekeeping/housekeeping.ts'
import type { PipelineWorkOptions } from '../../layers/pipeline/index.ts'
import { problemPrinter } from '../action-report.ts'
import type { Command } from '../command.ts'
import { exit } from '../exit.ts'
import { grace, inHand, onInterrupt } from '../interrupt.ts'
import { loadModule } from '../module.ts'
import type { Output } from '../output.ts'
import { workFlags } from '../run-flags.ts'
import { logFormat, ServeLog } from '../serve-log.ts'

const work: Command = async ({ engine, args, options, output, isVerbose }) => {
  const format = logFormat(options)
  const [file, ...names] = args as [string, ...string[]]
  const chosen = choose(await loadModule(file), names, file)
  // A definition named explicitly is refused if it cannot be worked on.
  const log = format === 'text' ? null : new ServeLog(format, output, isVerbose)
  return await workOn(engine, chosen, output, {
    file: names.length === 0 ? file : null,
    options: workFlags(options),
    log,
  })
}

export default work

interface WorkOn {
  /** Works on the workable definitions of this file. Default: all definitions, or an error. */
  readonly file?: string | null
  /** Only for pipelines. */
  readonly options: PipelineWorkOptions
  /** Default: problems are printed in words. */
  readonly log?: ServeLog | null
}

export async function workOn(
  engine: Reprise,
  definitions: readonly Workable[],
  output: Output,
  { file = null, options, log = null }: WorkOn,
): Promise<number> {
  const interruption = onInterrupt(output, 'finishing the work in flight', { waitsFor: () => inHand(engine) })
  log?.follow(engine)
  const off = log ? () => undefined : engine.events.on('problem', problemPrinter(output))
  try {
    const taken = file === null ? definitions : takeUp(engine, definitions, file, output, options)
    if (taken === definitions || taken.length === 0) workWith(engine, definitions, options)
    keepHouse(hostOf(engine))
    output.note(`working on ${taken.map((each) => each.name).join(', ')}; press Ctrl-C to stop`)
    await interruption.requested
    await engine.close({ grace })
    return exit.ok
  } finally {
    off()
    interruption.off()
  }
}

function choose(module: Record<string, unknown>, names: readonly string[], file: string): Workable[] {
  const exported = Object.entries(module).flatMap(([key, value]) => (isWorkable(value) ? [{ key, value }] : []))
  const distinct = [...new Map(exported.map((each) => [each.value, each])).values()]
  if (distinct.length === 0) {
    const what = `${file} exports nothing to work on: export a workflow, a schedule, a queue, a job, a consumer or a projection`
    throw new RepriseError('NOT_FOUND', what, { file })
  }
  if (names.length === 0) return distinct.map(({ value }) => value)
  return names.flatMap((name) => {
    const chosen = distinct.filter(({ key, value }) => key === name || value.name === name)
    if (chosen.length > 0) return chosen.map(({ value }) => value)
    const known = distinct.map(({ value }) => value.name).join(', ')
    throw new RepriseError('NOT_FOUND', `${file} exports ${known}, not ${name}`, { file, name })
  })
}

/** Options are passed to the definitions that take them. */
function workWith(engine: Reprise, definitions: readonly Workable[], options: PipelineWorkOptions): void {
  const takes = (each: Workable) => Object.keys(options).length > 0 && each.worksWith !== undefined
  engine.work(definitions.filter((each) => !takes(each)))
  engine.work(definitions.filter(takes), options)
}

/** Works on these. A pipeline that only one process can run is skipped, with a note on how to run it. */
export function takeUp(
  engine: Reprise,
  definitions: readonly Workable[],
  file: string,
  output: Pick<Output, 'note'>,
  options: PipelineWorkOptions = {},
): Workable[] {
  return definitions.filter((each) => {
    try {
      workWith(engine, [each], options)
      return true
    } catch (error) {
      const faults = isReprise(error, 'INVALID_ARGUMENT') ? error.data.faults : undefined
      if (!Array.isArray(faults)) throw error
      const what = `the pipeline ${each.name} is not executed here, because several processes cannot share it (${faults.join('; ')})`
      output.note(`${what}: run it with reprise run ${file} ${each.name}`)
      return false
    }
  })
}

/** The exports of a module that a process can work on. */
export function workable(exported: readonly unknown[]): Workable[] {
  return [...new Set(exported.filter(isWorkable))]
}

function isWorkable(value: unknown): value is Workable {
  return typeof value === 'object' && value !== null && typeof (value as { [works]?: unknown })[works] === 'function'
}
