// The testing kit for workflows: the kit of every model, and runs that outlive crashes.

import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Reprise } from '../engine/api/reprise.ts'
import { hostOf } from '../engine/host/host.ts'
import type { IsNone, RunArguments } from '../engine/model/run-arguments.ts'
import type { AnyWorkflow } from '../layers/workflow/context.ts'
import type { WorkflowDefinition } from '../layers/workflow/definition.ts'
import type { WorkflowRun } from '../layers/workflow/handle/run.ts'
import { hostOf as workflowHostOf } from '../layers/workflow/host.ts'
import type { StartOptions } from '../layers/workflow/options.ts'
import { checkDefinitions } from '../layers/workflow/tools/check.ts'
import { loadHistory } from '../layers/workflow/tools/export.ts'
import { TestKit } from './test-kit.ts'

/** The input, unless the workflow takes none, and the options with the run's id. */
export type KitArguments<Input> =
  IsNone<Input> extends true
    ? [options: StartOptions & { readonly id: string }]
    : [input: Input, options: StartOptions & { readonly id: string }]

export class WorkflowKit extends TestKit {
  /** Starts a run and waits until it is durably started, through crashes if necessary. */
  async run<Input, Output>(
    definition: WorkflowDefinition<Input, Output>,
    ...given: KitArguments<NoInfer<Input>>
  ): Promise<WorkflowRun<Output>> {
    this.work(definition)
    return await this.survive((rp) => rp.run(definition, ...(given as RunArguments<Input, StartOptions>)))
  }

  /** The result of a run, despite crashes on the way. */
  async result<Output>(run: WorkflowRun<Output>): Promise<Output> {
    return await this.survive((rp) => this.handle(run, rp).result())
  }

  /** The same run, through the live process. */
  handle<Output>(run: WorkflowRun<Output>, rp: Reprise = this.rp): WorkflowRun<Output> {
    return workflowHostOf(hostOf(rp)).handle<Output>(run.definition, run.id)
  }
}

// Replays recorded histories with the current code, for any test runner: throws with the run and the step that diverge.

/** @example await checkHistories([checkout], './histories') // how many were replayed */
export async function checkHistories(definitions: readonly AnyWorkflow[], folder: string): Promise<number> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.json')).sort()
  const histories = await Promise.all(names.map((name) => loadHistory(join(folder, name))))
  const kit = new WorkflowKit()
  try {
    const { diverging, unknown, checked } = await checkDefinitions(kit.rp, definitions, { histories })
    if (diverging.length > 0) throw new Error(diverging.map(({ problem }) => problem).join('\n'))
    if (unknown.length > 0) throw new Error(`no definition was given for ${unknown.join(', ')}`)
    return checked
  } finally {
    await kit.close()
  }
}
