// reprise run: runs a definition that a module exports, shows progress on stderr, and prints the report on stdout. Ctrl-C
// finishes the work in flight and prints one line that resumes it.

import { relative as relativePath } from 'node:path'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Reprise } from '../../engine/api/reprise.ts'
import { hostOf } from '../../engine/host/host.ts'
import { runs, type Workable, works } from '../../engine/model/definition.ts'
import { type JobReport, type JobRun, makeReporter, stopOnSignals } from '../../layers/job/index.ts'
import type { MigrateReport, MigrateRun } from '../../layers/migrate/index.ts'
import { type Command, flag, type Options, text } from '../command.ts'
import { exit, parseJson, UsageError } from '../exit.ts'
import type { Runnable } from '../find-definition.ts'
import { count, ms } from '../format.ts'
import { grace, inHand, onInterrupt } from '../interrupt.ts'
import { loadModule } from '../module.ts'
import { type Output, toJson } from '../output.ts'
import { refusePipelineFlags, workFlags } from '../run-flags.ts'
import { isDivided, runPipeline, runThreads } from './run-pipeline.ts'
import { workOn } from './work.ts'

const run: Command = async ({ engine, args, options, output }) => {
  const [file, name] = args as [string, string | undefined]
  const definition = pick(await loadModule(file), name, file)
  return await execute(engine, definition, file, options, output)
}

export default run

export async function execute(
  engine: Reprise,
  definition: Runnable,
  file: string,
  options: Options,
  output: Output,
): Promise<number> {
  const isDryRun = flag(options, 'dry-run')
  if (isDryRun && definition.kind !== 'migrations') {
    throw new UsageError(`${definition.name} is not a set of migrations: only migrations have a dry run`)
  }
  const threads = text(options, 'threads')
  if (threads !== undefined && (definition.kind !== 'pipeline' || flag(options, 'work'))) {
    throw new UsageError('--threads is for pipelines that are run to their end, without --work')
  }
  if (flag(options, 'work')) {
    if (!definition[works]) throw new UsageError(`${definition.name} cannot be worked on`)
    if (definition.kind !== 'pipeline') refusePipelineFlags(options, definition.name)
    return await workOn(engine, [definition as Workable], output, { options: workFlags(options) })
  }
  const json = text(options, 'input')
  const input = json === undefined ? undefined : parseJson(json, '--input')
  if (definition.kind === 'migrations') refusePipelineFlags(options, definition.name, ['wait'])
  else if (definition.kind !== 'pipeline') refusePipelineFlags(options, definition.name)
  if (definition.kind === 'job') return await runJob(engine, definition, file, input, options, output)
  if (definition.kind === 'pipeline') {
    if (json !== undefined) throw new UsageError(`${definition.name} is a pipeline, which takes no input`)
    const { code } =
      threads === undefined || isDivided(definition)
        ? await runPipeline(engine, definition, file, startedBy(file, definition), options, output)
        : await runThreads(engine, definition, file, options, output)
    if (code !== exit.interrupted) return code
    const given = [
      ['id', text(options, 'id')],
      ['threads', threads],
    ] as const
    return reportInterrupted(file, definition.name, options, output, given)
  }
  if (definition.kind === 'migrations') return await runMigrations(engine, definition, file, isDryRun, options, output)
  return await runOther(engine, definition, file, input, options, output)
}

/**
 * A workflow, or another definition with a result. When interrupted, it finishes the step in flight and leaves the rest to the
 * next process.
 */
