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
      // Otherwise the last declaration would silently override the others.
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
  const loaded = await Promise.all<Model[]>([
    import('../layers/job/model.ts').then((of) => [of.jobKind]),
    import('../layers/migrate/model.ts').then((of) => [of.migrateKind]),
    import('../layers/workflow/model.ts').then((of) => [of.workflowKind]),
    import('../layers/workflow/queue/queue.ts').then((of) => [of.queueKind()]),
    import('../layers/workflow/queue/schedule.ts').then((of) => [of.scheduleKind]),
    import('../layers/events/model.ts').then((of) => [
      of.aggregateKind,
      of.projectionKind,
      of.processKind,
      of.keysKind,
    ]),
    import('../layers/table/model.ts').then((of) => [of.tableKind]),
    import('../layers/save/model.ts').then((of) => [of.saveKind]),
    import('../layers/memo/model.ts').then((of) => [of.memoKind]),
    import('../layers/artifact/model.ts').then((of) => [of.artifactKind]),
    import('../layers/upload/model.ts').then((of) => [of.uploadKind]),
    import('../layers/pipeline/model.ts').then((of) => [of.pipelineKind]),
    import('../layers/resource/model.ts').then((of) => [of.resourceKind]),
    import('../layers/resource/follower-model.ts').then((of) => [of.informerKind, of.controllerKind]),
    import('../layers/agent/model.ts').then((of) => [of.agentKind]),
    import('../layers/config/model.ts').then((of) => [of.configKind]),
    import('../layers/exec/model.ts').then((of) => [of.execKind]),
    import('../adapters/ai-sdk/model.ts').then((of) => [of.recorderKind]),
    import('../adapters/langgraph/model.ts').then((of) => [of.threadKind, of.memoryKind]),
    import('../adapters/openai-agents/model.ts').then((of) => [of.sessionKind]),
  ])
  return loaded.flat()
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
