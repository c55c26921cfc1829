// The models that tools know: the kinds of this package, and the definitions that the user's code exports. Tools query the
// model of a timeline for its kind and its verbs; none of them depends on the form of an id.

import { RepriseError } from '../core/errors.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { hostOf } from '../engine/host/host.ts'
import type { Fold } from '../engine/model/definition.ts'
import { type Model, modelsOf } from '../engine/model/model.ts'

/** Declares the kinds, which work without the user's code. Definitions already declared are kept. */
export async function declareKinds(engine: Reprise): Promise<void> {
  const known = new Set(
    hostOf(engine)
      .models.all()
      .map(({ scope }) => scope),
  )
  for (const model of await kinds()) if (!known.has(model.scope)) engine.declare(model)
}

/** Declares every exported value that describes a model. */
export function declareAll(engine: Reprise, exported: readonly unknown[]): void {
  const found = new Map<string, Model>()
  for (const value of exported) {
    const described = modelsOf(value)
    for (const model of described) {
      const other = found.get(model.scope)
      // Otherwise the last declaration would silently win.
      if (other && other !== model && model.name !== null) throw twice(model)
      found.set(model.scope, model)
      engine.declare(model)
    }
    if (described.length === 0 && isFolding(value)) hostOf(engine).register(value.prefix, value.fold)
  }
}

function twice({ kind, name, scope }: Model): RepriseError {
  const what = `the module exports two definitions of the ${kind} ${name}: rename one of them, or export only one`
  return new RepriseError('INVALID_ARGUMENT', what, { kind, name, scope })
}

/** Kinds whose peer dependency may be missing are described in a separate module. */
async function kinds(): Promise<Model[]> {
  const [
    jobs,
    migrations,
    workflows,
    queues,
    schedules,
    events,
    tables,
    saves,
    memos,
    artifacts,
    uploads,
    pipelines,
    resources,
    followers,
    agents,
    configs,
    programs,
    ...adapters
  ] = await Promise.all([
    import('../layers/job/model.ts'),
    import('../layers/migrate/model.ts'),
    import('../layers/workflow/model.ts'),
    import('../layers/workflow/queue/queue.ts'),
    import('../layers/workflow/queue/schedule.ts'),
    import('../layers/events/model.ts'),
    import('../layers/table/model.ts'),
    import('../layers/save/model.ts'),
    import('../layers/memo/model.ts'),
    import('../layers/artifact/model.ts'),
    import('../layers/upload/model.ts'),
    import('../layers/pipeline/model.ts'),
    import('../layers/resource/model.ts'),
    import('../layers/resource/follower-model.ts'),
    import('../layers/agent/model.ts'),
    import('../layers/config/model.ts'),
    import('../layers/exec/model.ts'),
    import('../adapters/ai-sdk/model.ts'),
    import('../adapters/langgraph/model.ts'),
    import('../adapters/openai-agents/model.ts'),
  ])
  const [recorders, threads, sessions] = adapters
  return [
    jobs.jobKind,
    migrations.migrateKind,
    workflows.workflowKind,
    queues.queueKind(),
    schedules.scheduleKind,
    events.aggregateKind,
    events.projectionKind,
    events.processKind,
    events.keysKind,
    tables.tableKind,
    saves.saveKind,
    memos.memoKind,
    artifacts.artifactKind,
    uploads.uploadKind,
    pipelines.pipelineKind,
    resources.resourceKind,
    followers.informerKind,
    followers.controllerKind,
    agents.agentKind,
    configs.configKind,
    programs.execKind,
    recorders.recorderKind,
    threads.threadKind,
    threads.memoryKind,
    sessions.sessionKind,
  ]
}

/** The fold of a timeline, or an error that explains how to provide it. */
export function foldFor(engine: Reprise, timeline: string): Fold<unknown> {
  const fold = hostOf(engine).models.foldOf(timeline)
  if (fold) return fold
  throw new RepriseError(
    'INVALID_ARGUMENT',
    `the state of ${timeline} needs its definition: name the module that exports it with --module FILE`,
    { timeline },
  )
}

function isFolding(value: unknown): value is { readonly prefix: string; readonly fold: Fold<unknown> } {
  const { prefix, fold } = (value ?? {}) as { prefix?: unknown; fold?: { apply?: unknown } }
  return typeof prefix === 'string' && typeof fold?.apply === 'function'
}
