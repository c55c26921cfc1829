// Which build of a projection is live. The timeline projection/<name> has one attribute for each version of the code:
// the number of the generation that readers use. A rebuild makes the next number beside it; changing the attribute, in
// one commit, is the swap.

import { timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { originDigest } from '../../core/run.ts'
import { newOperation } from '../../engine/kernel.ts'
import type { Reprise } from '../../engine/reprise.ts'

export function generationTimeline(
  name: string,
  version: string,
  generation: number,
  partition: number | null,
): string {
  const tail = partition === null ? '' : `/${partition}`
  return `projection/${name}@${version}-${generation}${tail}`
}

export async function liveGeneration(engine: Reprise, name: string, version: string): Promise<number> {
  const head = await engine.head(`projection/${name}`)
  const live = head?.attributes[`live.${version}`]
  return typeof live === 'number' ? live : 1
}

/** Makes `to` the live one, unless somebody else swapped since `from`: then CONFLICT. */
export async function swapGeneration(
  engine: Reprise,
  name: string,
  version: string,
  from: number,
  to: number,
): Promise<void> {
  const { store, committer, random, hash, worker } = engine.kernel
  const timeline = timelineId(`projection/${name}`)
  const attributes = { [`live.${version}`]: to }
  for (;;) {
    if ((await liveGeneration(engine, name, version)) !== from) {
      throw new RepriseError('CONFLICT', `${name} was rebuilt by somebody else meanwhile`, { name, from, to })
    }
    const [head] = await store.head([timeline])
    const take = {
      worker: await worker.register(),
      from: 'anyone' as const,
      create: { digest: originDigest(hash, timeline) },
    }
    const guard = { timeline, epoch: head?.epoch ?? 0 }
    // Taken and let go in the same commit: the new epoch makes a second swap from the same state fail.
    const outcome = await committer.submit({ operation: newOperation(random), guard, take, attributes, release: true })
    if (outcome.ok) return
    if (outcome.code === 'WORKER_RETIRED') await worker.renewNow()
    else if (outcome.code !== 'FENCED') {
      throw new RepriseError(outcome.code, `${timeline}: ${outcome.reason}`, { timeline })
    }
  }
}

/** Removes a generation that nobody reads any more: its checkpoints, its history and its cursor. */
export async function forgetGeneration(engine: Reprise, timeline: string): Promise<void> {
  const { store, committer, random } = engine.kernel
  const id = timelineId(timeline)
  for (;;) {
    const [head] = await store.head([id])
    if (!head) return
    const outcome = await committer.submit({
      operation: newOperation(random),
      guard: { timeline: id, epoch: head.epoch },
      forget: true,
    })
    if (outcome.ok || outcome.code !== 'FENCED') return
  }
}

/**
 * Ends a generation whose rows lie in the user's own tables: nobody may write to them any more. Its line stays, since a
 * process that has not heard of the swap yet would otherwise make it anew and apply every event a second time.
 */
export async function endGeneration(engine: Reprise, timeline: string): Promise<void> {
  const { store, committer, random, worker } = engine.kernel
  const id = timelineId(timeline)
  for (;;) {
    const [head] = await store.head([id])
    if (!head) return
    const outcome = await committer.submit({
      operation: newOperation(random),
      guard: { timeline: id, epoch: head.epoch },
      take: { worker: await worker.register(), from: 'anyone' },
      status: endedStatus,
      cursors: { [timeline]: null },
      release: true,
    })
    if (outcome.ok) return
    if (outcome.code === 'WORKER_RETIRED') await worker.renewNow()
    else if (outcome.code !== 'FENCED') return
  }
}

export const endedStatus = 'superseded'
