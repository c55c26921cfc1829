// One run of a workflow, from a person's input.

import { RepriseError } from '../core/errors.ts'
import type { Head } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import type { WorkflowRun } from '../layers/workflow/index.ts'
import { isWorkflow, partsOf, runOf, runWithCode } from '../operations/runs.ts'
import { type Options, text } from './command.ts'
import { oneOf } from './find-definition.ts'
import { findTimeline } from './find-timeline.ts'
import { loadModule } from './module.ts'

export interface FoundRun {
  readonly head: Head
  readonly run: WorkflowRun
}

/** For verbs that do not need the code: the worker of the run executes them. */
export async function findRun(engine: Reprise, given: string, verb: string): Promise<FoundRun> {
  const head = await findTimeline(engine, given)
  return { head, run: runOf(engine, head, verb) }
}

/** For verbs that replay its code: from --module, or from the module recorded by `reprise run`. */
export async function findCode(engine: Reprise, given: string, verb: string, options: Options): Promise<FoundRun> {
  const head = await findTimeline(engine, given)
  const { name } = partsOf(engine, head, verb)
  const file = moduleOf(head, options)
  if (file === undefined) {
    const what = `${verb} needs the code of ${head.timeline}: name the module that exports it with --module FILE`
    throw new RepriseError('INVALID_ARGUMENT', what, { timeline: head.timeline })
  }
  const exported = Object.values(await loadModule(file))
  const code = oneOf(exported.filter(isWorkflow), name, 'workflow', file)
  return { head, run: runWithCode(engine, head, verb, [code])! }
}

/** With its code if available, which improves some results; otherwise without. */
export async function findRunOrCode(engine: Reprise, given: string, verb: string, options: Options): Promise<FoundRun> {
  const found = await findRun(engine, given, verb)
  const modulePath = text(options, 'module')
  const file = moduleOf(found.head, options)
  if (file === undefined) return found
  // The recorded module may be on another machine.
  if (modulePath !== undefined) return await findCode(engine, given, verb, options)
  const module = await loadModule(file).catch(() => null)
  const run = module && runWithCode(engine, found.head, verb, Object.values(module))
  return run ? { head: found.head, run } : found
}

function moduleOf({ attributes }: Head, options: Options): string | undefined {
  const file = text(options, 'module') ?? attributes.module
  return typeof file === 'string' ? file : undefined
}