async function runOther(
  engine: Reprise,
  definition: Runnable,
  file: string,
  input: unknown,
  options: Options,
  output: Output,
): Promise<number> {
  const id = text(options, 'id')
  const interruption = onInterrupt(output, 'finishing the step in flight', { waitsFor: () => inHand(engine) })
  const handle = (await definition[runs](hostOf(engine), input, {
    ...(id !== undefined && { id }),
    attributes: startedBy(file, definition),
  })) as {
    readonly id?: string
    readonly timeline?: string
    result(): Promise<unknown>
  }
  if (handle.id) output.note(handle.id)
  try {
    const outcome = handle.result().then(
      (result) => ({ result }),
      async (error) => {
        throw (await failedRun(engine, handle, error)) ?? error
      },
    )
    const first = await Promise.race([outcome, interruption.requested])
    if (first === 'interrupted') {
      outcome.catch(() => undefined)
      await engine.close({ grace })
      const given = [
        ['id', handle.id],
        ['input', text(options, 'input')],
      ] as const
      return reportInterrupted(file, definition.name, options, output, given)
    }
    output.result({ id: handle.id ?? null, result: first.result }, () => output.lines(toJson(first.result, 2)))
    return exit.ok
  } finally {
    interruption.off()
  }
}

/** The error of a run that ended without a result. Null: the run has not ended, and another error stopped the command. */
async function failedRun(
  engine: Reprise,
  { id, timeline }: { readonly id?: string; readonly timeline?: string },
  error: unknown,
): Promise<RepriseError | null> {
  const head = timeline === undefined ? null : await engine.head(timeline)
  if (!head || !endedBadly.has(head.status) || isReprise(error, 'RUN_FAILED', 'CANCELLED')) return null
  const reason = error instanceof Error ? error.message : String(error)
  return new RepriseError('RUN_FAILED', `${timeline} ${head.status}: ${reason}`, { run: id, timeline }, error)
}

const endedBadly: ReadonlySet<string> = new Set(['failed', 'cancelled', 'terminated'])

/** Stored on the timeline, for `reprise resume`. */
function startedBy(file: string, definition: Runnable): Record<string, string> {
  return { module: relativePath(process.cwd(), file) || file, definition: definition.name }
}

function reportInterrupted(
  file: string,
  name: string,
  options: Options,
  output: Output,
  given: readonly (readonly [string, string | undefined])[] = [],
): number {
  output.notes(`interrupted; nothing is lost. Resume with:\n  ${resumeLine(file, name, options, given)}`)
  return exit.interrupted
}

async function runJob(
  engine: Reprise,
  definition: Runnable,
  file: string,
  input: unknown,
  options: Options,
  output: Output,
): Promise<number> {
  const given = text(options, 'report') ?? 'auto'
  if (!isReporter(given)) throw new UsageError(`there is no reporter ${given}`, 'auto, bar, lines, json or none')
  const handle = (await definition[runs](hostOf(engine), input, { attributes: startedBy(file, definition) })) as JobRun
  if (given !== 'none') handle.watch(makeReporter(given, process.stderr))
  stopOnSignals(handle, (words) => output.notes(`\n${words}`))
  const report = await handle.result()
  output.result({ job: definition.name, ...report }, () => reportJob(definition.name, report, output))
  if (report.status === 'stopped') return reportInterrupted(file, definition.name, options, output)
  // Dead letters of earlier runs count as well: they are still unresolved, and a scheduler must not treat the run as a
  // complete success.
  if (report.dead > 0) output.note(`list them with: reprise dead ${definition.name}`)
  return report.dead > 0 ? exit.partly : exit.ok
}

