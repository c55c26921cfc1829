// Decides whether the operators of a run are placed on worker threads, and starts the threads.

import { RepriseError } from '../../../core/errors.ts'
import type { Host } from '../../../engine/host/host.ts'
import type { Graph } from '../graph.ts'
import { isStageThread } from '../stages/messages.ts'
import { planOf, type StagePlan } from '../stages/plan.ts'
import type { Stages, StagesOf } from '../stages/stages.ts'
import type { Origins } from './record-origins.ts'
import type { Scale } from './wiring.ts'

/** Null: all operators are in the main thread. */
export function stagePlanOf(
  name: string,
  graph: Graph,
  {
    scale,
    threads,
    origins,
  }: { readonly scale: Scale; readonly threads: number | undefined; readonly origins: Origins | null },
): StagePlan | null {
  if (threads === undefined) return null
  if (origins !== null) {
    const what = `the pipeline ${name} cannot run on several threads: call(), sendSink() and httpSink() follow each record from its source. Omit threads, or use another sink and make the calls in a second pipeline`
    throw new RepriseError('INVALID_ARGUMENT', what)
  }
  return planOf(name, graph, scale, threads)
}

/** Loads the threads only here, because other runtimes have no threads. */
export async function openStages({ kernel, clock }: Host, of: Omit<StagesOf, 'codec' | 'clock'>): Promise<Stages> {
  if (isStageThread in globalThis) {
    const what = `the module of the pipeline ${of.name} runs it when a thread loads the module: define it in a module that starts no pipeline`
    throw new RepriseError('INVALID_ARGUMENT', what, { module: of.module })
  }
  const { Stages } = await import('../stages/stages.ts')
  return await Stages.open({ ...of, codec: kernel.codec, clock })
}
