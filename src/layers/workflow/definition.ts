// A workflow definition: a name and a function. It is a plain value; the engine executes it, and any process that works
// on the workflow can resume a run that another process left.

import { checkPolicy } from '../../core/checkpoint/checkpoint-policy.ts'
import { resolveRetention } from '../../core/checkpoint/retention.ts'
import { toMs } from '../../core/duration.ts'
import { type Allowed, checkOptions, checkValues, namesOf } from '../../core/options.ts'
import { resolveRetry } from '../../core/retry/retry.ts'
import { checkFunction } from '../../core/synchronous.ts'
import type { Host } from '../../engine/host/host.ts'
import { checkName, type Process, runs, type Workable, works } from '../../engine/model/definition.ts'
import { type Enlistable, type EnlistsMail, enlists, enlistsMail } from '../../engine/model/enlisting.ts'
import { type Described, describes } from '../../engine/model/model.ts'
import { isStandardSchema, type StandardSchema } from '../../engine/model/schema.ts'
import { hasParameter } from '../../lib/parameters.ts'
import type { WorkflowCode, WorkflowFunction } from './context.ts'
import { enlistMail, enlistStart } from './handle/requests.ts'
import type { WorkflowRun } from './handle/run.ts'
import { hostOf } from './host.ts'
import { workflowKind, workflowModel } from './model.ts'
import { workflowPrefix } from './names.ts'
import type { StartOptions, WorkflowOptions } from './options.ts'

export interface WorkflowDefinition<Input = unknown, Output = unknown>
  extends WorkflowCode<Input, Output>,
    Process<Input, WorkflowRun<Output>, StartOptions>,
    Workable,
    Enlistable<Input, WorkflowRun<Output>, StartOptions & { readonly key?: string }>,
    EnlistsMail,
    Described {
  readonly name: string
}

const known = namesOf<WorkflowOptions>()(
  'input timeout retry whenUndoFails durability queue concurrency checkpoint retain',
)

const values: Readonly<Record<string, readonly Allowed[]>> = {
  whenUndoFails: ['hold', 'restore'],
  durability: ['step', ['{ window }', (value) => typeof value === 'object' && value !== null]],
  input: [['a Standard Schema', isStandardSchema]],
  queue: [['made by queue()', (value) => (value as { readonly kind?: unknown } | null)?.kind === 'queue']],
}

/** @example workflow('greet', async (ctx, name: string) => await ctx.step('say', () => `hello ${name}`)) */
export function workflow<Input, Output>(
  name: string,
  run: WorkflowFunction<Input, Output>,
  options: WorkflowOptions & { readonly input: StandardSchema<unknown, Input> },
): WorkflowDefinition<Input, Output>
export function workflow<Input = void, Output = unknown>(
  name: string,
  run: WorkflowFunction<Input, Output>,
  options?: WorkflowOptions,
): WorkflowDefinition<Input, Output>
export function workflow<Input = void, Output = unknown>(
  name: string,
  run: WorkflowFunction<Input, Output>,
  options: WorkflowOptions = {},
): WorkflowDefinition<Input, Output> {
  checkName('workflow', name)
  checkFunction(run, `workflow ${name}`)
  checkOptions(`workflow ${name}`, options, known, { checkpointEvery: 'a checkpoint option with `every`' })
  resolveRetry(options.retry)
  if (options.timeout !== undefined) toMs(options.timeout, 'timeout')
  if (options.checkpoint) checkPolicy(options.checkpoint)
  if (options.retain) resolveRetention(options.retain)
  checkValues(`workflow ${name}`, options, values)
  if (typeof options.durability === 'object') checkOptions('durability', options.durability, new Set(['window']))
  if (typeof options.durability === 'object') toMs(options.durability.window, 'durability.window')
  const declared = hasParameter(run, 1)
  const definition: WorkflowDefinition<Input, Output> = {
    kind: 'workflow',
    name,
    prefix: `${workflowPrefix}${name}/`,
    run,
    options,
    takesInput: declared === false ? 'unused' : declared,
    get [describes]() {
      return model
    },
    [runs](engine: Host, input: Input, start: StartOptions) {
      engine.declare(workflowKind)
      engine.declare(model)
      return hostOf(engine).run<Output>(definition, input, start)
    },
    [enlists](engine: Host, input: Input, start: StartOptions & { readonly key?: string }) {
      engine.declare(workflowKind)
      engine.declare(model)
      return enlistStart<Output>(hostOf(engine), definition, input, start)
    },
    [enlistsMail](engine: Host, mail) {
      return enlistMail(engine, definition, mail)
    },
    [works](engine: Host) {
      engine.declare(workflowKind)
      engine.declare(model)
      hostOf(engine).work(definition)
    },
  }
  const model = workflowModel(definition)
  return definition
}
