// One run of a workflow, as the commands hold it, and the refusal for a timeline of another model: with its code, and
// with the command that is the right one there.

import { RepriseError } from '../core/errors.ts'
import type { Head } from '../core/ports.ts'
import { idBelow } from '../core/scope.ts'
import { hostOf } from '../engine/host.ts'
import { verbsOf } from '../engine/model.ts'
import type { Reprise } from '../engine/reprise.ts'
import { type WorkflowDefinition, type WorkflowRun, workflow, workflows } from '../layers/workflow/index.ts'
import { type Options, text } from './command.ts'
import { findTimeline } from './find.ts'
import { loadModule } from './module.ts'

export interface Found {
  readonly head: Head
  readonly run: WorkflowRun
}

/** For verbs that need none of the code: what happens is done by whoever works on the run. */
export async function findRun(engine: Reprise, given: string, verb: string): Promise<Found> {
  const head = await findTimeline(engine, given)
  const { name, id } = partsOf(engine, head, verb)
  return { head, run: workflows(engine).of(placeholder(name)).get(id) }
}

/** For verbs that replay its code: from --module, or from the module that `reprise run` noted. */
export async function findCode(engine: Reprise, given: string, verb: string, options: Options): Promise<Found> {
  const head = await findTimeline(engine, given)
  const { name, id } = partsOf(engine, head, verb)
  const file = text(options, 'module') ?? head.attributes.module
  if (typeof file !== 'string') {
    const what = `${verb} needs the code of ${head.timeline}: name the module that exports it with --module FILE`
    throw new RepriseError('INVALID_ARGUMENT', what, { timeline: head.timeline })
  }
  const exported = Object.values(await loadModule(file)).filter(isWorkflow)
  const definition = exported.find((each) => each.name === name)
  if (!definition) throw new RepriseError('NOT_FOUND', `${file} exports no workflow ${name}`, { file })
  return { head, run: workflows(engine).of(definition).get(id) }
}

/** @example throw wrongModel(engine, 'job/papers', 'query') */
function wrongModel(engine: Reprise, timeline: string, verb: string): RepriseError {
  const model = hostOf(engine).models.find(timeline)
  const verbs = verbsOf(model)
  const right = verbs.length > 0 ? `it has ${verbs.join(', ')}` : 'reprise show says what it is'
  const what = `${timeline} is ${model ? `a ${model.kind}` : 'no workflow'}, which has no ${verb}: ${right}`
  return new RepriseError('INVALID_ARGUMENT', what, { timeline, kind: model?.kind ?? null, verb })
}

function partsOf(engine: Reprise, head: Head, verb: string): { readonly name: string; readonly id: string } {
  const below = idBelow('workflow/', head.timeline)
  const slash = below?.indexOf('/') ?? -1
  if (below === null || slash < 1) throw wrongModel(engine, head.timeline, verb)
  return { name: below.slice(0, slash), id: below.slice(slash + 1) }
}

function placeholder(name: string): WorkflowDefinition {
  return workflow<unknown, unknown>(name, () => {
    throw new RepriseError('BUG', `the code of ${name} is not here`)
  })
}

function isWorkflow(value: unknown): value is WorkflowDefinition {
  return (value as { kind?: unknown } | null)?.kind === 'workflow'
}
