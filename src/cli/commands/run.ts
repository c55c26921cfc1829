// reprise run: runs what a module exports, shows progress on stderr, and prints the report on stdout. Ctrl-C finishes what
// is in flight and leaves one line that resumes it.

import { relative as relativePath } from 'node:path'
import { RepriseError } from '../../core/errors.ts'
import { type Process, runs, type Workable, works } from '../../engine/definition.ts'
import type { Reprise } from '../../engine/reprise.ts'
import { type JobReport, type JobRun, makeReporter, stopOnSignals } from '../../layers/job/index.ts'
import type { MigrateReport, MigrateRun } from '../../layers/migrate/index.ts'
import { type Command, flag, type Options, text } from '../command.ts'
import { exit, parseJson, UsageError } from '../exit.ts'
import { count, ms } from '../format.ts'
import { loadModule } from '../module.ts'
import { type Output, toJson } from '../output.ts'

export interface Runnable extends Process<unknown, unknown> {
  readonly kind: string
  readonly [works]?: Workable[typeof works]
}

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
    throw new UsageError(`${definition.name} is no set of migrations: only those have a dry run`)
  }
  if (flag(options, 'work')) return await work(engine, definition, output)
  const json = text(options, 'input')
  const input = json === undefined ? undefined : parseJson(json, '--input')
  if (definition.kind === 'job') return await runJob(engine, definition, file, input, options, output)
  if (definition.kind === 'migrations') return await runMigrations(engine, definition, isDryRun, output)
  const id = text(options, 'id')
  const handle = (await definition[runs](engine, input, {
    ...(id !== undefined && { id }),
    attributes: { module: file, definition: definition.name },
  })) as {
    readonly id?: string
    result(): Promise<unknown>
  }
  if (handle.id) output.note(handle.id)
  const result = await handle.result()
  output.result({ id: handle.id ?? null, result }, () => output.line(toJson(result, 2)))
  return exit.ok
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
  const attributes = { module: relativePath(process.cwd(), file) || file, definition: definition.name }
  const handle = (await definition[runs](engine, input, { attributes })) as JobRun
  if (given !== 'none') handle.watch(makeReporter(given, process.stderr))
  stopOnSignals(handle, (words) => output.note(`\n${words}`))
  const report = await handle.result()
  output.result({ job: definition.name, ...report }, () => tellJob(definition.name, report, output))
  if (report.status === 'stopped') {
    output.note(`interrupted; nothing is lost. Go on with:\n  ${resumeLine(file, definition.name, options)}`)
    return exit.interrupted
  }
  if (report.failed > 0) output.note(`look at them with: reprise dead ${definition.name}`)
  return report.failed > 0 ? exit.partly : exit.ok
}

/** One line that can be pasted. */
function resumeLine(file: string, name: string, options: Options): string {
  const quote = (word: string) => (/^[\w./:@=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)
  const parts = ['reprise', 'run', quote(relativePath(process.cwd(), file) || file), name]
  for (const option of ['url', 'namespace']) {
    const value = text(options, option)
    if (value !== undefined) parts.push(`--${option}`, quote(value))
  }
  return parts.join(' ')
}

function tellJob(name: string, report: JobReport, output: Output): void {
  const parts = [`${count(report.done, 'item')} done`]
  if (report.skipped > 0) parts.push(`${report.skipped.toLocaleString('en-US')} skipped`)
  if (report.failed > 0) parts.push(output.colours.red(`${report.failed.toLocaleString('en-US')} failed`))
  parts.push(`in ${ms(report.elapsedMs)}`)
  if (report.resumedFrom) parts.push(`resumed from ${report.resumedFrom.timeline}@${report.resumedFrom.seq}`)
  output.line(`${name}: ${parts.join(', ')}`)
}

async function runMigrations(engine: Reprise, definition: Runnable, dryRun: boolean, output: Output): Promise<number> {
  const handle = (await definition[runs](engine, undefined, { dryRun })) as MigrateRun
  handle.watch(({ step, state }) => output.note(`${state} ${step}`))
  const report: MigrateReport = await handle.result()
  output.result(report, () => {
    if (dryRun) return tellPlan(definition.name, report, output)
    output.line(
      `${definition.name}: ${count(report.applied.length, 'step')} applied, ${report.before} before, in ${ms(report.elapsedMs)}`,
    )
  })
  return exit.ok
}

function tellPlan(name: string, report: MigrateReport, output: Output): void {
  for (const { id, sql } of report.pending) {
    output.line(`${id}${id === report.resumedAt ? ' (begun before, and not finished)' : ''}`)
    for (const statement of sql ?? ['in code']) output.line(`  ${statement.replaceAll('\n', '\n  ')}`)
  }
  output.line(`${name}: ${count(report.pending.length, 'step')} would be applied, ${report.before} before`)
  output.note('nothing was changed; without --dry-run it is done')
}

async function work(engine: Reprise, definition: Runnable, output: Output): Promise<number> {
  if (!definition[works]) throw new UsageError(`${definition.name} is not something to work on`)
  engine.work([definition as Workable])
  output.note(`working on ${definition.name}; Ctrl-C ends it`)
  await new Promise<void>((resolve) => {
    process.once('SIGINT', () => resolve())
    process.once('SIGTERM', () => resolve())
  })
  return exit.ok
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
  throw new UsageError(`${file} exports ${names}: say which`, `reprise run ${file} ${distinct[0]!.value.name}`)
}

function isRunnable(value: unknown): value is Runnable {
  return typeof value === 'object' && value !== null && typeof (value as { [runs]?: unknown })[runs] === 'function'
}

function isReporter(name: string): name is 'auto' | 'bar' | 'lines' | 'json' | 'none' {
  return ['auto', 'bar', 'lines', 'json', 'none'].includes(name)
}