/** One line that can be pasted. */
function resumeLine(
  file: string,
  name: string,
  options: Options,
  given: readonly (readonly [string, string | undefined])[],
): string {
  const quote = (word: string) => (/^[\w./:@=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)
  const parts = ['reprise', 'run', quote(relativePath(process.cwd(), file) || file), name]
  const stores = ['url', 'namespace'].map((option) => [option, text(options, option)] as const)
  for (const [option, value] of [...given, ...stores]) {
    if (value !== undefined) parts.push(`--${option}`, quote(value))
  }
  return parts.join(' ')
}

function reportJob(name: string, report: JobReport, output: Output): void {
  const parts = [`${count(report.done, 'item')} done`]
  if (report.skipped > 0) parts.push(`${report.skipped.toLocaleString('en-US')} skipped`)
  if (report.failed > 0) parts.push(output.colours.red(`${report.failed.toLocaleString('en-US')} failed`))
  parts.push(`in ${ms(report.elapsedMs)}`)
  if (report.dead > report.failed) parts.push(output.colours.red(`${count(report.dead, 'dead letter')} in all`))
  if (report.resumedFrom) parts.push(`resumed from ${report.resumedFrom.timeline}@${report.resumedFrom.seq}`)
  output.line(`${name}: ${parts.join(', ')}`)
}

async function runMigrations(
  engine: Reprise,
  definition: Runnable,
  file: string,
  dryRun: boolean,
  options: Options,
  output: Output,
): Promise<number> {
  const { name } = definition
  const interruption = onInterrupt(output, 'finishing the step in flight', { waitsFor: () => inHand(engine) })
  try {
    const attributes = startedBy(file, definition)
    const wait = text(options, 'wait')
    const waiting = wait === undefined ? {} : { wait }
    const handle = (await definition[runs](hostOf(engine), undefined, { dryRun, attributes, ...waiting })) as MigrateRun
    handle.watch(({ step, state }) => output.note(`${state} ${step}`))
    void interruption.requested.then(() => handle.stop().catch(() => undefined))
    const report: MigrateReport = await handle.result()
    output.result(report, () => {
      if (dryRun) return reportPlan(name, report, output)
      const done = `${count(report.applied.length, 'step')} applied, ${report.before} before, in ${ms(report.elapsedMs)}`
      output.line(`${name}: ${done}${report.pending.length > 0 ? `, ${report.pending.length} left` : ''}`)
    })
    return report.status === 'stopped' ? reportInterrupted(file, name, options, output) : exit.ok
  } catch (error) {
    // The step was aborted because of the interruption.
    if (!interruption.isAsked || !isReprise(error, 'RUN_FAILED')) throw error
    output.note(error.message)
    return reportInterrupted(file, name, options, output)
  } finally {
    interruption.off()
  }
}

function reportPlan(name: string, report: MigrateReport, output: Output): void {
  for (const { id, sql } of report.pending) {
    output.line(`${id}${id === report.resumedAt ? ' (begun before, but not finished)' : ''}`)
    for (const statement of sql ?? ['in code']) output.lines(`  ${statement.replaceAll('\n', '\n  ')}`)
  }
  output.line(`${name}: ${count(report.pending.length, 'step')} would be applied, ${report.before} before`)
  output.note('nothing was changed; repeat it without --dry-run to apply the steps')
}

export function pick(module: Record<string, unknown>, name: string | undefined, file: string): Runnable {
  const found = Object.entries(module).flatMap(([key, value]) => (isRunnable(value) ? [{ key, value }] : []))
  const distinct = [...new Map(found.map((each) => [each.value, each])).values()]
  const chosen =
    name === undefined ? distinct : distinct.filter(({ key, value }) => key === name || value.name === name)
  if (chosen.length === 1) return chosen[0]!.value
  if (distinct.length === 0) {
    throw new RepriseError(
      'NOT_FOUND',
      `${file} exports nothing that can be run: export a job, a workflow or migrations`,
      { file },
    )
  }
  const names = distinct.map(({ value }) => value.name).join(', ')
  if (chosen.length === 0) throw new RepriseError('NOT_FOUND', `${file} exports ${names}, not ${name}`, { file })
  throw new UsageError(`${file} exports ${names}: name one of them`, `reprise run ${file} ${distinct[0]!.value.name}`)
}

function isRunnable(value: unknown): value is Runnable {
  return typeof value === 'object' && value !== null && typeof (value as { [runs]?: unknown })[runs] === 'function'
}

function isReporter(name: string): name is 'auto' | 'bar' | 'lines' | 'json' | 'none' {
  return ['auto', 'bar', 'lines', 'json', 'none'].includes(name)
}
