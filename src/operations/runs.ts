// One run of a workflow, for tools, and the refusal for a timeline of another model, with its verbs.

import { RepriseError } from '../core/errors.ts'
import { idBelow } from '../core/history/scope.ts'
import type { Head } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { hostOf } from '../engine/host/host.ts'
import { verbsOf } from '../engine/model/model.ts'
import { type WorkflowDefinition, type WorkflowRun, workflows } from '../layers/workflow/index.ts'
import { withoutCode } from '../layers/workflow/without-code.ts'

/** For verbs that do not need the code: the worker of the run executes them. */
export function runOf(engine: Reprise, head: Head, verb: string): WorkflowRun {
  const { name, id } = partsOf(engine, head, verb)
  return workflows(engine).of(withoutCode(name)).get(id)
}

/** For verbs that replay its code, which must be among the exports; null: it is not. */
export function runWithCode(
  engine: Reprise,
  head: Head,
  verb: string,
  exported: readonly unknown[],
): WorkflowRun | null {
  const { name, id } = partsOf(engine, head, verb)
  const definition = exported.filter(isWorkflow).find((each) => each.name === name)
  return definition ? workflows(engine).of(definition).get(id) : null
}

/** The name of its workflow and its own id. @example partsOf(engine, head, 'query') // { name: 'checkout', id: 'order-42' } */
export function partsOf(engine: Reprise, head: Head, verb: string): { readonly name: string; readonly id: string } {
  const below = idBelow('workflow/', head.timeline)
  const slash = below?.indexOf('/') ?? -1
  if (below === null || slash < 1) throw wrongModel(engine, head.timeline, verb)
  return { name: below.slice(0, slash), id: below.slice(slash + 1) }
}

function wrongModel(engine: Reprise, timeline: string, verb: string): RepriseError {
  const model = hostOf(engine).models.find(timeline)
  const verbs = verbsOf(model)
  const right = verbs.length > 0 ? `it has ${verbs.join(', ')}` : 'reprise show describes it'
  const what = `${timeline} is ${model ? `a ${model.kind}` : 'no workflow'}, which has no ${verb}: ${right}`
  return new RepriseError('INVALID_ARGUMENT', what, { timeline, kind: model?.kind ?? null, verb })
}

export function isWorkflow(value: unknown): value is WorkflowDefinition {
  return (value as { kind?: unknown } | null)?.kind === 'workflow'
}
