// pipeline(): the user's definition, as a plain value that the engine can run.

import { RepriseError } from '../../core/errors.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import { checkFunction } from '../../core/synchronous.ts'
import type { Host } from '../../engine/host/host.ts'
import { checkName, type Fold, type Process, runs, type Workable, works } from '../../engine/model/definition.ts'
import { type Described, describes, idOf } from '../../engine/model/model.ts'
import { Graph, notedReads } from './graph.ts'
import { pipelineModel } from './model.ts'
import {
  checkWorkOptions,
  type PipelineOptions,
  type PipelineWorkOptions,
  renamedOptions,
  resolvePipelineOptions,
} from './run/options.ts'
import { PipelineRun } from './run/run.ts'
import { type PipelineState, pipelineFold } from './run/state.ts'
import { PipelineTasks } from './run/tasks.ts'
import { callerTraceOf } from './run/trace.ts'
import { checkShareable, shareFaults } from './shareable.ts'
import { PipelineBuilder } from './stream.ts'

/** Options of every run, and of every task that `rp.work` runs. */
export type PipelineDefaults = Pick<
  PipelineOptions,
  'checkpoint' | 'checkpointTimeout' | 'deadLettersMax' | 'attributes' | 'parallelism' | 'keyGroups' | 'module'
>

const knownDefaults = namesOf<PipelineDefaults>()(
  'checkpoint checkpointTimeout deadLettersMax attributes parallelism keyGroups module',
)

/** The method by which tools of this layer read the graph. */
export const draws: unique symbol = Symbol.for('reprise.pipeline.draws')

/** The method by which a process takes its share of the tasks and learns when they end. */
export const shares: unique symbol = Symbol.for('reprise.pipeline.shares')

/** The method by which the command line decides how threads divide a pipeline. */
export const divides: unique symbol = Symbol.for('reprise.pipeline.divides')

/** Keys the map, one per engine, of pipelines whose tasks this process takes. */
const worksOn = {}

export interface PipelineDefinition
  extends Process<void, PipelineRun, PipelineOptions>,
    Workable<PipelineWorkOptions>,
    Described {
  readonly kind: 'pipeline'
  readonly name: string
  readonly prefix: string
  readonly fold: Fold<PipelineState>
  /** @internal Draws a new graph on each call. */
  [draws](): Graph
  /** @internal Same as `rp.work`. Throws INVALID_ARGUMENT if the pipeline cannot be shared. */
  [shares](engine: Host, options?: PipelineWorkOptions): PipelineTasks
  /** @internal Threads get stages of the graph: it names its module, or its partitions cannot be shared. */
  [divides](): boolean
}

/**
 * @example
 * const totals = collectSink<WindowResult<number>>()
 * const revenue = pipeline('revenue', (p) => {
 *   p.from('orders', valueSource(orders), { time: (order) => order.at })
 *     .keyBy((order) => order.customer)
 *     .window('per-minute', tumbling('1m'))
 *     .aggregate(sum((order) => order.cents))
 *     .to('totals', totals)
 * })
 * await rp.run(revenue).result()
 */
export function pipeline(
  name: string,
  build: (p: PipelineBuilder) => void,
  defaults: PipelineDefaults = {},
): PipelineDefinition {
  checkName('pipeline', name)
  checkFunction(build, `pipeline ${name}`)
  checkOptions(`pipeline ${name}`, defaults, knownDefaults, renamedOptions)
  resolvePipelineOptions(name, defaults)
  const model = pipelineModel(name)
  const draw = () => {
    const graph = new Graph()
    const drawn: unknown = build(new PipelineBuilder(graph))
    if (drawn instanceof Promise) {
      throw new RepriseError(
        'INVALID_ARGUMENT',
        `the pipeline ${name} is built synchronously: its function must not be async`,
      )
    }
    graph.check(name)
    return graph
  }
  const share = (engine: Host, given: PipelineWorkOptions = {}): PipelineTasks => {
    checkWorkOptions(name, given)
    checkShareable(name, draw())
    const options = resolvePipelineOptions(name, { ...defaults, ...given })
    engine.declare(pipelineModel(name, options.policy))
    const working = engine.once(worksOn, () => new Map<string, PipelineTasks>())
    const tasks = working.get(name) ?? new PipelineTasks({ engine, name, timeline: model.scope, options, draw })
    working.set(name, tasks)
    return tasks
  }
  return {
    [describes]: model,
    kind: 'pipeline',
    name,
    takesInput: false,
    prefix: model.scope,
    fold: pipelineFold,
    [draws]: draw,
    async [runs](engine: Host, input: unknown, options) {
      if (input !== undefined && (typeof input !== 'object' || input === null || Object.keys(input).length > 0)) {
        const what = `the pipeline ${name} takes no input: it reads its sources only`
        throw new RepriseError('INVALID_ARGUMENT', what)
      }
      const resolved = resolvePipelineOptions(name, { ...defaults, ...options })
      engine.declare(pipelineModel(name, resolved.policy))
      const timeline = idOf(model.scope, resolved.id)
      // A second call in the same process returns the same run.
      const live = engine.once(model, () => new Map<string, PipelineRun>())
      const held = live.get(timeline)
      if (held) return held
      const graph = draw()
      const callerTrace = callerTraceOf(engine.kernel, timeline, name)
      const attributes = { ...resolved.attributes, ...notedReads(graph) }
      const run = new PipelineRun(engine, name, timeline, graph, { ...resolved, attributes, callerTrace })
      live.set(timeline, run)
      const forget = () => void (live.get(timeline) === run && live.delete(timeline))
      run.result().then(forget, forget)
      return run
    },
    worksWith: ['changes', 'from'],
    [works](engine: Host, options) {
      share(engine, options)
    },
    [shares]: share,
    [divides]: () => defaults.module !== undefined || shareFaults(draw()).length > 0,
  }
}
