// reprise check: replays recorded histories of workflows against the current code before it is deployed, and recorded input of
// pipelines: the same input must produce the same output. The histories of all other models are folded, and must lead to the
// state of their checkpoints. Exit code 9 if one diverges.

import { existsSync } from 'node:fs'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { hostOf } from '../../engine/host/host.ts'
import type { Engine } from '../../engine/model/definition.ts'
import { modelsOf } from '../../engine/model/model.ts'
import { type CheckedFold, checkFolds } from '../../engine/tools/drill/check-folds.ts'
import { type AggregateDefinition, checkEvents } from '../../layers/events/index.ts'
import {
  type CheckedPipeline,
  checkPipelines,
  jsonLineSource,
  type PipelineCheckOptions,
  type PipelineDefinition,
} from '../../layers/pipeline/index.ts'
import { checkDefinitions, loadHistory, type WorkflowDefinition } from '../../layers/workflow/index.ts'
import { type Command, flag } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { count } from '../format.ts'
import { loadModule } from '../module.ts'

const check: Command = async ({ engine, args, options, output }) => {
  const module = await loadModule(args[0]!)
  const all = Object.values(module)
  const definitions = all.filter(isWorkflow)
  const pipelines = all.filter(isPipeline)
  if (!all.some((each) => modelsOf(each).length > 0)) {
    throw new RepriseError('NOT_FOUND', `${args[0]} exports no definition`, { file: args[0] })
  }
  const files = (options.history ?? []) as readonly string[]
  const histories = await Promise.all(files.map(historyIn))
  const runs =
    definitions.length > 0 || files.length > 0
      ? await checkDefinitions(engine, definitions, { histories, ended: flag(options, 'ended') })
      : { checked: 0, diverging: [], unknown: [] }
  const { checked } = await checkPipelines(engine, pipelines, pipelineOptions(options))
  const states = await checkStates(engine, all)
  const diverging = [
    ...runs.diverging,
    ...checked.flatMap(({ timeline, ok, step, problem }) => (ok ? [] : [{ timeline, ok, step, problem }])),
    ...states.flatMap(({ timeline, ok, problem }) => (ok ? [] : [{ timeline, ok, step: null, problem }])),
    ...(await unreadableEvents(engine, all)),
  ]
  const report = {
    ok: diverging.length === 0,
    checked: runs.checked + checked.length + states.length,
    diverging,
    unknown: runs.unknown,
    pipelines: checked,
    states,
  }
  output.result(report, () => {
    const { green, red } = output.colours
    for (const { timeline, step, problem } of report.diverging) {
      output.line(red(`${timeline}${step ? ` at ${step}` : ''}: ${problem}`))
    }
    if (definitions.length > 0) {
      const { diverging } = runs
      const all = `${count(runs.checked, 'run')} replayed`
      output.line(diverging.length === 0 ? `${green('ok')}: ${all}` : `${all}, ${red(`${diverging.length} differ`)}`)
    }
    if (states.length > 0) {
      const folded = `${count(states.length, 'timeline')} folded`
      const differ = states.filter(({ ok }) => !ok).length
      output.line(differ === 0 ? `${green('ok')}: ${folded}` : `${folded}, ${red(`${differ} differ`)}`)
    }
    for (const each of checked) output.line(lineOf(each, each.ok ? green : red))
    for (const { timeline, notes } of checked) for (const note of notes) output.note(`${timeline}: ${note}`)
    if (runs.unknown.length > 0) output.note(`not checked, not exported by ${args[0]}: ${runs.unknown.join(', ')}`)
  })
  return report.ok ? exit.ok : exit.incompatible
}

export default check

/** Every model but workflows and pipelines, which have checks of their own. */
async function checkStates(engine: Engine, exported: readonly unknown[]): Promise<readonly CheckedFold[]> {
  const { kernel, models } = hostOf(engine)
  const given = new Set(exported.filter((each) => !isWorkflow(each) && !isPipeline(each)).flatMap(modelsOf))
  for (const model of given) models.declare(model)
  return await checkFolds(kernel, ({ timeline }) => {
    const model = models.find(timeline)
    return model && given.has(model) ? model.fold : null
  })
}

/** Stored events that this code has no path for. */
async function unreadableEvents(engine: Engine, exported: readonly unknown[]) {
  const problems = []
  for (const definition of exported.filter(isAggregate)) {
    const { missing, unknown } = await checkEvents(engine, definition)
    const at = { timeline: definition.prefix, ok: false }
    for (const { type, version } of missing) {
      problems.push({ ...at, step: type, problem: `no upcaster from version ${version} of ${type}` })
    }
    for (const type of unknown) problems.push({ ...at, step: type, problem: `evolve has no function for ${type}` })
  }
  return problems
}

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

// biome-ignore lint/suspicious/noExplicitAny: of any state
function isAggregate(value: unknown): value is AggregateDefinition<any, any, any> {
  return (value as { kind?: unknown } | null)?.kind === 'aggregate'
}

function isPipeline(value: unknown): value is PipelineDefinition {
  return (value as { kind?: unknown } | null)?.kind === 'pipeline'
}

function lineOf({ timeline, ok, from, records }: CheckedPipeline, colour: (text: string) => string): string {
  const since = from === null ? 'the beginning' : `checkpoint ${from}`
  return `${colour(ok ? 'ok' : 'differs')} ${timeline}: ${count(records, 'record')} replayed from ${since}`
}

function pipelineOptions(options: Parameters<Command>[0]['options']): PipelineCheckOptions {
  const { from, records } = options
  const inputs = ((options.input ?? []) as readonly string[]).map((given) => {
    const at = given.indexOf('=')
    if (at < 1) throw new UsageError(`--input takes SOURCE=FILE (got ${given})`)
    const file = given.slice(at + 1)
    if (!existsSync(file)) throw new RepriseError('NOT_FOUND', `there is no file ${file}`, { file })
    return [given.slice(0, at), jsonLineSource(file)] as const
  })
  return {
    ...(typeof from === 'string' && { from }),
    ...(typeof records === 'string' && { records: Number(records) }),
    inputs: Object.fromEntries(inputs),
  }
}
